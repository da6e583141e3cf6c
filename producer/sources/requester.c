// SPDX-License-Identifier: Apache-2.0
//
// The kernel's access rules, computed here: to ask the kernel, the process would need the right to
// become any user. Where an access list or a capability in a user namespace would decide, the
// answer is no. Security modules are not asked.
//
// A process may execute another program after the check. Code that attaches therefore checks before
// it attaches, and again when the process has connected.
#include "producer/sources/requester.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/foreign/named_path.h"
#include "producer/ground/proc_text.h"

#define STATUS_MAX 4096

// "Uid:\t1000\t1000\t1000\t1000": returns whether all four are `id`.
static bool all_are(struct span line, uint64_t id)
{
    uint64_t value;
    for (int i = 0; i < 4; i++)
        if (!span_take_u64(&line, &value) || value != id)
            return false;
    return true;
}

// The owner of the status file is root if the process is undumpable.
static bool is_open(const struct requester *requester, const char *proc, int32_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%d/status", proc, pid);
    return stat(path, &st) == 0 && st.st_uid == requester->uid;
}

bool requester_may_trace(const struct requester *requester, const char *proc, int32_t pid)
{
    if (!requester || !requester->is_limited)
        return true;
    char text[STATUS_MAX];
    struct span status = text_file_span(text, sizeof(text), proc, "/%d/status", pid);
    return all_are(span_value_of(status, "Uid:"), requester->uid) &&
           all_are(span_value_of(status, "Gid:"), requester->gid) &&
           span_eq(span_value_of(status, "CapPrm:"), "\t0000000000000000") &&
           is_open(requester, proc, pid);
}

static bool is_in(const struct requester *requester, gid_t gid)
{
    for (size_t i = 0; i < requester->n_groups; i++)
        if (requester->groups[i] == gid)
            return true;
    return requester->gid == gid;
}

// Returns whether the mode gives the user all of `bits` (04: read, 01: search).
static bool mode_allows(const struct requester *requester, const struct stat *st, mode_t bits)
{
    if (st->st_uid == requester->uid)
        bits <<= 6;
    else if (is_in(requester, st->st_gid))
        bits <<= 3;
    return (st->st_mode & bits) == bits;
}

static bool has_list(int fd)
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return getxattr(self, "system.posix_acl_access", NULL, 0) > 0;
}

static bool allows(const struct requester *requester, int fd, const struct stat *st, mode_t bits)
{
    return mode_allows(requester, st, bits) && (st->st_uid == requester->uid || !has_list(fd));
}

bool requester_may_use(void *requester, int fd, const struct stat *st, mode_t bits)
{
    const struct requester *user = requester;
    return !user || !user->is_limited || allows(user, fd, st, bits);
}

int requester_may_read(const struct requester *requester, struct foreign_mounts *mounts, int fd,
                       const struct stat *st)
{
    char self[64], path[PATH_MAX];
    if (!requester || !requester->is_limited)
        return 1;
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(self, path, sizeof(path) - 1);
    if (n <= 0 || *path != '/' || !allows(requester, fd, st, 04))
        return 0;
    path[n] = '\0';
    struct stat found;
    struct named_path how = {.mounts = mounts,
                             .no_links = true,
                             .may_use = requester_may_use,
                             .userdata = (void *)(uintptr_t)requester};
    CLEANUP(close_fdp) int held = named_path_hold(&how, path, &found);
    if (held == -EAGAIN || held == -EMFILE || held == -ENFILE || held == -ENOMEM)
        return held;
    return held >= 0 && found.st_dev == st->st_dev && found.st_ino == st->st_ino;
}
