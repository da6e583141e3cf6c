// SPDX-License-Identifier: Apache-2.0
//
// sysfs has the same setting as BLKRASET, and needs no device node. A watcher process restores the
// setting. It holds one end of a pipe whose other end only this process has, so it sees the end of
// this process, whatever the cause. The watcher has a session of its own, and takes no signals that
// a terminal or a service manager sends to all processes.
//
// Two users at once would be harmful: the second would find "off", and restore "off" at its end.
// Therefore the process that turns read-ahead off locks the file for the watcher's life.
#include "producer/pintool/read_ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"

static int open_setting(const char *sys, dev_t device, struct err *err)
{
    // A disk, a partition, and a file system without a block device (or over several).
    static const char *const places[] = {"dev/block/%u:%u/queue", "dev/block/%u:%u/../queue",
                                         "class/bdi/%u:%u"};
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        char directory[64], path[PATH_MAX];
        snprintf(directory, sizeof(directory), places[i], major(device), minor(device));
        snprintf(path, sizeof(path), "%s/%s/read_ahead_kb", sys, directory);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        if (errno != ENOENT && errno != ENOTDIR)
            return err_errno(err, -errno, "%s", path);
    }
    return err_set(err, -ENODEV, "device %u:%u has no read-ahead to turn off", major(device),
                   minor(device));
}

static int read_setting(int fd, uint64_t *ret_kb)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n < 0)
        return -errno;
    text[strcspn(text, "\n")] = 0;
    return str_parse_u64(text, ret_kb);
}

static int write_setting(int fd, uint64_t kb)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)kb);
    return pwrite(fd, text, (size_t)n, 0) == n ? 0 : -errno;
}

static _Noreturn void watch(int life_fd, int fd, uint64_t kb)
{
    char byte;
    while (read(life_fd, &byte, 1) < 0 && errno == EINTR)
        ;
    uint64_t now;
    if (read_setting(fd, &now) == 0 && now == 0)
        write_setting(fd, kb);
    _exit(0);
}

// All signals are blocked during the fork, so that none ends the watcher before it is ready.
static pid_t start_watcher(int fd, uint64_t kb, int *ret_life_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        setsid();
        watch(ends[0], fd, kb);
    }
    int r = -errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return r;
    }
    *ret_life_fd = ends[1];
    return pid;
}

int read_ahead_stop(const char *sys, dev_t device, struct read_ahead *ret, struct err *err)
{
    struct read_ahead stopped = READ_AHEAD_NONE;
    CLEANUP(close_fdp) int fd = open_setting(sys, device, err);
    if (fd < 0)
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno,
                       "the read-ahead of device %u:%u is held by another pintool", major(device),
                       minor(device));
    uint64_t kb;
    int r = read_setting(fd, &kb);
    bool is_off = r == 0 && kb == 0;
    if (r == 0 && !is_off)
        r = stopped.watcher = start_watcher(fd, kb, &stopped.life_fd);
    if (r >= 0 && !is_off)
        r = write_setting(fd, 0);
    if (r < 0) {
        stopped.watcher = stopped.watcher < 0 ? 0 : stopped.watcher;
        read_ahead_restore(&stopped);
        return err_errno(err, r, "read-ahead of device %u:%u", major(device), minor(device));
    }
    *ret = stopped;
    return 0;
}

void read_ahead_restore(struct read_ahead *read_ahead)
{
    read_ahead->life_fd = close_fd(read_ahead->life_fd);
    if (read_ahead->watcher)
        while (waitpid(read_ahead->watcher, NULL, 0) < 0 && errno == EINTR)
            ;
    read_ahead->watcher = 0;
}
