// SPDX-License-Identifier: Apache-2.0
//
// The real uid is that of whoever started the process. The owner of /proc/PID says less: it is root
// for each process that forbids to be traced.
//
// newuidmap gives one user 65536 uids, so budgets by uid alone would bound nothing. The kernel
// tells the owner of a user namespace, in the numbers of the namespace that asks. nsfs serves all
// look-ups here; a process has no part in that.
#include "producer/foreign/payer.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "producer/sources/proc_text.h"

#define DEPTH_MAX 33 // the kernel nests 32 deep

static bool is_same(int fd, const struct stat *st)
{
    struct stat of_fd;
    return fstat(fd, &of_fd) == 0 && of_fd.st_dev == st->st_dev && of_fd.st_ino == st->st_ino;
}

static uid_t real_uid(const char *proc, int32_t pid, uid_t otherwise)
{
    char text[4096];
    uint64_t uid = otherwise;
    ssize_t n = text_file_read_once(text, sizeof(text), proc, "/%d/status", pid);
    struct span rest = span_over(text, n > 0 ? (size_t)n : 0), line;
    while (span_take_line(&rest, &line))
        if (span_take_prefix(&line, "Uid:"))
            span_take_u64(&line, &uid);
    return (uid_t)uid;
}

uint64_t foreign_payer(const char *proc, int32_t pid, uid_t uid)
{
    char path[64];
    struct stat own;
    uid = real_uid(proc, pid, uid);
    uid_t owner = uid;
    snprintf(path, sizeof(path), "%s/%d/ns/user", proc, pid);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || stat("/proc/self/ns/user", &own) < 0)
        return uid;
    for (int depth = 0; depth < DEPTH_MAX && !is_same(fd, &own); depth++) {
        uid_t of_this;
        int parent = ioctl(fd, NS_GET_PARENT);
        if (parent < 0 || ioctl(fd, NS_GET_OWNER_UID, &of_this) < 0) {
            close_fd(parent);
            return uid; // a namespace that is not below ours
        }
        owner = of_this;
        close_fd(fd);
        fd = parent;
    }
    return owner;
}
