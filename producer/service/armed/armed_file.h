// SPDX-License-Identifier: Apache-2.0
//
// The trace files of a config that is recorded again and again: STEM-TIME.pftrace in one folder,
// TIME as in 20261121T031500Z. A file has a name only when there is something in it; old ones make
// room for new ones.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "common/log.h"

#define ARMED_FILE_SUFFIX ".pftrace"

// Borrowed. Limits of all files of one stem together; 0: none. The newest file always stays.
struct armed_folder {
    const char *path;
    const char *stem; // without slash
    uint32_t max_files;
    uint64_t max_bytes;
};

struct armed_file {
    int fd;     // owned; -1: there is no file
    char *path; // owned; NULL: it has no name yet
};

#define ARMED_FILE_NONE ((struct armed_file){.fd = -1})

// A new file, and the folder if it is not there yet. Where the file system has no files without a
// name, it is called by `now`.
int armed_file_open(const struct armed_folder *folder, time_t now, struct armed_file *ret,
                    struct err *err);

// Gives the file a name, unless it has one: that of `when`, with -2, -3, ... if it is taken.
int armed_file_publish(struct armed_file *file, const struct armed_folder *folder, time_t when,
                       struct err *err);

bool armed_file_is_empty(const struct armed_file *file);

// Closes. What is empty, or never got a name, is gone.
void armed_file_close(struct armed_file *file);

// Removes empty files that a process left, and the oldest until the limits hold. Files with other
// names are not looked at. Never while a file of this stem is open but empty.
void armed_folder_prune(const struct armed_folder *folder, const struct log *log);

// True for "STEM-TIME.pftrace" and "STEM-TIME-N.pftrace".
bool armed_file_is_ours(const char *name, const char *stem);
