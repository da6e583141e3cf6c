// SPDX-License-Identifier: Apache-2.0
//
// These are SQLite's own precautions against untrusted files
// (https://www.sqlite.org/security.html). A setting that SQLite does not know is ignored, because
// this SQLite is built without the feature.
//
// SQLite replaces the links in a path by their targets before it opens the file. The folder of
// working files is held by a descriptor and named by a link (/proc/self/fd/N), which only the
// kernel follows correctly. Therefore written databases use a special file system layer: a copy of
// SQLite's layer that does not change paths. The layer's open() does not follow a link.
//
// A journal of an unfinished transaction can name another journal, which SQLite removes. The owner
// of the folder could thus remove any file, so the layer does not open such a journal.
//
// As root, SQLite gives the files beside a database to the database's owner. The owner of the
// folder could have put a file of root there, so mmsql replaces this call by a call without effect.
// SQLite also opens these files without regard to their type: a FIFO would block mmsql. mmsql opens
// only regular files, and no file of its own user that the owner of the folder may have renamed.
#include "converter/tables/defend.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"

#define LAYER "mmsql"

static bool is_beside_database(const char *path)
{
    static const char *const ends[] = {"-journal", "-wal", "-shm"};
    size_t size = strlen(path);
    for (size_t i = 0; i < ELEMENTS(ends); i++) {
        size_t n = strlen(ends[i]);
        if (size > n && strcmp(path + size - n, ends[i]) == 0)
            return true;
    }
    return false;
}

// Returns whether another user owns the folder.
static bool is_in_strangers_folder(const char *path)
{
    struct stat folder;
    const char *slash = strrchr(path, '/');
    CLEANUP(freep) char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    return !name || stat(name, &folder) < 0 || (folder.st_uid != geteuid() && folder.st_uid != 0);
}

static bool may_open(const char *path, const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) // SQLite reads random numbers from a device
        return S_ISDIR(st->st_mode) || str_eq(path, "/dev/urandom");
    // A file that SQLite has just made is empty.
    return st->st_size == 0 || st->st_uid != geteuid() || !is_beside_database(path) ||
           !is_in_strangers_folder(path);
}

static int open_checked(const char *path, int flags, int mode)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = open(path, flags | O_NONBLOCK | O_NOCTTY, mode);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !may_open(path, &st))) {
        errno = EACCES;
        return -1;
    }
    return steal_fd(&fd);
}

static int owner_stays(int fd, uid_t uid, gid_t gid)
{
    (void)fd, (void)uid, (void)gid;
    return 0;
}

static void replace_calls(void)
{
    sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    if (!usual || usual->iVersion < 3 || !usual->xSetSystemCall)
        return;
    usual->xSetSystemCall(usual, "open", (sqlite3_syscall_ptr)open_checked);
    usual->xSetSystemCall(usual, "fchown", (sqlite3_syscall_ptr)owner_stays);
}

static void calls_replace_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, replace_calls);
}

static int path_as_is(sqlite3_vfs *vfs, const char *path, int size, char *ret)
{
    (void)vfs;
    if (strlen(path) >= (size_t)size)
        return SQLITE_CANTOPEN;
    strcpy(ret, path);
    return SQLITE_OK;
}

static int file_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    if (flags & SQLITE_OPEN_SUPER_JOURNAL)
        return SQLITE_CANTOPEN;
    return sqlite3_vfs_find(NULL)->xOpen(vfs, path, file, flags, ret_flags);
}

// Registers the layer, which SQLite keeps until the end of the process.
static int layer_register(void)
{
    const sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    if (sqlite3_vfs_find(LAYER))
        return SQLITE_OK;
    sqlite3_vfs *layer = usual ? malloc(sizeof(*layer)) : NULL;
    if (!layer)
        return SQLITE_NOMEM;
    *layer = *usual;
    layer->pNext = NULL;
    layer->zName = LAYER;
    layer->xFullPathname = path_as_is;
    layer->xOpen = file_open;
    return sqlite3_vfs_register(layer, 0);
}

int handle_open_written(const char *path, int flags, struct sqlite3 **ret)
{
    calls_replace_once();
    int code = layer_register();
    return code == SQLITE_OK ? sqlite3_open_v2(path, ret, flags, LAYER) : code;
}

int handle_defend(struct sqlite3 *handle)
{
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0, NULL);
    return sqlite3_exec(handle, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL, NULL);
}

int handle_defend_written(struct sqlite3 *handle)
{
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    return handle_defend(handle);
}

int handle_open_reading(const char *path, struct sqlite3 **ret)
{
    calls_replace_once();
    int code = sqlite3_open_v2(path, ret, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = handle_defend(*ret);
    return code == SQLITE_OK ? sqlite3_exec(*ret, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL)
                             : code;
}
