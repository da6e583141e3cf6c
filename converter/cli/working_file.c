// SPDX-License-Identifier: Apache-2.0
//
// rename() replaces a file as a whole or not at all. With --append, the new file has the only copy
// of the old data, so its data is on the disk before the rename.
//
// A killed process leaves its folder behind, but not the lock: the next conversion to the same
// output removes the folder.
//
// A database that another program has opened meanwhile may have a journal beside it. SQLite would
// apply the journal to any file of that name. The database is therefore not replaced, but rewritten
// by SQLite in one transaction.
//
// The owner of the output's folder can rename the working folder, and put a folder with links in
// its place. The working folder is therefore held by a descriptor, and its files are named by the
// descriptor (/proc/self/fd/N/database). Only this user can write in the folder itself. Without
// /proc, the files are named by the folder's path.
#include "converter/cli/working_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/folder.h"
#include "common/memory.h"
#include "common/str.h"
#include "converter/tables/defend.h"

#define BUSY_TIMEOUT_MS 5000
#define FOLDER_MARK     ".mmsql-"
#define DEPTH_MAX       2 // of folders in a working folder
#define BELOW_FLAGS     (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static bool is_dots(const char *name)
{
    return str_eq(name, ".") || str_eq(name, "..");
}

// Removes the files of a working folder, and working folders in a working folder. Allocates no
// memory, so that a conversion that is out of memory can remove its folder.
static void folder_empty(int fd, int depth)
{
    alignas(struct dirent64) char entries[4096];
    CLEANUP(close_fdp) int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; own >= 0 && (n = syscall(SYS_getdents64, own, entries, sizeof(entries))) > 0;)
        for (long at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (unlinkat(fd, entry->d_name, 0) == 0 || depth == DEPTH_MAX || is_dots(entry->d_name))
                continue;
            int below = openat(fd, entry->d_name, BELOW_FLAGS);
            if (below >= 0)
                folder_empty(below, depth + 1);
            close_fd(below);
            unlinkat(fd, entry->d_name, AT_REMOVEDIR);
        }
}

bool working_folder_is_name(const char *name, const char *output)
{
    const char *mark = str_starts_with(name, output) ? name + strlen(output) : "";
    return str_starts_with(mark, FOLDER_MARK) && strlen(mark) == strlen(FOLDER_MARK "XXXXXX");
}

// Returns whether another user can give the name of a working folder to any folder of this user.
static bool others_may_rename(int folder_fd)
{
    struct stat st;
    if (fstat(folder_fd, &st) < 0 || (st.st_uid != geteuid() && st.st_uid != 0))
        return true;
    return !(st.st_mode & S_ISVTX) && st.st_mode & (S_IWGRP | S_IWOTH);
}

// Removes the folders of killed processes. A folder that can be locked belongs to no living
// process. If locks do not work, no folder is removed.
static void left_folders_remove(const char *output)
{
    CLEANUP(freep) char *folder = folder_of(output);
    const char *slash = strrchr(output, '/');
    DIR *dir CLEANUP(closedirp) = folder ? opendir(folder) : NULL;
    if (!dir || others_may_rename(dirfd(dir)))
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!working_folder_is_name(entry->d_name, slash ? slash + 1 : output))
            continue;
        struct stat st;
        CLEANUP(close_fdp)
        int fd = openat(dirfd(dir), entry->d_name, BELOW_FLAGS);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
            flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        folder_empty(fd, 0);
        unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    }
}

// Returns 0, or a negative errno: -EPERM if the folder has files.
static int check_empty(int folder_fd)
{
    CLEANUP(close_fdp) int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir CLEANUP(closedirp) = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return -errno;
    steal_fd(&fd);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (!is_dots(entry->d_name))
            return -EPERM;
    return 0;
}

// Opens the folder that mkdtemp() has made. Another user may have put another folder of this user
// in its place.
static int open_own_folder(const char *path)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = open(path, BELOW_FLAGS);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    int r = st.st_uid == geteuid() ? check_empty(fd) : -EPERM;
    if (r < 0) {
        errno = -r;
        return -1;
    }
    fchmod(fd, 0700);
    return steal_fd(&fd);
}

int working_folder_make(const char *output, struct err *err, struct working_folder *ret)
{
    left_folders_remove(output);
    struct working_folder folder = {.fd = -1};
    struct stat st;
    do { // until no other process removed the folder between mkdtemp() and flock()
        working_folder_remove(&folder);
        if (asprintf(&folder.path, "%s" FOLDER_MARK "XXXXXX", output) < 0)
            return err_errno(err, -ENOMEM, "%s", output);
        if (!mkdtemp(folder.path)) {
            int r = err_errno(err, -errno, "%s", output);
            free(folder.path);
            return r;
        }
        folder.fd = open_own_folder(folder.path);
        if (folder.fd >= 0)
            flock(folder.fd, LOCK_EX | LOCK_NB);
    } while (folder.fd < 0 ? errno == ENOENT : fstat(folder.fd, &st) == 0 && st.st_nlink == 0);
    int r = folder.fd < 0 ? err_errno(err, -errno, "%s", folder.path) : 0;
    if (r == 0)
        *ret = folder;
    else
        working_folder_remove(&folder);
    return r;
}

