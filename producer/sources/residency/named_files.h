// SPDX-License-Identifier: Apache-2.0
//
// Finds the files that a path of a config names: one file, the matches of a glob, or all files
// below a folder. A walk pauses after each step:
//
//     named_files_begin(&walk, path);
//     while ((r = named_files_next(&walk)) != NAMED_END)
//         if (r == NAMED_FILE)
//             ... walk.path, walk.st, named_files_hold(&walk) ...
//     named_files_end(&walk);
//
// Others may own the folders and change them during the walk. Therefore nothing in /proc is looked
// up: its links (root, cwd, fd) lead into the mounts of other processes, whose file systems may
// never answer. Below a folder, no link is followed at all, and no other file system is entered.
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define NAMED_PATH_ROOM 8192
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
    struct named_folder folders[NAMED_DEPTH_MAX];
    size_t n_folders;
    dev_t device;        // of the folder whose files are taken
    bool began, is_glob; // is_glob: the pattern has wildcards, and may match
    bool matched;
    char path[NAMED_PATH_ROOM]; // of the last file, or of the last error
    // The last file.
    struct stat st;
    int held;         // owned (O_PATH); -1: the name was not opened yet
    const char *name; // in the last folder
};

void named_files_begin(struct named_files *walk, const char *pattern);
// Returns NAMED_FILE if the step has found a regular file, NAMED_STEP if not, NAMED_END after the
// last step, or a negative errno if walk->path is left out: -EINVAL if the path names no regular
// file and no folder. The walk goes on after an error.
int named_files_next(struct named_files *walk);
// Holds the last file. Returns a descriptor of its path (O_PATH), which the caller closes, or a
// negative errno.
int named_files_hold(struct named_files *walk);
void named_files_end(struct named_files *walk);

// Holds the file at `path`, which counts from the working folder if it is relative. Returns a
// descriptor of its path (O_PATH), which the caller closes, or a negative errno: -ENOTSUP if the
// path leads to, or through, files that the kernel makes (/proc, /sys).
int named_path_hold(const char *path);
