// SPDX-License-Identifier: Apache-2.0
//
// The trace files of a config: STEM-TIME.pftrace in one folder, with TIME like 20261121T031500Z.
// While a file is being written, it is named STEM-TIME.pftrace.part and locked. A part without a
// lock belongs to a dead daemon (armed_recover.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "common/log.h"

#define ARMED_FILE_SUFFIX ".pftrace"
#define ARMED_PART_SUFFIX ".part" // after ARMED_FILE_SUFFIX

// Borrowed. The limits hold for all files of one stem together; 0: no limit. The newest file always
// stays.
struct armed_folder {
    const char *path;
    const char *stem;   // without slash
    uint32_t max_files; // limit; in addition, marked files may take a quarter of this number, at
                        // least one
    uint64_t max_bytes; // limit; the same quarter applies
};

struct armed_file {
    int fd;       // owned; -1: no file
    char *path;   // owned: final name; NULL: no name yet
    bool is_part; // the file's present name is PATH.part
};

#define ARMED_FILE_NONE ((struct armed_file){.fd = -1})

// Makes a new file, and its folder if missing. The file has no name, unless the file system
// requires a name: then `now` gives the name. Returns 0 or a negative errno with text.
int armed_file_open(const struct armed_folder *folder, time_t now, struct armed_file *ret,
                    struct err *err);

// Names the file by the time `when`, unless the file has a name; adds -2, -3, ... if the name is
// taken. Afterwards the file exists as a part. Returns 0 or a negative errno with text.
int armed_file_publish(struct armed_file *file, const struct armed_folder *folder, time_t when,
                       struct err *err);

// Puts `other` (whose own name is removed) in the place of the part `file`, and exchanges their
// descriptors. Returns 0 or a negative errno.
int armed_file_replace(struct armed_file *file, struct armed_file *other,
                       const struct armed_folder *folder);

// Completes the part. Returns 0 when the file is on the disk and has its final name, or a negative
// errno. If the name was taken meanwhile, the file gets the next free name, or -EEXIST is returned.
// Allocates only for a new name.
int armed_file_complete(struct armed_file *file);

// Closes and removes a part.
void armed_file_drop(struct armed_file *file);

// Marks a file that a user other than root caused. Marked files have separate limits, and are
// removed first if room is short.
void armed_file_mark(const struct armed_file *file);

bool armed_file_is_empty(const struct armed_file *file);

// Closes the file. An empty file, or a file without a name, disappears; a part stays a part.
void armed_file_close(struct armed_file *file);

// Removes empty files of other processes, then the oldest files until the limits hold. Ignores
// files with other names. Must not be called while a file of this stem is open and empty.
void armed_folder_prune(const struct armed_folder *folder, const struct log *log);

// The oldest file that certainly belongs to the daemon, by its name, its owner, and the lack of a
// second link.
struct armed_oldest {
    bool is_marked; // marked files count as older than all others
    struct timespec changed;
    char name[256]; // empty: none yet
};
// Replaces *oldest by the oldest file of the folder if that is older. Returns true if *oldest
// changed.
bool armed_folder_find_oldest(const struct armed_folder *folder, struct armed_oldest *oldest);

// Returns true for "STEM-TIME.pftrace" and "STEM-TIME-N.pftrace".
bool armed_file_is_ours(const char *name, const char *stem);
