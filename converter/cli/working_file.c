// SPDX-License-Identifier: Apache-2.0
//
// rename() replaces a file whole or not at all. Where what is in the old file is in the new one as
// well, and nowhere else, the new one is on the disk before it takes the name.
//
// A database that somebody has opened meanwhile may have a journal beside it, which belongs to the
// file of that name, whichever it is. Such a one is therefore not replaced but rewritten through
// SQLite, in one transaction.
#include "converter/cli/working_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

#define BUSY_TIMEOUT_MS 5000

char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int working_file_make(const char *output, struct err *err, char **ret)
{
    char *path;
    if (asprintf(&path, "%s.XXXXXX", output) < 0)
        return err_errno(err, -ENOMEM, "%s", output);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        int r = err_errno(err, -errno, "%s", output);
        free(path);
        return r;
    }
    close_fd(fd);
    *ret = path;
    return 0;
}

uint64_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static bool has_journal(const char *output)
{
    static const char *const suffixes[] = {"-wal", "-journal"};
    bool found = false;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && !found; i++) {
        CLEANUP(freep) char *path = NULL;
        found = asprintf(&path, "%s%s", output, suffixes[i]) < 0 || access(path, F_OK) == 0;
    }
    return found;
}

static int rewrite(const char *working, const char *output, struct err *err)
{
    sqlite3 *from = NULL, *to = NULL;
    int code = sqlite3_open_v2(working, &from, SQLITE_OPEN_READONLY, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(output, &to, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(to, BUSY_TIMEOUT_MS);
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

int working_file_publish(const char *working, const char *output, bool sync, struct err *err)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    bool replaces = stat(output, &st) == 0;
    if (replaces && has_journal(output)) {
        int r = rewrite(working, output, err);
        if (r == 0)
            unlink(working);
        return r;
    }
    CLEANUP(close_fdp) int fd = open(working, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, replaces ? st.st_mode & 0777 : 0666 & ~mask) < 0 ||
        (sync && fdatasync(fd) < 0) || rename(working, output) < 0)
        return err_errno(err, -errno, "%s", output);
    return 0;
}
