// SPDX-License-Identifier: Apache-2.0
//
// A session gets its file when it is armed, and most sessions never record anything. O_TMPFILE
// makes a file without a name, which needs no cleanup after a crash. The file is linked into the
// folder when it has data. On file systems without O_TMPFILE, the file has a name from the start: a
// crash leaves an empty file, which the next start finds.
//
// Until it is complete, a file has the name of a part, and a lock that ends with the process.
// Therefore an unlocked part proves that its writer is dead, even if another process has the
// writer's pid, or if two daemons write into one folder.
#include "producer/service/armed/armed_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/folder.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/vec.h"

#define FILE_MODE   0600
#define MARK        S_ISVTX // has no effect on a file, and every file system stores this bit
#define FOLDER_MODE 0700
#define NAMES_MAX   1000               // per second
#define TIME_FORM   "ddddddddTddddddZ" // d: a digit

// Returns name number `n` for the time `when` (owned by the caller), or NULL.
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

// Tries names until `make` succeeds with a free name.
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

// Makes the name of the part of `path`.
static int part_of(const char *path, char ret[PATH_MAX])
{
    int n = snprintf(ret, PATH_MAX, "%s" ARMED_PART_SUFFIX, path);
    return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static bool is_taken(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static int link_to_name(int fd, const char *name)
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int link_part(int fd, const char *path)
{
    char part[PATH_MAX];
    int r = is_taken(path) ? -EEXIST : part_of(path, part);
    return r < 0 ? r : link_to_name(fd, part);
}

static int create_part(int fd, const char *path)
{
    (void)fd;
    char part[PATH_MAX];
    int r = is_taken(path) ? -EEXIST : part_of(path, part);
    if (r == 0)
        r = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    return r < 0 && r != -EEXIST && r != -ENAMETOOLONG ? -errno : r;
}

int armed_file_open(const struct armed_folder *folder, time_t now, struct armed_file *ret,
                    struct err *err)
{
    struct armed_file file = ARMED_FILE_NONE;
    int r = folder_make(folder->path, FOLDER_MODE, err);
    if (r < 0)
        return r;
    file.fd = open(folder->path, O_RDWR | O_TMPFILE | O_CLOEXEC, FILE_MODE);
    if (file.fd < 0 && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return err_errno(err, -errno, "%s", folder->path);
    if (file.fd < 0) {
        r = take_name(folder, now, create_part, -1, &file.path, err);
        if (r < 0)
            return r;
        file.fd = r;
        file.is_part = true;
    }
    flock(file.fd, LOCK_EX | LOCK_NB);
    *ret = file;
    return 0;
}

int armed_file_publish(struct armed_file *file, const struct armed_folder *folder, time_t when,
                       struct err *err)
{
    if (file->path)
        return 0;
    int r = folder_make(folder->path, FOLDER_MODE, err);
    if (r == 0)
        r = take_name(folder, when, link_part, file->fd, &file->path, err);
    file->is_part = r == 0;
    return r;
}

int armed_file_replace(struct armed_file *file, struct armed_file *other,
                       const struct armed_folder *folder)
{
    char part[PATH_MAX], beside[PATH_MAX];
    int r = file->path && file->is_part ? part_of(file->path, part) : -ENOENT;
    if (r < 0)
        return r;
    if (other->path) {
        r = part_of(other->path, beside);
    } else {
        snprintf(beside, sizeof(beside), "%s/.%s-%d" ARMED_FILE_SUFFIX ARMED_PART_SUFFIX,
                 folder->path, folder->stem, (int)getpid());
        unlink(beside);
        r = link_to_name(other->fd, beside);
    }
    if (r < 0)
        return r;
    if (rename(beside, part) < 0) {
        r = -errno;
        unlink(beside);
        return r;
    }
    int fd = file->fd;
    file->fd = other->fd;
    other->fd = fd;
    free(other->path);
    other->path = NULL;
    return 0;
}

static int sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = slash ? snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path)
                  : snprintf(folder, sizeof(folder), ".");
    if (n < 0 || n >= (int)sizeof(folder))
        return -ENAMETOOLONG;
    CLEANUP(close_fdp) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || (fsync(fd) < 0 && errno != EINVAL) ? -errno : 0;
}

// Renames a part, but never replaces an existing file. Without RENAME_NOREPLACE, a check precedes
// the rename.
static int rename_part(const char *part, const char *path)
{
    if (renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (is_taken(path))
        return -EEXIST;
    return rename(part, path) < 0 ? -errno : 0;
}

// STEM-TIME.pftrace -> STEM-TIME-N.pftrace
static char *numbered(const char *path, unsigned n)
{
    char *other;
    int stem = (int)(strlen(path) - strlen(ARMED_FILE_SUFFIX));
    return asprintf(&other, "%.*s-%u" ARMED_FILE_SUFFIX, stem, path, n) < 0 ? NULL : other;
}

int armed_file_complete(struct armed_file *file)
{
    char part[PATH_MAX];
    if (!file->path || !file->is_part)
        return -ENOENT;
    int r = part_of(file->path, part);
    if (r == 0 && fsync(file->fd) < 0)
        r = -errno;
    if (r < 0)
        return r;
    r = rename_part(part, file->path);
    for (unsigned n = 2; r == -EEXIST && n <= NAMES_MAX; n++) {
        CLEANUP(freep) char *other = numbered(file->path, n);
        r = other ? rename_part(part, other) : -ENOMEM;
        if (r < 0)
            continue;
        free(file->path);
        file->path = STEAL(other);
    }
    if (r < 0)
        return r;
    file->is_part = false;
    return sync_folder_of(file->path);
}

void armed_file_mark(const struct armed_file *file)
{
    if (file->fd >= 0)
        fchmod(file->fd, FILE_MODE | MARK);
}

bool armed_file_is_empty(const struct armed_file *file)
{
    struct stat st;
    return file->fd < 0 || fstat(file->fd, &st) < 0 || st.st_size == 0;
}

static void close_file(struct armed_file *file, bool is_removed)
{
    char part[PATH_MAX];
    if (is_removed && file->path && !file->is_part)
        unlink(file->path);
    else if (is_removed && file->path && part_of(file->path, part) == 0)
        unlink(part);
    close_fd(file->fd);
    free(file->path);
    *file = ARMED_FILE_NONE;
}

void armed_file_drop(struct armed_file *file)
{
    close_file(file, file->is_part);
}

void armed_file_close(struct armed_file *file)
{
    close_file(file, armed_file_is_empty(file));
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
    bool is_marked;
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
            .is_marked = st.st_mode & MARK,
        };
        if (!file.name || old_files_push(files, file) < 0)
            free(file.name);
    }
}

