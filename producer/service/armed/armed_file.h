// SPDX-License-Identifier: Apache-2.0
//
// The trace files of a config that is recorded again and again: STEM-TIME.pftrace in one folder,
// TIME as in 20261121T031500Z. While a file is being written it is called STEM-TIME.pftrace.part
// and locked. A part without a lock was left by a daemon that died (armed_recover.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "common/log.h"

#define ARMED_FILE_SUFFIX ".pftrace"
#define ARMED_PART_SUFFIX ".part" // behind the other

// Borrowed. Limits of all files of one stem together; 0: none. The newest file always stays.
struct armed_folder {
    const char *path;
    const char *stem;   // without slash
    uint32_t max_files; // and a quarter of them, one at least, beside them for marked files
    uint64_t max_bytes; // likewise
};

struct armed_file {
    int fd;       // owned; -1: there is no file
    char *path;   // owned: its name when it is complete; NULL: it has none yet
    bool is_part; // what there is is PATH.part
};

#define ARMED_FILE_NONE ((struct armed_file){.fd = -1})

// A new file, and the folder if it is not there yet. Where the file system has no files without a
// name, it is called by `now`.
int armed_file_open(const struct armed_folder *folder, time_t now, struct armed_file *ret,
                    struct err *err);

// Chooses the file's name, unless it has one: that of `when`, with -2, -3, ... if it is taken. From
// here on it is there as a part.
int armed_file_publish(struct armed_file *file, const struct armed_folder *folder, time_t when,
                       struct err *err);

// `other` (whose name goes) takes the place of the part `file`, and is `file` from here on.
int armed_file_replace(struct armed_file *file, struct armed_file *other,
                       const struct armed_folder *folder);

// The part is complete: it is on the disk and has its name when this returns 0. If the name has
// been taken meanwhile, the file gets the next free name. -EEXIST: no name is free. No allocation,
// except for a new name.
int armed_file_complete(struct armed_file *file);

// Closes and removes a part.
void armed_file_drop(struct armed_file *file);

// Notes that a user other than root had the file made: such files have limits of their own, and go
// first where there is no room.
void armed_file_mark(const struct armed_file *file);

bool armed_file_is_empty(const struct armed_file *file);

// Closes the file. A file that is empty, or never got a name, is gone; a part stays a part.
void armed_file_close(struct armed_file *file);

// Removes empty files that a process left, and the oldest until the limits hold. Files with other
// names are not looked at. Never while a file of this stem is open but empty.
void armed_folder_prune(const struct armed_folder *folder, const struct log *log);

// The oldest file that is surely the daemon's own: by its name, its owner, and because it has no
// second name.
struct armed_oldest {
    bool is_marked; // those come before all others
    struct timespec changed;
    char name[256]; // empty: none so far
};
// Looks for a file that is older than *oldest, and stores it there. True: there is one.
bool armed_folder_find_oldest(const struct armed_folder *folder, struct armed_oldest *oldest);

// True for "STEM-TIME.pftrace" and "STEM-TIME-N.pftrace".
bool armed_file_is_ours(const char *name, const char *stem);