void working_folder_remove(struct working_folder *folder)
{
    if (folder->path && folder->fd >= 0)
        folder_empty(folder->fd, 0);
    if (folder->path) {
        rmdir(folder->path);
        close_fd(folder->fd);
    }
    free(folder->path);
    *folder = (struct working_folder){.fd = -1};
}

int working_file_make(const struct working_folder *folder, const char *name, struct err *err,
                      char **ret)
{
    char own[32], *path;
    CLEANUP(close_fdp)
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, -errno, "%s/%s", folder->path, name);
    snprintf(own, sizeof(own), "/proc/self/fd/%d", folder->fd);
    if (asprintf(&path, "%s/%s", access(own, F_OK) == 0 ? own : folder->path, name) < 0)
        return err_errno(err, -ENOMEM, "%s", name);
    *ret = path;
    return 0;
}

// Finds the place. An output that is a link to a missing file is replaced.
int output_place_find(const char *output, bool follows_last, struct output_place *ret,
                      struct err *err)
{
    struct stat st;
    char own[32];
    *ret = (struct output_place){.end = PATH_END_INIT, .shown = output};
    int r = path_walk(output, follows_last && stat(output, &st) == 0, NULL, &ret->end);
    if (ret->end.part)
        return path_walk_error(output, &ret->end, err);
    if (r < 0)
        return err_errno(err, r, "%s", output);
    snprintf(own, sizeof(own), "/proc/self/fd/%d", ret->end.folder);
    bool is_held = !ret->end.is_magic && access(own, F_OK) == 0;
    if (is_held && asprintf(&ret->path, "%s/%s", own, ret->end.name) < 0)
        ret->path = NULL;
    if (!is_held && !(ret->path = realpath(output, NULL)))
        ret->path = strdup(output); // a pipe has no real path
    return ret->path ? 0 : err_errno(err, -ENOMEM, "%s", output);
}

int output_place_error(const struct output_place *place, int r, struct err *err)
{
    size_t n = strlen(place->path);
    if (r < 0 && strncmp(err->text, place->path, n) == 0) {
        char rest[sizeof(err->text)];
        snprintf(rest, sizeof(rest), "%s", err->text + n);
        snprintf(err->text, sizeof(err->text), "%s%s", err_name(place->shown), rest);
    }
    return r;
}

void output_place_done(struct output_place *place)
{
    path_end_done(&place->end);
    free(STEAL(place->path));
}

uint64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

bool has_journal(const char *output)
{
    static const char *const suffixes[] = {"-wal", "-journal"};
    bool found = false;
    for (size_t i = 0; i < ELEMENTS(suffixes) && !found; i++) {
        CLEANUP(freep) char *path = NULL;
        if (asprintf(&path, "%s%s", output, suffixes[i]) < 0)
            path = NULL;
        found = !path || access(path, F_OK) == 0;
    }
    return found;
}

static int rewrite(const char *working, const char *output, struct err *err)
{
    sqlite3 *from = NULL, *to = NULL;
    int code = handle_open_written(working, SQLITE_OPEN_READONLY, &from);
    if (code == SQLITE_OK)
        code = handle_defend(from);
    if (code == SQLITE_OK)
        code = handle_open_written(output, SQLITE_OPEN_READWRITE, &to);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(to, BUSY_TIMEOUT_MS);
    if (code == SQLITE_OK)
        code = handle_defend_written(to);
    sqlite3_backup *backup =
        code == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
    if (backup) {
        sqlite3_backup_step(backup, -1);
        code = sqlite3_backup_finish(backup);
    } else if (code == SQLITE_OK) {
        code = sqlite3_errcode(to);
    }
    sqlite3_close(from);
    sqlite3_close(to);
    if (code != SQLITE_OK)
        return err_set(err, code == SQLITE_BUSY ? -EBUSY : -EIO,
                       "%s: in use by another program: %s", output, sqlite3_errstr(code));
    return 0;
}

// Opens a complete working file. Without /proc, the owner of the output's folder can put another
// file, or a link, in its place. Returns a descriptor or a negative errno.
static int open_own(const char *working)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = open(working, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return -EPERM;
    return steal_fd(&fd);
}

int working_file_publish(const char *working, const char *output, bool sync, struct err *err)
{
    if (memory_was_refused()) // an allocation failed: the file may be incomplete
        return err_errno(err, -ENOMEM, "%s", output);
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    bool replaces = lstat(output, &st) == 0 && S_ISREG(st.st_mode);
    if (replaces && has_journal(output)) {
        int r = rewrite(working, output, err);
        if (r == 0)
            unlink(working);
        return r;
    }
    CLEANUP(close_fdp) int fd = open_own(working);
    if (fd < 0)
        return err_errno(err, fd, "%s", output);
    if (fchmod(fd, replaces ? st.st_mode & 0777 : 0666 & ~mask) < 0 ||
        (sync && fdatasync(fd) < 0) || rename(working, output) < 0)
        return err_errno(err, -errno, "%s", output);
    return 0;
}
