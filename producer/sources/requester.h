// SPDX-License-Identifier: Apache-2.0
//
// The user who asked for a recording, and what the recorder shows to this user of processes and
// files of others: what the user could see without it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define REQUESTER_GROUPS_MAX 64

// All zero is root, who has no limits.
struct requester {
    bool is_limited;
    uid_t uid;
    gid_t gid;
    gid_t groups[REQUESTER_GROUPS_MAX];
    size_t n_groups;
};

// Whether the user could trace the process: all its ids are the user's, it has no capabilities, and
// it has not shut others out (prctl(PR_SET_DUMPABLE), a program that changes its user). A NULL
// requester has no limits.
bool requester_may_trace(const struct requester *requester, const char *proc, int32_t pid);

// Whether the user could open the file for reading by the name that it has now. `st` is of `fd`. A
// file or folder with an access list counts as closed, unless the user owns it.
bool requester_may_read(const struct requester *requester, int fd, const struct stat *st);
