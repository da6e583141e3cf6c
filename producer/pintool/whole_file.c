// SPDX-License-Identifier: Apache-2.0
//
// A pinlist that is cut pins too little without anybody noticing, so it appears under its name only
// when all of it is on the disk. A symbolic link stays one: what it leads to is replaced.
#include "producer/pintool/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

int whole_file_read(const char *path, size_t max_bytes, struct strbuf *ret, struct err *err)
{
    bool is_stream = str_eq(path, "-");
    const char *name = is_stream ? "standard input" : path;
    CLEANUP(close_fdp)
    int fd = is_stream ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                       : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, -errno, "%s", name);
    int r = fd_read_all(fd, max_bytes, ret);
    if (r == -EFBIG)
        return err_set(err, r, "%s: larger than %zu MiB", name, max_bytes >> 20);
    return r < 0 ? err_errno(err, r, "%s", name) : 0;
}

static int write_in_place(const char *path, const void *bytes, size_t size)
{
    CLEANUP(close_fdp) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd_write_all(fd, bytes, size);
}

// `old` describes the file that will be replaced, or is NULL.
static int write_beside(const char *path, const struct stat *old, const void *bytes, size_t size)
{
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof(temporary), "%s.%d.tmp", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof(temporary))
        return -ENAMETOOLONG;
    CLEANUP(close_fdp) int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, bytes, size);
    if (r == 0 && old && fchmod(fd, old->st_mode & 07777) < 0)
        r = -errno;
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(temporary);
    return r;
}

int whole_file_write(const char *path, const void *bytes, size_t size, struct err *err)
{
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT)
        return err_errno(err, -errno, "%s", path);
    int r;
    if (exists && !S_ISREG(st.st_mode)) {
        r = write_in_place(path, bytes, size);
    } else {
        CLEANUP(freep) char *target = exists ? realpath(path, NULL) : NULL;
        r = exists && !target
                ? -errno
                : write_beside(target ? target : path, exists ? &st : NULL, bytes, size);
    }
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}
