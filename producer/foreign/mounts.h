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
// made or admitted. FUSE file systems of users are admitted, but not trusted. Shared memory without
// a name (memfd, SysV) is trusted.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/map.h"
#include "common/nsec.h"

// The mounts of one mount namespace that its process can reach.
struct mount_list {
    int fd;               // owned; its mountinfo, open as long as the list is valid; -1: none
    bool changed;         // the mounts are others now: poll() tells of a change once
    struct map64 devices; // number of a mount -> device of its file system
};

// A mount that was judged. Its number stays its own as long as it is held.
struct mount_verdict {
    uint64_t number;
    int32_t pid;         // that led to a file of the mount; counts if the mount is not trusted
    int result;          // 0 or a negative errno, of foreign_mounts_judge()
    int fd;              // owned; a file of the mount (O_PATH)
    nsec_t judged, used; // CLOCK_MONOTONIC
};

#define FOREIGN_HELD_MAX 256

// All that judge share their knowledge of mounts. One of them reads the lists for all, and judges a
// mount for all.
struct trusted_mounts {
    char *proc;                   // owned
    unsigned n_users;             // that judge
    struct trusted_mounts *next;  // with another /proc: in tests
    struct mount_list own, first; // of this process, of process 1
    struct map64 devices;         // devices of these two lists -> 0
    struct map64 automounts;      // hash of a path of `own` where an automount begins -> 0
    nsec_t renew_earliest;        // the two lists are not read before (CLOCK_MONOTONIC)
    struct mount_verdict verdicts[FOREIGN_HELD_MAX];
    size_t n_verdicts;
    uint64_t memory;   // number of the kernel's own mount for shared memory
    bool knows_memory; // `memory` is known
};

struct foreign;

struct foreign_mounts {
    struct trusted_mounts *trusted; // shared
    bool is_refused;         // the last judgement would have needed lists that are not read now
    struct mount_list other; // of process `other_pid`, which led to a file of neither list
    int32_t other_pid;       // 0: none
    nsec_t other_used;
    nsec_t other_until;      // end of the period in which `n_other_reads` counts
    unsigned n_other_reads;  // of the list of this process
    struct foreign *foreign; // borrowed; closes files of others; NULL: this process does
    uint64_t payer;          // for these files
};

// Returns 0 or -ENOMEM. foreign_mounts_done() may be called in both cases, and on all zero.
int foreign_mounts_init(struct foreign_mounts *mounts, const char *proc);
void foreign_mounts_done(struct foreign_mounts *mounts);

// Gets the number of the mount of the file that `fd` holds. Returns 0 or a negative errno.
int foreign_mount_number(int fd, uint64_t *ret);

// Gives up mounts that were not used for a while. Mounts that are held cannot be unmounted, and a
// mount namespace whose list is open does not end.
void foreign_mounts_tidy(struct foreign_mounts *mounts);
// Gives up the list of the last process.
void foreign_mounts_forget_process(struct foreign_mounts *mounts);

// Judges the file that `fd` holds. `pid` is the process that has led to the file, or 0 for a name.
// Returns 0 if the file is trusted; -EXDEV if not; -ENODEV if the process cannot reach the mount of
// the file: the file is not trusted then; -EAGAIN if mounts change so often that the lists are not
// read before trusted->renew_earliest (`is_refused`), or if the process has changed its mounts
// several times within a second; or another negative errno: the file could not be judged. Asks no
// file system. A mount that is used again and again is judged once; a mount that is not trusted is
// judged again after some seconds.
int foreign_mounts_judge(struct foreign_mounts *mounts, int32_t pid, int fd);

// Returns whether an automount begins at the entry of the folder. A look-up there could wait for
// the automounter. The answer is as new as the last judgement.
bool foreign_mounts_is_automount(const struct foreign_mounts *mounts, int folder, const char *name);
