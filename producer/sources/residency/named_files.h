// SPDX-License-Identifier: Apache-2.0
//
// Finds the files that a path of a config names: one file, the matches of a glob, or all files
// below a folder. A walk pauses after each step:
//
//     named_files_begin(&walk, &how, path);
//     while ((r = named_files_next(&walk)) != NAMED_END)
//         if (r == NAMED_FILE)
//             ... walk.path, walk.st, walk.held ...
//     named_files_end(&walk);
//
// Others may own the folders and change them during the walk: names are looked up as named_path.h
// says. Below a folder, no link is followed, and no mount and no other device is entered.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "producer/foreign/named_path.h"

#define NAMED_DEPTH_MAX 128 // folders in one another; each takes a descriptor

enum { NAMED_END, NAMED_FILE, NAMED_STEP };

// A folder that is being read.
struct named_folder {
    DIR *dir;         // owned
    size_t path_size; // of its path with a slash, in `path`
    const char *rest; // the part of the pattern that its entries match; NULL: all files below
};

struct named_files {
    const char *pattern; // borrowed
    struct named_path how;
    struct named_folder folders[NAMED_DEPTH_MAX];
    size_t n_folders;
    dev_t device; // of the folder whose files are taken
    bool began, matched;
    bool repeats;               // the next step
    const struct dirent *entry; // the last one; borrowed from the last folder
    bool is_glob;               // the pattern has wildcards, and may match
    char path[NAMED_PATH_ROOM]; // of the last file, or of the last error
    // The last file.
    struct stat st;
    int held; // a descriptor of its path (O_PATH), borrowed until the next step
};

// Names are looked up, and folders listed, as `how` allows.
void named_files_begin(struct named_files *walk, const struct named_path *how, const char *pattern);
// Returns NAMED_FILE if the step has found a regular file, NAMED_STEP if not, NAMED_END after the
// last step, or a negative errno if walk->path is left out: -EINVAL if the path names no regular
// file and no folder, or an errno of named_path_hold(). The walk goes on after an error.
int named_files_next(struct named_files *walk);
// Has the next step repeat the last one, which returned a negative errno.
void named_files_repeat(struct named_files *walk);
void named_files_end(struct named_files *walk);
