// SPDX-License-Identifier: Apache-2.0
//
// The user who asked for a recording. The recording contains a process or file of another user only
// if this user could see it without the recorder.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define REQUESTER_GROUPS_MAX 64

struct foreign_mounts;

// All zero is root, which has no limits.
struct requester {
    bool is_limited;
    uid_t uid;
    gid_t gid;
    gid_t groups[REQUESTER_GROUPS_MAX];
    size_t n_groups;
    uint64_t payer; // who pays for the user (payer.h)
};

// Returns whether the user could trace the process: all its ids are the user's, it has no
// capabilities, and it has not made itself undumpable (prctl(PR_SET_DUMPABLE), or a program that
// changes its user). A NULL requester has no limits.
bool requester_may_trace(const struct requester *requester, const char *proc, int32_t pid);

// Returns whether the user may use a folder, which `fd` holds: search (`bits` 01), list (04), or
// both (05). Fit for named_path.h.
bool requester_may_use(void *requester, int fd, const struct stat *st, mode_t bits);

// Returns 1 if the user could open the file for reading by its present name, 0 if not, or a
// negative errno if the names on the way cannot be judged now. `st` is the stat of `fd`. A file or
// folder with an access list counts as closed unless the user owns it.
int requester_may_read(const struct requester *requester, struct foreign_mounts *mounts, int fd,
                       const struct stat *st);
