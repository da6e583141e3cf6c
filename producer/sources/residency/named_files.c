// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/residency/named_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/folder.h"
#include "common/str.h"

#define WILDCARDS "*?[\\"
#define LINKS_MAX 40 // as in the kernel

// File systems whose files the kernel makes. They have no pages. A look-up in /proc may wait for
// locks of a process (map_files), or lead into its mounts; open() of a file of tracefs may take
// events away from others.
static bool is_of_kernel(int fd)
{
    static const unsigned long magics[] = {
        BINFMTFS_MAGIC,   BPF_FS_MAGIC,       CGROUP2_SUPER_MAGIC, CGROUP_SUPER_MAGIC,
        DEBUGFS_MAGIC,    DEVPTS_SUPER_MAGIC, PROC_SUPER_MAGIC,    PSTOREFS_MAGIC,
        SECURITYFS_MAGIC, SYSFS_MAGIC,        TRACEFS_MAGIC,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < ELEMENTS(magics); i++)
        if ((unsigned long)fs.f_type == magics[i])
            return true;
    return false;
}

// A path that is looked up one component after the other.
struct steps {
    int at; // owned; the folder of the next component
    char rest[NAMED_PATH_ROOM];
    int n_links;
};

static int steps_begin(struct steps *steps, const char *path)
{
    if (strlen(path) >= sizeof(steps->rest))
        return -ENAMETOOLONG;
    close_fd(steps->at);
    steps->at = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    memcpy(steps->rest, path, strlen(path) + 1);
    return steps->at < 0 ? -errno : 0;
}

// Puts the target of a link in the place of its name.
static int link_follow(struct steps *steps, int link, const char *rest)
{
    char path[NAMED_PATH_ROOM];
    ssize_t size = readlinkat(link, "", path, sizeof(path) - 1);
    if (size < 0)
        return -errno;
    if ((size_t)size + strlen(rest) >= sizeof(path))
        return -ENAMETOOLONG;
    if (++steps->n_links > LINKS_MAX)
        return -ELOOP;
    memcpy(path + size, rest, strlen(rest) + 1);
    if (path[0] == '/')
        return steps_begin(steps, path);
    memcpy(steps->rest, path, strlen(path) + 1);
    return 0;
}

