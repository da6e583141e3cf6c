// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and tracefs, and pipes, report no size. Therefore fd_read_all() reads until the
// end of the file. The caller limits the size.
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

#define CHUNK_BYTES 16384

int fd_read_all(int fd, size_t max_bytes, struct strbuf *ret)
{
    char chunk[CHUNK_BYTES];
    size_t total = 0;
    ssize_t n;
    while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        strbuf_add(ret, chunk, (size_t)n);
        total += (size_t)n;
        if (ret->failed)
            return -ENOMEM;
        if (total > max_bytes)
            return -EFBIG;
    }
    strbuf_add(ret, "", 0);
    return ret->failed ? -ENOMEM : 0;
}

int fd_write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int fd_copy(int from, int to, bool *ret_write)
{
    char chunk[CHUNK_BYTES];
    *ret_write = false;
    for (;;) {
        ssize_t n = read(from, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = fd_write_all(to, chunk, (size_t)n);
        if (r < 0) {
            *ret_write = true;
            return r;
        }
    }
}

int folder_make(const char *path, mode_t mode)
{
    CLEANUP(freep) char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    for (char *p = copy + 1; *copy && (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(copy, 0755);
        *p = '/';
    }
    return mkdir(copy, mode) < 0 && errno != EEXIST ? -errno : 0;
}

// Opens the components of `path` one by one. No component may be a link.
static int open_by_steps(int root_fd, const char *path, int flags)
{
    CLEANUP(close_fdp) int folder = -1;
    for (;;) {
        char name[NAME_MAX + 1];
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        bool is_last = path[n + strspn(path + n, "/")] == '\0';
        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        snprintf(name, sizeof(name), "%.*s", (int)n, n ? path : ".");
        if (strcmp(name, "..") == 0)
            return -EXDEV;
        int fd = openat(folder < 0 ? root_fd : folder, name,
                        (is_last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || is_last)
            return fd < 0 ? -errno : fd;
        close_fd(folder);
        folder = fd;
        path += n;
    }
}

int open_in_root(int root_fd, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return open_by_steps(root_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

static int regular_check(int fd, uint64_t max_bytes)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return (uint64_t)st.st_size > max_bytes ? -EFBIG : 0;
}

// Holds the file by a descriptor of its path (O_PATH), then opens the file through this descriptor
// instead of its name. Without /proc, the name is opened twice and checked both times.
int open_regular(const char *path, uint64_t max_bytes)
{
    const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    char own[64];
    CLEANUP(close_fdp) int found = open(path, O_PATH | O_CLOEXEC);
    int r = found < 0 ? -errno : regular_check(found, max_bytes);
    if (r < 0)
        return r;
    snprintf(own, sizeof(own), "/proc/self/fd/%d", found);
    int fd = open(own, flags);
    if (fd < 0 && errno == ENOENT)
        fd = open(path, flags);
    if (fd < 0)
        return -errno;
    r = regular_check(fd, max_bytes);
    if (r < 0)
        close_fd(fd);
    return r < 0 ? r : fd;
}

char *path_shown(const char *path)
{
    static const char descriptors[] = "/proc/self/fd/";
    char folder[PATH_MAX], *shown;
    const char *rest = strchr(path + strnlen(path, sizeof(descriptors) - 1), '/');
    if (!rest || strncmp(path, descriptors, sizeof(descriptors) - 1) != 0)
        return strdup(path);
    CLEANUP(freep) char *link = strndup(path, (size_t)(rest - path));
    ssize_t n = link ? readlink(link, folder, sizeof(folder)) : -1;
    if (n < 0)
        return strdup(path);
    return asprintf(&shown, "%.*s%s", (int)n, folder, rest) < 0 ? NULL : shown;
}

bool path_is_strangers(const char *path, const struct stat *st)
{
    struct stat folder;
    if (st->st_uid == geteuid())
        return false;
    if (S_ISLNK(st->st_mode) && st->st_uid != 0)
        return true;
    const char *slash = strrchr(path, '/');
    CLEANUP(freep)
    char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    return !name || stat(name, &folder) < 0 ||
           ((folder.st_mode & S_IWOTH) && folder.st_uid != st->st_uid);
}
