// SPDX-License-Identifier: Apache-2.0
//
// A process maps inodes, not paths: after an upgrade the path may lead to a newer file.
// /proc/PID/map_files leads to the right inode. Without the rights for this folder, the path is
// tried and its inode compared. Devices are not compared: on btrfs and overlayfs, maps and stat
// show different devices.
//
// A folder is searched on its own file system only: below / there are file systems whose files have
// side effects when they are opened.
#include "producer/pintool/targets.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/maps.h"
#include "producer/sources/residency/probe.h"

#define PROC "/proc"

void target_done(struct target *target)
{
    free(target->path);
    free(target->open_path);
    free(target->root_path);
    page_ranges_done(&target->mapped);
}

void targets_done(struct targets *targets)
{
    vec_foreach(&targets->items, target)
        target_done(target);
    target_items_done(&targets->items);
}

static int add(struct targets *targets, struct target *target, struct err *err)
{
    int r = target->path ? target_items_push(&targets->items, *target) : -ENOMEM;
    if (r < 0) {
        target_done(target);
        return err_errno(err, r, "the list of files");
    }
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void note_skipped(struct targets *targets, const FTSENT *entry)
{
    char quoted[100];
    if (targets->n_skipped++)
        return;
    str_printable(quoted, sizeof(quoted), entry->fts_path, strlen(entry->fts_path));
    snprintf(targets->first_skipped, sizeof(targets->first_skipped), "%s: %s", quoted,
             strerror(entry->fts_errno));
}

static int add_directory(struct targets *targets, const char *path, struct err *err)
{
    char *roots[] = {(char *)path, NULL};
    FTS *tree = fts_open(roots, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, by_name);
    if (!tree)
        return err_errno(err, -errno, "%s", path);
    int r = 0;
    FTSENT *entry;
    while (r == 0 && (entry = fts_read(tree))) {
        struct target target = {0};
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS)
            note_skipped(targets, entry);
        if (entry->fts_info != FTS_F || !S_ISREG(entry->fts_statp->st_mode))
            continue;
        target.path = strdup(entry->fts_path);
        r = add(targets, &target, err);
    }
    fts_close(tree);
    return r;
}

int targets_add_path(struct targets *targets, const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (S_ISDIR(st.st_mode))
        return add_directory(targets, path, err);
    struct target target = {.path = strdup(path), .named = true};
    return add(targets, &target, err);
}

static struct target *find(struct targets *targets, size_t first, const struct mapping *mapping,
                           const char *path)
{
    for (size_t i = first; i < targets->items.n; i++) {
        struct target *target = &targets->items.items[i];
        if (target->inode == mapping->inode && str_eq(target->path, path))
            return target;
    }
    return NULL;
}

static int new_target(struct targets *targets, int32_t pid, const struct mapping *mapping,
                      const char *path, struct err *err)
{
    struct target target = {.path = strdup(path), .by_process = true, .inode = mapping->inode};
    if (asprintf(&target.open_path, PROC "/%" PRId32 "/map_files/%" PRIx64 "-%" PRIx64, pid,
                 mapping->start, mapping->end) < 0)
        target.open_path = NULL;
    if (asprintf(&target.root_path, PROC "/%" PRId32 "/root%s", pid, path) < 0)
        target.root_path = NULL;
    return add(targets, &target, err);
}

static int add_mapping(struct targets *targets, size_t first, int32_t pid,
                       const struct mapping *mapping, struct err *err)
{
    char path[PATH_MAX + 16];
    if (!mapping->inode || !mapping_get_path(mapping, path, sizeof(path)))
        return 0;
    struct target *target = find(targets, first, mapping, path);
    if (!target) {
        int r = new_target(targets, pid, mapping, path, err);
        if (r < 0)
            return r;
        target = &targets->items.items[targets->items.n - 1];
    }
    struct page_range range = {.start = mapping->offset,
                               .end = mapping->offset + (mapping->end - mapping->start)};
    if (range.end < range.start)
        return 0;
    if (page_ranges_push(&target->mapped, range) < 0)
        return err_errno(err, -ENOMEM, "the list of files");
    return 0;
}

int targets_add_process(struct targets *targets, int32_t pid, struct err *err)
{
    CLEANUP(freep) void *memory = malloc(sizeof(struct line_reader));
    struct line_reader *reader = memory;
    if (!reader)
        return err_errno(err, -ENOMEM, "process %" PRId32, pid);
    int r = maps_open(reader, PROC, pid);
    if (r == -ENOENT || r == -ESRCH)
        return err_set(err, r, "process %" PRId32 " does not exist", pid);
    if (r < 0)
        return err_errno(err, r, "process %" PRId32, pid);
    size_t first = targets->items.n;
    struct mapping mapping;
    while ((r = maps_next(reader, &mapping)) > 0) {
        r = add_mapping(targets, first, pid, &mapping, err);
        if (r < 0)
            break;
    }
    line_reader_close(reader);
    if (r == -ESRCH || r == -EACCES || r == -EIO)
        err_errno(err, r, "process %" PRId32, pid);
    for (size_t i = first; i < targets->items.n; i++)
        page_ranges_normalize(&targets->items.items[i].mapped);
    return r;
}

int target_open(const struct target *target, int *ret_fd, struct stat *ret_stat)
{
    if (!target->by_process)
        return residency_open(AT_FDCWD, target->path, ret_fd, ret_stat);
    int r =
        target->open_path ? residency_open(AT_FDCWD, target->open_path, ret_fd, ret_stat) : -ENOENT;
    if (r == 0 || r == -EINVAL)
        return r;
    const char *paths[] = {target->root_path, target->path};
    for (size_t i = 0; i < 2; i++) {
        r = paths[i] ? residency_open(AT_FDCWD, paths[i], ret_fd, ret_stat) : -ENOENT;
        if (r == 0 && ret_stat->st_ino == target->inode)
            return 0;
        if (r == 0) {
            *ret_fd = close_fd(*ret_fd);
            r = -ESTALE;
        }
    }
    return r;
}
