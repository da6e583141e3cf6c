// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/residency/file_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "producer/foreign/named_path.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/requester.h"
#include "producer/sources/residency/probe.h"

#define LATE_PAUSE NSEC_PER_SEC

bool file_error_passes(int error)
{
    return process_file_is_late(error) || error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

int file_open_held(int held, int *ret_fd, struct stat *ret_stat)
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", held);
    return residency_open(AT_FDCWD, link, ret_fd, ret_stat);
}

int file_opener_open_path(struct file_opener *opener, const char *path, int *ret_fd,
                          struct stat *ret_stat)
{
    const struct named_path how = {.mounts = &opener->mounts};
    CLEANUP(close_fdp) int held = named_path_hold(&how, path, ret_stat);
    if (held < 0)
        return held;
    int r = requester_may_read(opener->requester, &opener->mounts, held, ret_stat);
    if (r <= 0)
        return r < 0 ? r : -ESTALE;
    return file_open_held(held, ret_fd, ret_stat);
}

// Opens a mapped file by its name, as this program sees the name. Returns -ESTALE if the name leads
// to another file, or to a file that the requester may not read: the process decides where its file
// is mounted, and thereby about the name. (A file of another subvolume or layer can pass for the
// file.)
static int open_by_name(struct file_opener *opener, const struct file_mapping *mapped,
                        const char *path, int *ret_fd, struct stat *ret_stat)
{
    dev_t device;
    uint64_t inode;
    CLEANUP(close_fdp) int fd = -1;
    int r = file_opener_open_path(opener, path, &fd, ret_stat);
    if (r < 0)
        return r;
    if (maps_identify(fd, &device, &inode) < 0 || device != mapped->device ||
        inode != mapped->inode)
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

// Opens a file by its address range (map_files). This leads to the right file even if the file was
// deleted or is in another mount namespace, but needs CAP_CHECKPOINT_RESTORE. The process can have
// executed a set-uid program since it was checked.
static int open_by_range(struct file_opener *opener, const struct file_mapping *mapped, int *ret_fd,
                         struct stat *ret_stat)
{
    char link[64];
    struct process_file held CLEANUP(process_file_close) = {.fd = -1};
    if (mapped->pid == opener->late_pid && nsec_now(CLOCK_MONOTONIC) < opener->late_until)
        return -EAGAIN;
    snprintf(link, sizeof(link), "map_files/%llx-%llx", (unsigned long long)mapped->start,
             (unsigned long long)mapped->end);
    int r = process_file_open(&held, opener->proc, mapped->pid, link, O_PATH);
    if (process_file_is_late(r)) {
        opener->late_pid = mapped->pid;
        opener->late_until = nsec_now(CLOCK_MONOTONIC) + LATE_PAUSE;
    }
    if (r == 0 && !requester_may_trace(opener->requester, opener->proc, mapped->pid))
        r = -ESRCH;
    if (r == 0)
        r = foreign_mounts_judge(&opener->mounts, mapped->pid, held.fd);
    return r < 0 ? r : file_open_held(held.fd, ret_fd, ret_stat);
}

// Returns whether the name may lead to a file that the address range does not lead to: without the
// capability; for a process with another root, which cannot reach the mount (-ENODEV); and while
// the mounts of the process cannot be read.
static bool may_lead(int by_range)
{
    return by_range == -EPERM || by_range == -EACCES || by_range == -ENODEV || by_range == -EAGAIN;
}

int file_opener_open_mapped(struct file_opener *opener, const struct file_mapping *mapped,
                            const char *path, int *ret_fd, struct stat *ret_stat)
{
    int r = open_by_range(opener, mapped, ret_fd, ret_stat);
    if (!may_lead(r))
        return r;
    bool is_refused = r == -EAGAIN && opener->mounts.is_refused;
    int by_name = open_by_name(opener, mapped, path, ret_fd, ret_stat);
    opener->mounts.is_refused |= is_refused && by_name < 0;
    bool says_more = r == -EPERM || r == -EACCES || (r == -ENODEV && file_error_passes(by_name));
    return by_name == 0 || says_more ? by_name : r;
}
