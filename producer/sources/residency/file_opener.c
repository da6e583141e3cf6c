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
// deleted or is in another mount namespace, but needs CAP_CHECKPOINT_RESTORE.
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
    if (r == 0)
        r = foreign_mounts_judge(&opener->mounts, mapped->pid, held.fd);
    return r < 0 ? r : file_open_held(held.fd, ret_fd, ret_stat);
}

// The process can have executed a set-uid program since it was checked.
static int open_range_of(struct file_opener *opener, const struct file_mapping *mapped, int *ret_fd,
                         struct stat *ret_stat)
{
    CLEANUP(close_fdp) int fd = -1;
    int r = open_by_range(opener, mapped, &fd, ret_stat);
    if (r == 0 && !requester_may_trace(opener->requester, opener->proc, mapped->pid))
        r = -ESRCH;
    if (r == 0)
        *ret_fd = steal_fd(&fd);
    return r;
}

// Opens a mapped file. Its name serves where its address range does not: without the capability;
// and for a process with another root, which cannot reach the mount (-ENODEV).
int file_opener_open_mapped(struct file_opener *opener, const struct file_mapping *mapped,
                            const char *path, int *ret_fd, struct stat *ret_stat)
{
    int r = open_range_of(opener, mapped, ret_fd, ret_stat);
    if (r != -EPERM && r != -EACCES && r != -ENODEV)
        return r;
    int by_name = open_by_name(opener, mapped, path, ret_fd, ret_stat);
    return by_name == 0 || file_error_passes(by_name) || r != -ENODEV ? by_name : r;
}
