// SPDX-License-Identifier: Apache-2.0
//
// A session gets its file when it is armed, and most of these never record anything. O_TMPFILE
// makes a file without a name, which needs no cleaning up however the process ends; it is linked
// into the folder when there is something in it. File systems without O_TMPFILE get a named file
// at once; a crash leaves it empty there, and the next prune finds it.
#include "producer/service/armed/armed_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/vec.h"

#define FILE_MODE   0640
#define FOLDER_MODE 0750
#define NAMES_MAX   1000               // of one second
#define TIME_FORM   "ddddddddTddddddZ" // d: a digit

static int make_folder(const char *path, struct err *err)
{
    int r = folder_make(path, FOLDER_MODE);
    return r < 0 ? err_errno(err, r, "%s", path) : 0;
}

// The `n`th name for the time `when`.
static char *name_of(const struct armed_folder *folder, time_t when, unsigned n)
{
    struct tm tm;
    char time[32], number[16] = "", *path;
    if (!gmtime_r(&when, &tm) || strftime(time, sizeof(time), "%Y%m%dT%H%M%SZ", &tm) == 0)
        return NULL;
    if (n > 1)
        snprintf(number, sizeof(number), "-%u", n);
    if (asprintf(&path, "%s/%s-%s%s" ARMED_FILE_SUFFIX, folder->path, folder->stem, time, number) <
        0)
        return NULL;
    return path;
}

// Tries names until `make` has found one that is free.
static int take_name(const struct armed_folder *folder, time_t when,
                     int (*make)(int fd, const char *path), int fd, char **ret_path,
                     struct err *err)
{
    for (unsigned n = 1; n <= NAMES_MAX; n++) {
        CLEANUP(freep) char *path = name_of(folder, when, n);
        if (!path)
            return err_errno(err, -ENOMEM, "%s", folder->path);
        int r = make(fd, path);
        if (r >= 0)
            *ret_path = STEAL(path);
        if (r != -EEXIST)
            return r < 0 ? err_errno(err, r, "%s", folder->path) : r;
    }
    return err_set(err, -EEXIST, "%s: too many files of one second", folder->path);
}

static int link_fd(int fd, const char *path)
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int create(int fd, const char *path)
{
    (void)fd;
    int r = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    return r < 0 ? -errno : r;
}

int armed_file_open(const struct armed_folder *folder, time_t now, struct armed_file *ret,
                    struct err *err)
{
    int r = make_folder(folder->path, err);
    if (r < 0)
        return r;
    *ret = ARMED_FILE_NONE;
    ret->fd = open(folder->path, O_WRONLY | O_TMPFILE | O_CLOEXEC, FILE_MODE);
    if (ret->fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return err_errno(err, -errno, "%s", folder->path);
    r = take_name(folder, now, create, -1, &ret->path, err);
    if (r < 0)
        return r;
    ret->fd = r;
    return 0;
}

int armed_file_publish(struct armed_file *file, const struct armed_folder *folder, time_t when,
                       struct err *err)
{
    if (file->path)
        return 0;
    int r = make_folder(folder->path, err);
    return r < 0 ? r : take_name(folder, when, link_fd, file->fd, &file->path, err);
}

bool armed_file_is_empty(const struct armed_file *file)
{
    struct stat st;
    return file->fd < 0 || fstat(file->fd, &st) < 0 || st.st_size == 0;
}

void armed_file_close(struct armed_file *file)
{
    if (file->path && armed_file_is_empty(file))
        unlink(file->path);
    close_fd(file->fd);
    free(file->path);
    *file = ARMED_FILE_NONE;
}

bool armed_file_is_ours(const char *name, const char *stem)
{
    size_t n = strlen(stem);
    if (strncmp(name, stem, n) != 0 || name[n] != '-')
        return false;
    name += n + 1;
    for (const char *form = TIME_FORM; *form; form++, name++)
        if (*form == 'd' ? *name < '0' || *name > '9' : *name != *form)
            return false;
    if (*name == '-' && name[1] >= '0' && name[1] <= '9')
        for (name++; *name >= '0' && *name <= '9';)
            name++;
    return str_eq(name, ARMED_FILE_SUFFIX);
}

// -- pruning --

struct old_file {
    char *name; // owned
    struct timespec changed;
    uint64_t bytes;
};

VEC_DEFINE(old_files, struct old_file);

static int newer_first(const void *a, const void *b)
{
    const struct old_file *x = a, *y = b;
    nsec_t left = nsec_from_timespec(&x->changed), right = nsec_from_timespec(&y->changed);
    return left != right ? (left < right) - (left > right) : -strcmp(x->name, y->name);
}

static void remove_file(const struct armed_folder *folder, int dir_fd, const char *name,
                        const struct log *log)
{
    if (unlinkat(dir_fd, name, 0) < 0)
        log_warning(log, "%s/%s: %s", folder->path, name, strerror(errno));
}

static void find_files(const struct armed_folder *folder, DIR *dir, const struct log *log,
                       struct old_files *files)
{
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        struct stat st;
        if (!armed_file_is_ours(entry->d_name, folder->stem) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        if (st.st_size == 0) {
            remove_file(folder, dirfd(dir), entry->d_name, log);
            continue;
        }
        struct old_file file = {
            .name = strdup(entry->d_name),
            .changed = st.st_mtim,
            .bytes = (uint64_t)st.st_size,
        };
        if (!file.name || old_files_push(files, file) < 0)
            free(file.name);
    }
}

void armed_folder_prune(const struct armed_folder *folder, const struct log *log)
{
    struct old_files files = {0};
    DIR *dir = opendir(folder->path);
    if (!dir)
        return;
    find_files(folder, dir, log, &files);
    if (files.n > 1)
        qsort(files.items, files.n, sizeof(files.items[0]), newer_first);
    uint64_t bytes = 0;
    for (size_t i = 0; i < files.n; i++) {
        bytes += files.items[i].bytes;
        if (i > 0 && ((folder->max_files && i >= folder->max_files) ||
                      (folder->max_bytes && bytes > folder->max_bytes)))
            remove_file(folder, dirfd(dir), files.items[i].name, log);
    }
    vec_foreach(&files, file)
        free(file->name);
    old_files_done(&files);
    closedir(dir);
}
