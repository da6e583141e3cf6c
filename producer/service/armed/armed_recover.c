// SPDX-License-Identifier: Apache-2.0
//
// Users other than root may have access to the folder. A part is cut and marked, which must not
// happen to a file that another user has linked into the folder. Therefore a part must be a regular
// file of this user with a single name. A part is opened by its name in the folder, without
// following links. The lock tells a part of a dead writer from a part of a running daemon. A writer
// that has just completed its file no longer holds the lock, but then the file has another name.
#include "producer/service/armed/armed_recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/service/armed/armed_file.h"
#include "producer/trace/trace_repair.h"

// Returns the final name of the part (owned by the caller), or NULL if the name is not a part's.
static char *final_name(const char *name)
{
    if (*name == '.' || !str_ends_with(name, ARMED_FILE_SUFFIX ARMED_PART_SUFFIX))
        return NULL;
    CLEANUP(freep) char *final = strndup(name, strlen(name) - strlen(ARMED_PART_SUFFIX));
    for (const char *dash = final ? strchr(final, '-') : NULL; dash; dash = strchr(dash + 1, '-')) {
        CLEANUP(freep) char *stem = strndup(final, (size_t)(dash - final));
        if (stem && armed_file_is_ours(final, stem))
            return STEAL(final);
    }
    return NULL;
}

// Returns whether `name` is the second file of a journal, which has not replaced the first file.
static bool is_second(const char *name)
{
    const char *dash = strrchr(name, '-');
    return *name == '.' && dash && dash > name + 1 && dash[1] >= '0' && dash[1] <= '9' &&
           str_eq(dash + 1 + strspn(dash + 1, "0123456789"), ARMED_FILE_SUFFIX ARMED_PART_SUFFIX);
}

static bool is_named(int dir_fd, const char *name, struct stat *ret)
{
    return fstatat(dir_fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(ret->st_mode) &&
           ret->st_uid == geteuid() && ret->st_nlink == 1;
}

// Opens and locks a file without a writer. Returns a descriptor, or -1.
static int open_part(int dir_fd, const char *name)
{
    struct stat st, named;
    if (!is_named(dir_fd, name, &st)) // checked before the open, which devices would notice
        return -1;
    CLEANUP(close_fdp)
    int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 ||
        !is_named(dir_fd, name, &named) || named.st_dev != st.st_dev || named.st_ino != st.st_ino)
        return -1;
    return steal_fd(&fd);
}

static int close_part(struct armed_file *file, struct trace_repair *ret)
{
    int r = trace_repair(file->fd, 0, ret);
    return r < 0 || ret->bytes == 0 ? r : armed_file_complete(file);
}

static bool recover(const char *folder, int dir_fd, const char *name, const struct log *log,
                    void (*found)(void *userdata, const char *path), void *userdata)
{
    struct trace_repair repair = {0};
    struct armed_file file = {.fd = -1, .is_part = true};
    CLEANUP(freep) char *final = final_name(name);
    if (!final && !is_second(name))
        return false;
    file.fd = open_part(dir_fd, name);
    if (file.fd < 0)
        return false;
    if (!final || asprintf(&file.path, "%s/%s", folder, final) < 0)
        file.path = NULL;
    int r = file.path ? close_part(&file, &repair) : -ENOENT;
    bool is_trace = r == 0 && repair.bytes > 0;
    if (is_trace)
        log_warning(log,
                    "recovered %s: %" PRIu64 " packets in %" PRIu64
                    " bytes; the daemon that recorded it died, %" PRIu64
                    " bytes after its last whole packet were cut",
                    file.path, repair.packets, repair.bytes, repair.cut_bytes);
    else if (file.path && r < 0)
        log_error(log, "%s/%s: cannot be recovered: %s", folder, name, strerror(-r));
    else
        unlinkat(dir_fd, name, 0);
    if (is_trace && found)
        found(userdata, file.path);
    if (is_trace || r < 0) {
        close_fd(file.fd);
        free(file.path);
    } else {
        armed_file_close(&file);
    }
    return is_trace;
}

uint64_t armed_recover(const char *folder, const struct log *log,
                       void (*found)(void *userdata, const char *path), void *userdata)
{
    DIR *dir CLEANUP(closedirp) = opendir(folder);
    uint64_t n = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        n += recover(folder, dirfd(dir), entry->d_name, log, found, userdata);
    return n;
}
