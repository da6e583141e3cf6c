// SPDX-License-Identifier: Apache-2.0
//
// The trace files of a config that is recorded again and again: STEM-TIME.pftrace in one folder,
// with TIME like 20261121T031500Z. A file that is being written is named STEM-TIME.pftrace.part and
// is locked. A part without a lock was left behind by a daemon that died (armed_recover.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "common/log.h"

#define ARMED_FILE_SUFFIX ".pftrace"
#define ARMED_PART_SUFFIX ".part" // follows the other suffix

// Borrowed. The limits hold for all files of one stem together; 0: no limit. The newest file always
// stays.
struct armed_folder {
    const char *path;
    const char *stem;   // without slash
    uint32_t max_files; // marked files may take a quarter of this in addition, at least one file
    uint64_t max_bytes; // the same quarter applies
};

struct armed_file {
    int fd;       // owned; -1: no file
    char *path;   // owned: its final name; NULL: no name yet
    bool is_part; // the file is named PATH.part
};

#define ARMED_FILE_NONE ((struct armed_file){.fd = -1})

// Makes a new file, and its folder if that is missing. The file has no name, unless the file system
// does not support that: then `now` gives the name. Returns 0 or a negative errno with text.
int armed_file_open(const struct armed_folder *folder, time_t now, struct armed_file *ret,
                    struct err *err);

// Names the file by the time `when`, unless it has a name; adds -2, -3, ... if the name is taken.
// From here on the file exists as a part.
int armed_file_publish(struct armed_file *file, const struct armed_folder *folder, time_t when,
                       struct err *err);

// Puts `other` (whose own name is removed) in the place of the part `file`. Afterwards `file` is
// that file.
int armed_file_replace(struct armed_file *file, struct armed_file *other,
                       const struct armed_folder *folder);

// Completes the part: when this returns 0, the file is on the disk and has its final name. If the
// name was taken meanwhile, the file gets the next free name. Allocates only for a new name.
// Returns -EEXIST if no name is free.
int armed_file_complete(struct armed_file *file);

// Closes and removes a part.
void armed_file_drop(struct armed_file *file);

// Notes that a user other than root caused the file. Files with this mark have limits of their own,
// and are removed first if room is short.
void armed_file_mark(const struct armed_file *file);

bool armed_file_is_empty(const struct armed_file *file);

// Closes the file. An empty file, or one without a name, disappears; a part stays a part.
void armed_file_close(struct armed_file *file);

// Removes empty files that other processes left behind, then the oldest files until the limits
// hold. Ignores files with other names. Do not call it while a file of this stem is open and empty.
void armed_folder_prune(const struct armed_folder *folder, const struct log *log);

// The oldest file that is certainly the daemon's own: judged by its name, its owner, and the lack
// of a second link.
struct armed_oldest {
    bool is_marked; // marked files come before all others
    struct timespec changed;
    char name[256]; // empty: none so far
};
// Looks for a file that is older than *oldest and stores it there. Returns true if there is one.
bool armed_folder_find_oldest(const struct armed_folder *folder, struct armed_oldest *oldest);

// Returns true for "STEM-TIME.pftrace" and "STEM-TIME-N.pftrace".
bool armed_file_is_ours(const char *name, const char *stem);
