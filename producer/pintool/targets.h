// SPDX-License-Identifier: Apache-2.0
//
// The files that a command line means: paths, what is below directories, what a process maps.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/vec.h"

struct target {
    char *path;                // owned; for people
    bool named;                // on the command line, not found
    bool by_process;           // the rest is set
    char *open_path;           // owned; the mapping itself, below /proc, or NULL
    char *root_path;           // owned; the path as the process sees it, or NULL
    uint64_t inode;            //
    struct page_ranges mapped; // owned; bytes of the file, sorted, not clipped to its size
};

VEC_DEFINE(target_items, struct target);

// All zero is an empty list.
struct targets {
    struct target_items items;
    size_t n_skipped;        // directories that could not be read
    char first_skipped[160]; // and why, of the first of them
};

// A file, or all regular files below a directory, sorted by name; links are not followed there,
// nor mounts. What is not there is an error.
int targets_add_path(struct targets *targets, const char *path, struct err *err);

// All files that a process maps, in the order of its mappings, each once.
int targets_add_process(struct targets *targets, int32_t pid, struct err *err);

// Opens the file for reading and probing; 0 or a negative errno: -EINVAL: no regular file;
// -ESTALE: the process maps another file than the path now leads to.
int target_open(const struct target *target, int *ret_fd, struct stat *ret_stat);

void target_done(struct target *target);
void targets_done(struct targets *targets); // fit for CLEANUP()
