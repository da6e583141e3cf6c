// SPDX-License-Identifier: Apache-2.0
//
// The files that a residency source watches: named by paths, folders and globs, or mapped by
// processes. Each file (device and inode) is in the set once, however many names and mappings it
// has. A scan for files may take long, so it runs in slices:
//
//     while ((r = file_set_scan(set, deadline)) == FILE_SET_E_AGAIN)
//         ... let others work ...
//     file_set_sweep(set, forget, userdata);
//
// Files are kept open as far as RLIMIT_NOFILE allows (the soft limit is raised to the hard limit).
// All others are opened for each look. While a file is open, its inode number cannot be reused. But
// the space of a deleted file is freed only when the set closes the file: at the first sweep after
// its `gone` was set.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "common/vec.h"

// file_set_scan() stopped at its deadline: call it again.
#define FILE_SET_E_AGAIN 1

// A mapping of a file in a process.
struct file_mapping {
    int32_t pid;
    uint64_t start, end;    // addresses
    uint64_t device, inode; // as maps tells them: the device can differ from st_dev
};

struct residency_file {
    uint32_t id;                // from 1, never reused
    char *path;                 // owned; the name under which the file was found
    struct file_mapping mapped; // the last mapping that led to the file; pid 0: none
    uint64_t device;            // st_dev
    uint64_t inode;             // st_ino
    int fd;                     // owned; -1: opened for each look
    bool by_path;          // the last scan found the file by a path: its deletion ends the watch
    bool by_process;       // a process mapped it in the last scan
    bool gone;             // to be removed by the next sweep
    uint32_t seen_by_scan; // number of the last scan that met the file
    void *user;            // for the set's user
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
    struct foreign *foreign;           // closes files of others; NULL: this process does
};

struct file_set;

int file_set_new(const struct file_set_options *options, struct file_set **ret, struct err *err);
struct file_set *file_set_free(struct file_set *set); // closes all files; release `user` before

// Begins or continues a scan. Returns 0 if the scan is complete: all files that it did not meet are
// `gone`. Otherwise returns FILE_SET_E_AGAIN or -ENOMEM. `deadline` is CLOCK_MONOTONIC. Only the
// first scan logs its failures.
int file_set_scan(struct file_set *set, nsec_t deadline);
// Ends a scan that is not complete, so that other sets of the user can walk.
void file_set_end_scan(struct file_set *set);
// Returns when the scan can go on (CLOCK_MONOTONIC; 0: at once): the mounts may have changed so
// often that they cannot be judged before, or another set of the same user walks along a path.
nsec_t file_set_resumes(const struct file_set *set);

// Returns how many sets the requester has, this one included; 1 for root.
size_t file_set_peers(const struct file_set *set);

// Returns the files in the order of discovery. Scans append files; only a sweep removes files.
const struct residency_files *file_set_files(const struct file_set *set);

// Gets a descriptor for one look; give it back with file_set_release(). Returns 0 or a negative
// errno: -ENOENT or -ESTALE if the file was removed or replaced, or its mapping has ended; an error
// of process_file_is_late() if the process that maps the file cannot be asked now.
int file_set_acquire(struct file_set *set, const struct residency_file *file, int *ret_fd);
void file_set_release(const struct file_set *set, const struct residency_file *file, int fd);
// Ends a round of looks. Mounts that were judged are held for a while, so that changes of other
// mounts do not delay the next looks.
void file_set_looked(struct file_set *set);

// Calls `forget` for each file that is `gone`, then removes the file.
void file_set_sweep(struct file_set *set, void (*forget)(void *, struct residency_file *),
                    void *userdata);
