// SPDX-License-Identifier: Apache-2.0
//
// A truncated pinlist pins too little, without notice: a file gets its name only when all of it
// is on the disk. A symbolic link stays a link: the file that it leads to is replaced.
//
// A folder that everybody may write to (/tmp) has names that other users chose. In this folder
// another user's link is not followed, whatever fs.protected_symlinks says: it would lead root to
// any file. Each link is read through the descriptor whose owner was checked, so it cannot be
// exchanged.
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

#define LINKS_MAX 8
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

static int write_in_place(const char *path, const void *bytes, size_t size)
{
    CLEANUP(close_fdp) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? -EAGAIN : fd_write_all(fd, bytes, size);
}

// Reads the path behind the link that `fd` is opened on, relative to the folder of `path`.
static int link_read(int fd, char path[PATH_MAX])
{
    char text[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t size = readlinkat(fd, "", text, sizeof(text) - 1);
    if (size < 0)
        return -errno;
    text[size] = '\0';
    const char *slash = text[0] == '/' ? NULL : strrchr(path, '/');
    int n = slash ? (int)(slash - path) + 1 : 0;
    n = snprintf(joined, sizeof(joined), "%.*s%s", n, path, text);
    if (n < 0 || n >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(path, joined, (size_t)n + 1);
    return 0;
}

// Replaces `path` by the name of the regular file that it leads to.
static int links_follow(char path[PATH_MAX], struct stat *ret)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        CLEANUP(close_fdp) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, ret) < 0)
            return -errno;
        if (!S_ISLNK(ret->st_mode))
            return S_ISREG(ret->st_mode) ? 0 : -EAGAIN;
        int r = path_is_strangers(path, ret) ? -EACCES : link_read(fd, path);
        if (r < 0)
            return r;
    }
    return -ELOOP;
}

// Opens a temporary file under a name that nobody can predict and occupy.
static int temporary_open(const char *path, char ret[PATH_MAX])
{
    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
            return -errno;
        int n = snprintf(ret, PATH_MAX, "%s.%016" PRIx64 ".tmp", path, random);
        if (n < 0 || n >= PATH_MAX)
            return -ENAMETOOLONG;
        int fd = open(ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

// `old` describes the file whose mode is kept, or is NULL.
static int write_beside(const char *path, const struct stat *old, const void *bytes, size_t size)
{
    char temporary[PATH_MAX];
    CLEANUP(close_fdp) int fd = temporary_open(path, temporary);
    if (fd < 0)
        return fd;
    int r = fd_write_all(fd, bytes, size);
    if (r == 0 && old && fchmod(fd, old->st_mode & 0777) < 0)
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
    char target[PATH_MAX];
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT)
        return err_errno(err, -errno, "%s", path);
    if (exists && !S_ISREG(st.st_mode)) {
        int r = write_in_place(path, bytes, size);
        return r < 0 ? err_errno(err, r, "%s", path) : 0;
    }
    size_t n = strlen(path);
    if (n >= sizeof(target))
        return err_errno(err, -ENAMETOOLONG, "%s", path);
    memcpy(target, path, n + 1);
    int r = exists ? links_follow(target, &st) : 0;
    if (r == -EACCES) {
        err_set(err, r, "%s: a link of another user, in a folder that everybody may write into",
                target);
        return err_hint(err, r, "name the file that it leads to, or remove the link");
    }
    if (r == 0)
        r = write_beside(target, exists && !path_is_strangers(target, &st) ? &st : NULL, bytes,
                         size);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}

int whole_file_replace(const char *path, const void *bytes, size_t size, struct err *err)
{
    int r = write_beside(path, NULL, bytes, size);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}