bool armed_folder_find_oldest(const struct armed_folder *folder, struct armed_oldest *oldest)
{
    DIR *dir CLEANUP(closedirp) = opendir(folder->path);
    bool found = false;
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        struct stat st;
        if (!armed_file_is_ours(entry->d_name, folder->stem) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
            continue;
        bool is_marked = st.st_mode & MARK;
        if (*oldest->name &&
            (oldest->is_marked != is_marked
                 ? oldest->is_marked
                 : nsec_from_timespec(&oldest->changed) <= nsec_from_timespec(&st.st_mtim)))
            continue;
        oldest->is_marked = is_marked;
        oldest->changed = st.st_mtim;
        snprintf(oldest->name, sizeof(oldest->name), "%s", entry->d_name);
        found = true;
    }
    return found;
}

// Prunes marked or unmarked files. A user other than root can cause any number of marked files:
// these must not displace unmarked files.
static void prune_kind(const struct armed_folder *folder, const struct old_files *files,
                       bool marked, int dir_fd, const struct log *log)
{
    uint64_t max_files = folder->max_files, max_bytes = folder->max_bytes, bytes = 0;
    size_t n = 0;
    if (marked && max_files)
        max_files = max_files < 4 ? 1 : max_files / 4;
    if (marked)
        max_bytes /= 4;
    for (size_t i = 0; i < files->n; i++) {
        const struct old_file *file = &files->items[i];
        if (file->is_marked != marked)
            continue;
        bytes += file->bytes;
        if (n > 0 && ((max_files && n >= max_files) || (max_bytes && bytes > max_bytes)))
            remove_file(folder, dir_fd, file->name, log);
        n++;
    }
}

void armed_folder_prune(const struct armed_folder *folder, const struct log *log)
{
    struct old_files files = {0};
    DIR *dir CLEANUP(closedirp) = opendir(folder->path);
    if (!dir)
        return;
    find_files(folder, dir, log, &files);
    if (files.n > 1)
        qsort(files.items, files.n, sizeof(files.items[0]), newer_first);
    prune_kind(folder, &files, false, dirfd(dir), log);
    prune_kind(folder, &files, true, dirfd(dir), log);
    vec_foreach(&files, file)
        free(file->name);
    old_files_done(&files);
}
