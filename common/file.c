// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and tracefs, and pipes, report no size. Therefore fd_read_all() reads until the
// end of the file. The caller limits the size.
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"

#define CHUNK_BYTES    16384
#define NR_CLOSE_RANGE 436 // older headers lack the name
#define LINKS_MAX      40  // in a path, the kernel's limit

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

int fd_copy_bytes(int from, int to, uint64_t size, bool *ret_write)
{
    char chunk[CHUNK_BYTES];
    *ret_write = false;
    while (size > 0) {
        ssize_t n = read(from, chunk, size < sizeof(chunk) ? (size_t)size : sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = fd_write_all(to, chunk, (size_t)n);
        if (r < 0) {
            *ret_write = true;
            return r;
        }
        size -= (uint64_t)n;
    }
    return 0;
}

void fd_close_from(int first)
{
    if (syscall(NR_CLOSE_RANGE, first, ~0U, 0) < 0)
        for (int fd = first; fd < sysconf(_SC_OPEN_MAX); fd++)
            close(fd);
}

int fd_copy(int from, int to, bool *ret_write)
{
    return fd_copy_bytes(from, to, UINT64_MAX, ret_write);
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
        snprintf(name, sizeof(name), "%.*s", n ? (int)n : 1, n ? path : ".");
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

bool file_is_same(const char *a, const char *b)
{
    struct stat a_st, b_st;
    return stat(a, &a_st) == 0 && stat(b, &b_st) == 0 && a_st.st_dev == b_st.st_dev &&
           a_st.st_ino == b_st.st_ino && !S_ISCHR(a_st.st_mode) && !S_ISFIFO(a_st.st_mode) &&
           !S_ISSOCK(a_st.st_mode);
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

static bool is_strangers(const struct stat *st, const struct stat *folder)
{
    if (st->st_uid == geteuid())
        return false;
    return (S_ISLNK(st->st_mode) && st->st_uid != 0) ||
           ((folder->st_mode & S_IWOTH) && folder->st_uid != st->st_uid);
}

bool path_end_is_strangers(const struct path_end *end, const struct stat *st)
{
    struct stat folder;
    return fstat(end->folder, &folder) < 0 || is_strangers(st, &folder);
}

const char *folder_fault(const struct stat *st)
{
    bool shared = st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && st->st_gid != getegid());
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "belongs to another user";
    return shared && !(st->st_mode & S_ISVTX) ? "can be changed by other users" : NULL;
}

// -- walks --

struct walk {
    char *path; // owned; with the targets of links in place of the links
    size_t at;  // end of the last name that was read
    int n_links;
    folder_fault_fn fault;
    struct path_end *end;
    bool follows_last;
    bool is_last; // the name is the last name, and has no slash after it
};

// Reads the next name.
static int name_read(struct walk *walk)
{
    const char *name = walk->path + walk->at;
    name += strspn(name, "/");
    size_t n = strcspn(name, "/");
    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    snprintf(walk->end->name, sizeof(walk->end->name), "%.*s", n ? (int)n : 1, n ? name : ".");
    walk->at = (size_t)(name + n - walk->path);
    walk->is_last = !walk->path[walk->at];
    return 0;
}

static int refuse(struct walk *walk, const struct stat *st, const char *fault)
{
    walk->end->part = strndup(walk->path, walk->at ? walk->at : 1);
    walk->end->fault = fault;
    walk->end->owner = st->st_uid;
    return walk->end->part ? -EPERM : -ENOMEM;
}

static int folder_enter(struct walk *walk, int fd)
{
    struct stat st = {0};
    close_fd(walk->end->folder);
    walk->end->folder = fd;
    const char *fault = NULL;
    if (walk->fault)
        fault = fstat(fd, &st) < 0 ? "cannot be read" : walk->fault(&st);
    return fault ? refuse(walk, &st, fault) : 0;
}

// Opens the folder where the path begins.
static int beginning_enter(struct walk *walk)
{
    walk->at = 0;
    int fd = open(*walk->path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : folder_enter(walk, fd);
}

// Puts the target of the link `fd` in place of the name that was read.
static int link_expand(struct walk *walk, int fd)
{
    char target[PATH_MAX], *path;
    if (++walk->n_links > LINKS_MAX)
        return -ELOOP;
    ssize_t n = readlinkat(fd, "", target, sizeof(target));
    if (n <= 0 || n == (ssize_t)sizeof(target))
        return n < 0 ? -errno : -ENAMETOOLONG;
    size_t before = *target == '/' ? 0 : walk->at - strlen(walk->end->name);
    if (asprintf(&path, "%.*s%.*s%s", (int)before, walk->path, (int)n, target,
                 walk->path + walk->at) < 0)
        return -ENOMEM;
    free(walk->path);
    walk->path = path;
    walk->at = before;
    return *target == '/' ? beginning_enter(walk) : 0;
}

// Judges the link `fd`. Links of /proc (such as cwd) need not lead to the file that their text
// names.
static int link_judge(struct walk *walk, int fd, const struct stat *st)
{
    struct stat folder;
    struct statfs fs;
    if (fstat(walk->end->folder, &folder) < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    walk->end->is_magic = fs.f_type == PROC_SUPER_MAGIC;
    return is_strangers(st, &folder) ? refuse(walk, st, "is a link of another user") : 0;
}

// Handles the last part, which `fd` holds. Returns 0 if the part was a link, 1 if the walk ends
// here, or a negative errno.
static int last_part(struct walk *walk, int fd, const struct stat *st)
{
    if (!S_ISLNK(st->st_mode) || !walk->follows_last)
        return 1;
    int r = link_judge(walk, fd, st);
    return r < 0 ? r : walk->end->is_magic ? 1 : link_expand(walk, fd);
}

// Takes one step. Returns 0, 1 if the walk ends here, or a negative errno.
static int step(struct walk *walk)
{
    const int flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    struct stat st;
    int r = name_read(walk);
    if (r < 0)
        return r;
    const char *name = walk->end->name;
    int folder = walk->end->folder;
    if (!walk->is_last) { // O_DIRECTORY makes the automounter mount the folder
        int next = openat(folder, name, flags | O_DIRECTORY);
        if (next >= 0 || (errno != ENOTDIR && errno != ELOOP))
            return next < 0 ? -errno : folder_enter(walk, next);
    }
    CLEANUP(close_fdp) int fd = openat(folder, name, flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return walk->is_last ? 1 : -errno; // the caller's open() says why
    if (walk->is_last)
        return last_part(walk, fd, &st);
    r = S_ISLNK(st.st_mode) ? link_judge(walk, fd, &st) : -ENOTDIR;
    if (r < 0 || !walk->end->is_magic)
        return r < 0 ? r : link_expand(walk, fd);
    walk->end->is_magic = false;
    int next = openat(folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return next < 0 ? -errno : folder_enter(walk, next);
}

int path_walk(const char *path, bool follows_last, folder_fault_fn fault, struct path_end *ret)
{
    struct walk walk = {.end = ret, .follows_last = follows_last, .fault = fault};
    if (!*path || strlen(path) >= PATH_MAX)
        return *path ? -ENAMETOOLONG : -ENOENT;
    walk.path = strdup(path);
    int r = walk.path ? beginning_enter(&walk) : -ENOMEM;
    while (r == 0)
        r = step(&walk);
    free(walk.path);
    return r < 0 ? r : 0;
}

int path_walk_error(const char *path, const struct path_end *end, struct err *err)
{
    bool is_path = str_eq(end->part, path);
    err_set(err, -EPERM, "%s: %s%s%sis a link of user %u, who could lead it to any file", path,
            is_path ? "" : "the folder ", is_path ? "" : end->part, is_path ? "" : " ",
            (unsigned)end->owner);
    return err_hint(err, -EPERM, "name the file itself, or remove the link");
}

// -- folders --

// Makes the folder `path`, which is `whole` or above it. The walk opens the folder above `path`. A
// failure to make a folder above `whole` is not reported, because the automounter may make the
// folder: the next walk reports a folder that is still missing.
static int one_folder_make(const char *path, mode_t mode, const char *whole, struct err *err)
{
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    int r = path_walk(path, true, NULL, &end);
    if (end.part)
        return path_walk_error(whole, &end, err);
    bool is_whole = strlen(path) + strspn(whole + strlen(path), "/") == strlen(whole);
    if (r == 0 && mkdirat(end.folder, end.name, mode) < 0 && errno != EEXIST && is_whole)
        r = -errno;
    return r < 0 ? err_errno(err, r, "%s", whole) : 0;
}

int folder_make(const char *path, mode_t mode, struct err *err)
{
    CLEANUP(freep) char *above = strdup(path);
    if (!above)
        return err_errno(err, -ENOMEM, "%s", path);
    size_t n = strspn(path, "/");
    for (;;) {
        n += strcspn(path + n, "/");
        size_t next = n + strspn(path + n, "/");
        if (!path[next])
            break;
        above[n] = '\0';
        int r = one_folder_make(above, 0755, path, err);
        if (r < 0)
            return r;
        above[n] = '/';
        n = next;
    }
    above[n] = '\0';
    return one_folder_make(above, mode, path, err);
}