// Looks up the component `name`, which `rest` follows.
static int step(struct steps *steps, const char *name, const char *rest)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = openat(steps->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return link_follow(steps, fd, rest);
    if (*rest && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (is_of_kernel(fd))
        return -ENOTSUP;
    close_fd(steps->at);
    steps->at = steal_fd(&fd);
    memmove(steps->rest, rest, strlen(rest) + 1);
    return 0;
}

int named_path_hold(const char *path)
{
    char name[NAME_MAX + 1];
    struct steps steps = {.at = -1};
    int r = *path ? steps_begin(&steps, path) : -ENOENT;
    for (const char *rest; r == 0 && *(rest = steps.rest + strspn(steps.rest, "/"));) {
        size_t size = strcspn(rest, "/");
        r = size < sizeof(name) ? 0 : -ENAMETOOLONG;
        snprintf(name, sizeof(name), "%.*s", (int)size, rest);
        if (r == 0)
            r = step(&steps, name, rest + size);
    }
    if (r < 0)
        steps.at = close_fd(steps.at);
    return r < 0 ? r : steps.at;
}

void named_files_begin(struct named_files *walk, const char *pattern)
{
    walk->pattern = pattern;
    walk->n_folders = 0;
    walk->began = walk->matched = false;
    walk->is_glob = strpbrk(pattern, "*?[") != NULL;
    walk->path[0] = '\0';
    walk->held = -1;
}

static void pop(struct named_files *walk)
{
    closedirp(&walk->folders[--walk->n_folders].dir);
}

void named_files_end(struct named_files *walk)
{
    walk->held = close_fd(walk->held);
    while (walk->n_folders > 0)
        pop(walk);
}

static bool path_add(struct named_files *walk, const char *text, size_t size)
{
    size_t length = strlen(walk->path);
    if (length + size >= sizeof(walk->path))
        return false;
    memcpy(walk->path + length, text, size);
    walk->path[length + size] = '\0';
    return true;
}

// Takes over `fd`, an open folder at walk->path.
static int push(struct named_files *walk, int fd, const char *rest)
{
    size_t size = strlen(walk->path);
    bool has_slash = size == 0 || walk->path[size - 1] == '/';
    CLEANUP(closedirp) DIR *dir = NULL;
    if (walk->n_folders < NAMED_DEPTH_MAX && (has_slash || path_add(walk, "/", 1)))
        dir = fdopendir(fd);
    if (!dir) {
        close_fd(fd);
        return -ENAMETOOLONG;
    }
    walk->folders[walk->n_folders++] =
        (struct named_folder){.dir = STEAL(dir), .path_size = strlen(walk->path), .rest = rest};
    return NAMED_STEP;
}

static int read_held(struct named_files *walk, int held, const char *rest)
{
    int fd = openat(held, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : push(walk, fd, rest);
}

// The path is complete.
static int path_end(struct named_files *walk, int held)
{
    if (fstat(held, &walk->st) < 0)
        return -errno;
    walk->matched = true;
    if (S_ISDIR(walk->st.st_mode)) {
        walk->device = walk->st.st_dev;
        return read_held(walk, held, NULL);
    }
    return S_ISREG(walk->st.st_mode) ? NAMED_FILE : -EINVAL;
}

// Returns the first component with wildcards in `rest`, or its end.
static const char *literal_end(const struct named_files *walk, const char *rest)
{
    const char *wild = walk->is_glob ? strpbrk(rest, WILDCARDS) : NULL;
    if (!wild)
        return rest + strlen(rest);
    while (wild > rest && wild[-1] != '/')
        wild--;
    return wild;
}

// A glob leaves out silently what it cannot look up.
static int look_up_error(const struct named_files *walk, int r)
{
    return walk->is_glob && (r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -ELOOP)
               ? NAMED_STEP
               : r;
}

// Goes on at walk->path with the rest of the pattern.
static int descend(struct named_files *walk, const char *rest)
{
    const char *end = literal_end(walk, rest);
    if (!path_add(walk, rest, (size_t)(end - rest)))
        return -ENAMETOOLONG;
    CLEANUP(close_fdp) int held = named_path_hold(*end && !walk->path[0] ? "." : walk->path);
    if (held < 0)
        return look_up_error(walk, held);
    if (*end)
        return look_up_error(walk, read_held(walk, held, end));
    int r = path_end(walk, held);
    if (r == NAMED_FILE)
        walk->held = steal_fd(&held);
    return r;
}

static int match_entry(struct named_files *walk, const char *rest, const char *name)
{
    char component[NAME_MAX + 1];
    size_t size = strcspn(rest, "/");
    if (size >= sizeof(component))
        return NAMED_STEP;
    memcpy(component, rest, size);
    component[size] = '\0';
    return fnmatch(component, name, FNM_PERIOD) == 0 ? descend(walk, rest + size) : NAMED_STEP;
}

static int enter(struct named_files *walk, int in, const char *name)
{
    struct stat st;
    CLEANUP(close_fdp)
    int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? NAMED_STEP : -errno;
    return st.st_dev == walk->device ? push(walk, steal_fd(&fd), NULL) : NAMED_STEP;
}

static int tree_entry(struct named_files *walk, const struct named_folder *folder,
                      const struct dirent *entry)
{
    int in = dirfd(folder->dir);
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_DIR && entry->d_type != DT_REG)
        return NAMED_STEP;
    if (fstatat(in, entry->d_name, &walk->st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? NAMED_STEP : -errno;
    if (walk->st.st_dev != walk->device)
        return NAMED_STEP;
    if (S_ISDIR(walk->st.st_mode))
        return enter(walk, in, entry->d_name);
    walk->name = entry->d_name;
    return S_ISREG(walk->st.st_mode) ? NAMED_FILE : NAMED_STEP;
}

static int entry_next(struct named_files *walk)
{
    const struct named_folder *folder = &walk->folders[walk->n_folders - 1];
    const struct dirent *entry = readdir(folder->dir);
    walk->path[folder->path_size] = '\0';
    if (!entry) {
        pop(walk);
        return NAMED_STEP;
    }
    if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
        return NAMED_STEP;
    if (!path_add(walk, entry->d_name, strlen(entry->d_name)))
        return -ENAMETOOLONG;
    return folder->rest ? match_entry(walk, folder->rest, entry->d_name)
                        : tree_entry(walk, folder, entry);
}

int named_files_next(struct named_files *walk)
{
    walk->held = close_fd(walk->held);
    if (walk->n_folders > 0)
        return entry_next(walk);
    // A glob without a match may be the name of a file: "a[1]".
    if (walk->began && (!walk->is_glob || walk->matched))
        return NAMED_END;
    walk->is_glob = walk->is_glob && !walk->began;
    walk->began = true;
    walk->path[0] = '\0';
    return descend(walk, walk->pattern);
}

int named_files_hold(struct named_files *walk)
{
    if (walk->held >= 0)
        return steal_fd(&walk->held);
    int in = dirfd(walk->folders[walk->n_folders - 1].dir);
    int fd = openat(in, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
