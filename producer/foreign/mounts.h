// SPDX-License-Identifier: Apache-2.0
//
// Tells whether a file is on a file system that a stranger may have mounted. Such a file system may
// never answer a look-up, open(), fstat() or close().
//
// The process that leads to a file says nothing about the file: a process without mounts of its own
// can map a file that another process has passed to it. Therefore the file itself is judged. A
// descriptor of its path (O_PATH) holds the file, its mount and the number of the mount. Lists of
// mounts name the file system of each mount. The file is trusted if this file system is mounted in
// the namespace of this program, too, or in that of process 1: both have only mounts that root has
// made or admitted. Shared memory without a name (memfd, SysV) is trusted, too.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/map.h"
#include "producer/foreign/process_file.h"

// The mounts of the mount namespace of one process.
struct mount_list {
    struct process_file file; // its mountinfo; open as long as the list is valid
    struct map64 devices;     // number of a mount -> device of its file system
};

struct foreign_mounts {
    const char *proc;             // borrowed
    uint64_t memory;              // number of the kernel's own mount for shared memory; 0: unknown
    struct mount_list own, first; // of this process, of process 1
    struct mount_list other;      // of the last process that led to a file of another namespace
    struct map64 devices;         // devices of the first two lists -> 0
};

void foreign_mounts_init(struct foreign_mounts *mounts, const char *proc);
void foreign_mounts_done(struct foreign_mounts *mounts);

// Judges the file that `fd` holds, to which process `pid` has led. Returns 0 if the file is
// trusted, -EXDEV if not, or another negative errno, as process_file_open() does. Asks no file
// system.
int foreign_mounts_judge(struct foreign_mounts *mounts, int32_t pid, int fd);
