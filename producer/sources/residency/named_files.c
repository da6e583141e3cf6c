// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/residency/named_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"

#define WILDCARDS "*?[\\"

void named_files_begin(struct named_files *walk, const struct named_path *how, const char *pattern)
{
    walk->pattern = pattern;
    walk->how = *how;
    walk->n_folders = 0;
    walk->began = walk->matched = walk->repeats = false;
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
    bool fits = walk->n_folders < NAMED_DEPTH_MAX && (has_slash || path_add(walk, "/", 1));
    CLEANUP(closedirp) DIR *dir = fits ? fdopendir(fd) : NULL;
    if (!dir) {
        int r = fits ? -errno : -ENAMETOOLONG;
        close_fd(fd);
        return r;
    }
    walk->folders[walk->n_folders++] =
        (struct named_folder){.dir = STEAL(dir), .path_size = strlen(walk->path), .rest = rest};
    return NAMED_STEP;
}

// Lists the folder that `held` holds and walk->st describes.
static int read_held(struct named_files *walk, int held, const char *rest)
{
    if (!named_path_allows(&walk->how, held, &walk->st, 05))
        return -EACCES;
    int fd = openat(held, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : push(walk, fd, rest);
}

// The path is complete.
static int path_end(struct named_files *walk, int held)
{
    walk->matched = true;
    walk->device = walk->st.st_dev;
    if (S_ISDIR(walk->st.st_mode))
        return read_held(walk, held, NULL);
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
    return walk->is_glob && (r == -ENOENT || r == -ENOTDIR || r == -EACCES) ? NAMED_STEP : r;
}

// Goes on at walk->path with the rest of the pattern.
static int descend(struct named_files *walk, const char *rest)
{
    const char *end = literal_end(walk, rest);
    if (!path_add(walk, rest, (size_t)(end - rest)))
        return -ENAMETOOLONG;
    const char *path = *end && !walk->path[0] ? "." : walk->path;
    CLEANUP(close_fdp) int held = named_path_hold(&walk->how, path, &walk->st);
    if (held < 0)
        return look_up_error(walk, held);
    if (*end)
        return look_up_error(walk, read_held(walk, held, end));
    int r = path_end(walk, held);
    if (r == NAMED_FILE)
        walk->held = steal_fd(&held);
    return r;
}

// Holds an entry of a folder as the last file. Returns 0 or a negative errno.
static int entry_hold(struct named_files *walk, int folder, const char *name)
{
    walk->held = named_entry_hold(&walk->how, folder, name);
    int r = walk->held < 0 ? walk->held : fstat(walk->held, &walk->st) < 0 ? -errno : 0;
    if (r < 0)
        walk->held = close_fd(walk->held);
    return r;
}

static int match_entry(struct named_files *walk, const struct named_folder *folder,
                       const char *name)
{
    const char *rest = folder->rest;
    char component[NAMED_COMPONENT_MAX + 1];
    size_t size = strcspn(rest, "/");
    if (size >= sizeof(component))
        return NAMED_STEP;
    memcpy(component, rest, size);
    component[size] = '\0';
    if (fnmatch(component, name, FNM_PERIOD) != 0)
        return NAMED_STEP;
    // A regular file without a mount over it needs no look-up of its path.
    if (rest[size] == '\0' && entry_hold(walk, dirfd(folder->dir), name) == 0 &&
        S_ISREG(walk->st.st_mode)) {
        walk->matched = true;
        return NAMED_FILE;
    }
    walk->held = close_fd(walk->held);
    return descend(walk, rest + size);
}

static int tree_entry(struct named_files *walk, const struct named_folder *folder,
                      const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_DIR && entry->d_type != DT_REG)
        return NAMED_STEP;
    int r = entry_hold(walk, dirfd(folder->dir), entry->d_name);
    if (r < 0) // gone, or something is mounted there
        return r == -ENOENT || r == -EXDEV ? NAMED_STEP : r;
    // Another device is a subvolume. (Files of overlayfs can have another device than folders.)
    if (S_ISDIR(walk->st.st_mode))
        return walk->st.st_dev == walk->device ? read_held(walk, walk->held, NULL) : NAMED_STEP;
    return S_ISREG(walk->st.st_mode) ? NAMED_FILE : NAMED_STEP;
}

static int entry_next(struct named_files *walk)
{
    const struct named_folder *folder = &walk->folders[walk->n_folders - 1];
    if (!walk->repeats)
        walk->entry = readdir(folder->dir);
    walk->repeats = false;
    const struct dirent *entry = walk->entry;
    walk->path[folder->path_size] = '\0';
    if (!entry) {
        pop(walk);
        return NAMED_STEP;
    }
    if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
        return NAMED_STEP;
    if (!path_add(walk, entry->d_name, strlen(entry->d_name)))
        return -ENAMETOOLONG;
    return folder->rest ? match_entry(walk, folder, entry->d_name)
                        : tree_entry(walk, folder, entry);
}

int named_files_next(struct named_files *walk)
{
    walk->held = close_fd(walk->held);
    if (walk->n_folders > 0)
        return entry_next(walk);
    if (!walk->repeats) {
        // A glob without a match may be the name of a file: "a[1]".
        if (walk->began && (!walk->is_glob || walk->matched))
            return NAMED_END;
        walk->is_glob = walk->is_glob && !walk->began;
    }
    walk->began = true;
    walk->repeats = false;
    walk->path[0] = '\0';
    return descend(walk, walk->pattern);
}

void named_files_repeat(struct named_files *walk)
{
    walk->repeats = true;
}
