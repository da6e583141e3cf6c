// SPDX-License-Identifier: Apache-2.0
//
// Opens the files of a set (file_set.h), by their paths or by the mappings of processes: only files
// of trusted file systems (mounts.h), and only what the requester may see.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/nsec.h"
#include "producer/foreign/mounts.h"
#include "producer/sources/residency/file_set.h"

struct file_opener {
    const char *proc;                  // borrowed
    const struct requester *requester; // borrowed; NULL: root
    struct foreign_mounts mounts;      // owned
    int32_t late_pid;                  // the last process whose files could not be opened in time
    nsec_t late_until;                 // no file of this process is opened before (CLOCK_MONOTONIC)
};

// Returns whether the error says nothing about the file.
bool file_error_passes(int error);

// These functions return 0, and a descriptor that the caller closes, or a negative errno.

// Opens the file that `held` (O_PATH) holds. The caller has judged the file.
int file_open_held(int held, int *ret_fd, struct stat *ret_stat);

// Opens the file that the path leads to. A file is opened only if the requester may read the file:
// to open a file ends leases that others have on the file. Returns -ESTALE if the requester may
// not.
int file_opener_open_path(struct file_opener *opener, const char *path, int *ret_fd,
                          struct stat *ret_stat);

// Opens a mapped file. `path` is its name in the maps of the process.
int file_opener_open_mapped(struct file_opener *opener, const struct file_mapping *mapped,
                            const char *path, int *ret_fd, struct stat *ret_stat);
