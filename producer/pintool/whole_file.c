// SPDX-License-Identifier: Apache-2.0
//
// A truncated pinlist pins too little, without notice: a file gets its name only when all of it
// is on the disk. A symbolic link stays a link: the file that it leads to is replaced.
//
// A link of another user is not followed, whatever fs.protected_symlinks says: the link would lead
// root to any file (path_walk()).
#include "producer/pintool/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"

#define TRIES_MAX 16

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

// Writes into an existing file, for example a pipe. A regular file is written in place only through
// a link of /proc, such as /dev/stdout.
static int write_in_place(const struct path_end *end, const void *bytes, size_t size)
{
    const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;
    CLEANUP(close_fdp)
    int fd = openat(end->folder, end->name, flags | (end->is_magic ? 0 : O_NOFOLLOW));
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (S_ISREG(st.st_mode) && (!end->is_magic || ftruncate(fd, 0) < 0))
        return end->is_magic ? -errno : -EAGAIN;
    return fd_write_all(fd, bytes, size);
}

// Opens a temporary file under a name that nobody can predict and occupy.
static int temporary_open(const struct path_end *end, char ret[PATH_MAX])
{
    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
            return -errno;
        snprintf(ret, PATH_MAX, "%s.%016" PRIx64 ".tmp", end->name, random);
        int fd = openat(end->folder, ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

// `old` describes the file whose mode is kept, or is NULL.
static int write_beside(const struct path_end *end, const struct stat *old, const void *bytes,
                        size_t size)
{
    char temporary[PATH_MAX];
    CLEANUP(close_fdp) int fd = temporary_open(end, temporary);
    if (fd < 0)
        return fd;
    int r = fd_write_all(fd, bytes, size);
    if (r == 0 && old && fchmod(fd, old->st_mode & 0777) < 0)
        r = -errno;
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(end->folder, temporary, end->folder, end->name) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(end->folder, temporary, 0);
    return r;
}

static int write_at(const struct path_end *end, const void *bytes, size_t size)
{
    struct stat st;
    if (fstatat(end->folder, end->name, &st, end->is_magic ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? write_beside(end, NULL, bytes, size) : -errno;
    if (!S_ISREG(st.st_mode) || end->is_magic)
        return write_in_place(end, bytes, size);
    return write_beside(end, path_end_is_strangers(end, &st) ? NULL : &st, bytes, size);
}

int whole_file_write(const char *path, const void *bytes, size_t size, struct err *err)
{
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    int r = path_walk(path, true, NULL, &end);
    if (end.part)
        return path_walk_error(path, &end, err);
    if (r == 0)
        r = write_at(&end, bytes, size);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}

int whole_file_replace(const char *path, const void *bytes, size_t size, struct err *err)
{
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    int r = path_walk(path, false, NULL, &end);
    if (end.part)
        return path_walk_error(path, &end, err);
    if (r == 0)
        r = write_beside(&end, NULL, bytes, size);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}
