// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/named_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/foreign/mounts.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

// File systems whose files the kernel makes. They have no pages. A look-up in /proc may wait for
// locks of a process (map_files), or lead into its mounts; open() of a file of tracefs may take
// events away from others.
static bool is_of_kernel(long magic)
{
    static const long magics[] = {
        BINFMTFS_MAGIC,   BPF_FS_MAGIC,       CGROUP2_SUPER_MAGIC, CGROUP_SUPER_MAGIC,
        DEBUGFS_MAGIC,    DEVPTS_SUPER_MAGIC, PROC_SUPER_MAGIC,    PSTOREFS_MAGIC,
        SECURITYFS_MAGIC, SYSFS_MAGIC,        TRACEFS_MAGIC,
    };
    for (size_t i = 0; i < ELEMENTS(magics); i++)
        if (magic == magics[i])
            return true;
    return false;
}

struct steps {
    const struct named_path *how;
    int at;         // owned
    struct stat st; // of `at`
    bool is_autofs; // `at` is a folder of automounts
    char path[NAMED_PATH_ROOM];
    size_t pos; // of the rest of the path
    unsigned n_components;
};

// Asks the file system of the file that `fd` holds only if it is trusted.
static int examine(const struct named_path *how, int fd, struct stat *ret)
{
    int r = foreign_mounts_judge(how->mounts, 0, fd);
    if (r < 0)
        return r;
    return fstat(fd, ret) < 0 ? -errno : 0;
}

// Takes over `fd`, which holds the file that the path leads to so far.
static int steps_reach(struct steps *steps, int fd, const struct stat *st)
{
    bool is_elsewhere = steps->at < 0 || steps->st.st_dev != st->st_dev;
    close_fd(steps->at);
    steps->at = fd;
    steps->st = *st;
    struct statfs fs;
    if (!is_elsewhere || fstatfs(fd, &fs) < 0)
        return 0;
    steps->is_autofs = fs.f_type == AUTOFS_SUPER_MAGIC;
    return is_of_kernel(fs.f_type) ? -ENOTSUP : 0;
}

static int steps_begin(struct steps *steps, const char *path)
{
    struct stat st;
    size_t size = strlen(path);
    if (size >= sizeof(steps->path))
        return -ENAMETOOLONG;
    memcpy(steps->path, path, size + 1);
    steps->pos = 0;
    CLEANUP(close_fdp) int fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : examine(steps->how, fd, &st);
    return r < 0 ? r : steps_reach(steps, steal_fd(&fd), &st);
}

static bool may_follow(const struct steps *steps, const struct stat *link)
{
    const mode_t shared = S_ISVTX | S_IWOTH;
    return (steps->st.st_mode & shared) != shared || link->st_uid == steps->st.st_uid ||
           link->st_uid == geteuid();
}

// Puts the target of a link in the place of its name.
static int link_follow(struct steps *steps, int link, const struct stat *st)
{
    char path[NAMED_PATH_ROOM];
    if (steps->how->no_links || !may_follow(steps, st))
        return steps->how->no_links ? -ELOOP : -EACCES;
    ssize_t size = readlinkat(link, "", path, sizeof(path) - 1);
    if (size < 0)
        return -errno;
    const char *rest = steps->path + steps->pos;
    size_t n_rest = strlen(rest);
    if ((size_t)size + n_rest >= sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path + size, rest, n_rest + 1);
    if (path[0] == '/')
        return steps_begin(steps, path);
    memcpy(steps->path, path, (size_t)size + n_rest + 1);
    steps->pos = 0;
    return 0;
}

static int open_resolved(int folder, const char *name, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = resolve};
    return (int)syscall(SYS_openat2, folder, name, &how, sizeof(how));
}

// A look-up in a folder of automounts, or at a place where an automount begins, would wait for the
// automounter. A look-up in the kernel's cache does not wait, and mounts are always in the cache.
// Linux before 5.12 has no such look-up (-ENOTSUP). Elsewhere, O_PATH triggers nothing.
static int open_next(const struct steps *steps, const char *name)
{
    bool may_wait =
        !steps->is_autofs && !foreign_mounts_is_automount(steps->how->mounts, steps->at, name);
    int fd = may_wait ? openat(steps->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC)
                      : open_resolved(steps->at, name, RESOLVE_CACHED);
    if (fd < 0 && !may_wait && errno == EAGAIN)
        return -ENOENT;
    if (fd < 0 && !may_wait && (errno == EINVAL || errno == ENOSYS))
        return -ENOTSUP;
    return fd < 0 ? -errno : fd;
}

static int steps_look_up(struct steps *steps, const char *name)
{
    struct stat st;
    const struct named_path *how = steps->how;
    if (!S_ISDIR(steps->st.st_mode))
        return -ENOTDIR;
    if (!named_path_allows(how, steps->at, &steps->st, 01))
        return -EACCES;
    CLEANUP(close_fdp) int fd = open_next(steps, name);
    int r = fd < 0 ? fd : examine(how, fd, &st);
    if (r < 0)
        return r;
    return S_ISLNK(st.st_mode) ? link_follow(steps, fd, &st)
                               : steps_reach(steps, steal_fd(&fd), &st);
}

// Returns 1 if a component was looked up, 0 at the end of the path.
static int step(struct steps *steps)
{
    char name[NAMED_COMPONENT_MAX + 1];
    const char *rest = steps->path + steps->pos;
    rest += strspn(rest, "/");
    size_t size = strcspn(rest, "/");
    bool ends_in_slash = steps->pos > 0 && rest[0] == '\0' && steps->path[steps->pos] == '/';
    steps->pos = (size_t)(rest + size - steps->path);
    if (size == 0)
        return ends_in_slash && !S_ISDIR(steps->st.st_mode) ? -ENOTDIR : 0;
    if (size > NAMED_COMPONENT_MAX)
        return -ENAMETOOLONG;
    memcpy(name, rest, size);
    name[size] = '\0';
    if (str_eq(name, "."))
        return S_ISDIR(steps->st.st_mode) ? 1 : -ENOTDIR;
    if (++steps->n_components > NAMED_COMPONENTS_MAX)
        return -ELOOP;
    int r = steps_look_up(steps, name);
    return r < 0 ? r : 1;
}

int named_path_hold(const struct named_path *how, const char *path, struct stat *ret_stat)
{
    struct steps steps = {.how = how, .at = -1};
    int r = *path ? steps_begin(&steps, path) : -ENOENT;
    for (r = r < 0 ? r : 1; r > 0;)
        r = step(&steps);
    if (r == 0 && steps.is_autofs)
        r = -ENOTSUP;
    if (r < 0) {
        close_fd(steps.at);
        return r;
    }
    *ret_stat = steps.st;
    return steps.at;
}

// Linux before 5.6 lacks openat2().
static int entry_hold_by_number(int folder, const char *name)
{
    uint64_t here, there;
    CLEANUP(close_fdp) int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = foreign_mount_number(folder, &here);
    r = r < 0 ? r : foreign_mount_number(fd, &there);
    if (r < 0 || here != there)
        return r < 0 ? r : -EXDEV;
    return steal_fd(&fd);
}

int named_entry_hold(const struct named_path *how, int folder, const char *name)
{
    if (foreign_mounts_is_automount(how->mounts, folder, name))
        return -EXDEV;
    int fd = open_resolved(folder, name, RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return entry_hold_by_number(folder, name);
    return fd < 0 ? -errno : fd;
}
