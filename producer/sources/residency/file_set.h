// SPDX-License-Identifier: Apache-2.0
//
// The files that a residency source watches: named by paths, directories and globs, or mapped by
// processes. Each file (device and inode) is in the set once, however many names and mappings it
// has. Looking them up can take long, so a scan goes in slices:
//
//     while ((r = file_set_scan(set, deadline)) == FILE_SET_E_AGAIN)
//         ... let others work ...
//     file_set_sweep(set, forget, userdata);
//
// Files are kept open as far as RLIMIT_NOFILE allows (the soft limit is raised to the hard one);
// the rest is opened for each look. An open file's inode number cannot be given to another file,
// but the space of a deleted one is not freed until the set lets go of it, at the sweep after
// its user has set `gone`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "common/vec.h"

// file_set_scan() stopped at its deadline; call it again.
#define FILE_SET_E_AGAIN 1

struct residency_file {
    uint32_t id;           // from 1, never used again
    char *path;            // owned; the name it was found by
    char *open_path;       // owned; the name it can be opened by
    uint64_t device;       // st_dev
    uint64_t inode;        //
    int fd;                // owned; -1: opened for each look
    bool by_path;          // found by a path in the last scan, so that deletion ends it
    bool by_process;       // mapped by a process in the last scan
    bool gone;             // to be swept
    uint32_t seen_by_scan; // number of the scan that last met it
    void *user;            // whatever the set's user wants to know of it
};

VEC_DEFINE(residency_files, struct residency_file *);

// All borrowed until file_set_free().
struct file_set_options {
    char **paths;
    size_t n_paths;
    const int32_t *pids;
    size_t n_pids;
    char **cmdlines; // globs for argv[0] or its base name
    size_t n_cmdlines;
    uint64_t min_size_bytes;
    size_t max_files;
    const char *proc; // "/proc"
    const struct log *log;
    const struct requester *requester; // NULL: root
};

struct file_set;

int file_set_new(const struct file_set_options *options, struct file_set **ret, struct err *err);
struct file_set *
file_set_free(struct file_set *set); // closes everything; `user` must be dealt with

// Continues a scan, or begins one. 0: it is complete, and files that it did not meet are `gone`;
// FILE_SET_E_AGAIN; or -ENOMEM. `deadline` is CLOCK_MONOTONIC. What cannot be looked up is logged
// when it is first met.
int file_set_scan(struct file_set *set, nsec_t deadline);

// In order of discovery; scans append, only a sweep removes.
const struct residency_files *file_set_files(const struct file_set *set);

// A descriptor for one look; give it back with file_set_release(). -ENOENT or -ESTALE: the file
// went away or was replaced.
int file_set_acquire(const struct residency_file *file, int *ret_fd);
void file_set_release(const struct residency_file *file, int fd);

// Removes files that are `gone`, after `forget` was called for each.
void file_set_sweep(struct file_set *set, void (*forget)(void *, struct residency_file *),
                    void *userdata);
