// SPDX-License-Identifier: Apache-2.0
//
// The files that a command line names: paths, files below folders, and files that a process maps.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/vec.h"

struct target {
    char *path;                // owned; for messages
    bool named;                // on the command line; otherwise found in a folder
    bool by_process;           // found through a process: the members below are set
    char *open_path;           // owned; the mapping itself, below /proc, or NULL
    char *root_path;           // owned; the path as the process sees it, or NULL
    uint64_t inode;            // of the mapped file
    struct page_ranges mapped; // owned; bytes of the file, sorted, not clipped to its size
};

VEC_DEFINE(target_items, struct target);

// All zero is an empty list.
struct targets {
    struct target_items items;
    size_t n_skipped;        // directories that could not be read
    char first_skipped[160]; // the first of them, with the reason
};

// Adds a file, or all regular files below a folder, sorted by name. Below the folder, links and
// mounts are not followed. Returns 0 or a negative errno with text; a missing path is an error.
int targets_add_path(struct targets *targets, const char *path, struct err *err);

// Adds all files that a process maps, in the order of its mappings, each once.
int targets_add_process(struct targets *targets, int32_t pid, struct err *err);

// Opens the file for reading and probing. Returns 0 or a negative errno: -EINVAL if it is not a
// regular file, -ESTALE if the path now leads to another file than the process maps.
int target_open(const struct target *target, int *ret_fd, struct stat *ret_stat);

void target_done(struct target *target);
void targets_done(struct targets *targets); // fit for CLEANUP()
