// SPDX-License-Identifier: Apache-2.0
//
// The folders are the source of truth: the daemon may be dead, but its files stay. The files are
// listed first; then only the wanted files are opened. Therefore a folder with many files costs
// only their names and times.
//
// The caller may be root, and another user may have write access to the folder. A file is judged by
// its open descriptor: it must be a regular file with a single name, of a trusted owner.
//
// The writer of a part holds a lock on the part. The lock is tried and released at once, because a
// starting daemon needs the lock.
#include "producer/service/armed/trace_history.h"

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
#include "common/folder.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/armed/armed_snapshot.h"

#define NAMES_MAX    100000 // per folder
#define LISTED_MAX   8192   // files to compare
#define PROBLEMS_MAX 8192   // bytes

struct listed {
    struct finished_trace trace; // without a descriptor
    dev_t dev;
    ino_t ino;
};
VEC_DEFINE(listed_vec, struct listed);

static void problem_note(struct trace_history *history, const char *folder, const char *name, int r)
{
    if (history->problems.size < PROBLEMS_MAX)
        strbuf_addf(&history->problems, "%s%s%s: %s\n", folder, name ? "/" : "", name ? name : "",
                    r == -EPERM   ? "not read: another owner, or a second link"
                    : r == -ENXIO ? "not read: not a regular file"
                    : r == -EBUSY ? "not read: another process writes into it"
                                  : strerror(-r));
}

static bool is_part(const char *name)
{
    return str_ends_with(name, ARMED_FILE_SUFFIX ARMED_PART_SUFFIX);
}

static bool name_fits(const char *name, const char *stem)
{
    if (stem)
        return armed_file_is_ours(name, stem) || armed_snapshot_is_ours(name, stem);
    return *name != '.' && str_ends_with(name, ARMED_FILE_SUFFIX);
}

static bool part_fits(const char *name, const char *stem)
{
    char whole[NAME_MAX + 1];
    if (!is_part(name))
        return false;
    snprintf(whole, sizeof(whole), "%.*s", (int)(strlen(name) - strlen(ARMED_PART_SUFFIX)), name);
    return name_fits(whole, stem);
}

static bool is_trusted(const struct stat *st, uid_t folder_owner)
{
    return S_ISREG(st->st_mode) && st->st_nlink == 1 &&
           (st->st_uid == 0 || st->st_uid == geteuid() || st->st_uid == folder_owner);
}

static void listed_done(struct listed_vec *all)
{
    vec_foreach(all, listed)
        free(listed->trace.path);
    listed_vec_done(all);
}

// Returns whether the list has the file already, from another folder. The higher score counts.
static bool merge_same(struct listed_vec *all, const struct stat *st, int32_t score)
{
    vec_foreach(all, listed) {
        if (listed->dev != st->st_dev || listed->ino != st->st_ino)
            continue;
        if (score > listed->trace.score)
            listed->trace.score = score;
        return true;
    }
    return false;
}

static int list_add(struct trace_history *history, struct listed_vec *all,
                    const struct trace_history_folder *folder, const char *name,
                    const struct stat *st)
{
    struct strbuf path = {0};
    if (merge_same(all, st, folder->score))
        return 0;
    if (all->n == LISTED_MAX) {
        history->n_beyond++;
        return 0;
    }
    strbuf_addf(&path, "%s/%s", folder->path, name);
    struct listed listed = {
        .trace =
            {
                .fd = -1,
                .path = strbuf_steal(&path),
                .written = nsec_from_timespec(&st->st_mtim),
                .bytes = (uint64_t)st->st_size,
                .score = folder->score,
                .is_part = is_part(name),
            },
        .dev = st->st_dev,
        .ino = st->st_ino,
    };
    if (listed.trace.path && listed_vec_push(all, listed) == 0)
        return 0;
    free(listed.trace.path);
    return -ENOMEM;
}

// Lists the files of a folder. A missing folder has no traces yet.
static int folder_list(struct trace_history *history, const struct trace_history_folder *folder,
                       bool parts, nsec_t oldest, struct listed_vec *all)
{
    DIR *dir CLEANUP(closedirp) = opendir(folder->path);
    struct stat st, of_folder;
    int r = 0;
    if (!dir && errno == ENOMEM)
        return -ENOMEM;
    if (!dir || fstat(dirfd(dir), &of_folder) < 0) {
        if (errno != ENOENT)
            problem_note(history, folder->path, NULL, -errno);
        return 0;
    }
    struct dirent *entry;
    for (size_t n = 0; r == 0 && n < NAMES_MAX && (entry = readdir(dir)); n++) {
        bool is_unfinished = part_fits(entry->d_name, folder->stem);
        history->n_unfinished += is_unfinished && !parts;
        if ((!name_fits(entry->d_name, folder->stem) && !(parts && is_unfinished)) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!is_trusted(&st, of_folder.st_uid)) {
            problem_note(history, folder->path, entry->d_name,
                         S_ISREG(st.st_mode) ? -EPERM : -ENXIO);
            continue;
        }
        nsec_t written = nsec_from_timespec(&st.st_mtim);
        if (st.st_size > 0 && written >= oldest) {
            r = list_add(history, all, folder, entry->d_name, &st);
        } else if (st.st_size > 0) {
            history->n_old++;
            history->newest_old = written > history->newest_old ? written : history->newest_old;
        }
    }
    return r;
}

static int newer_first(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->trace.written != y->trace.written)
        return x->trace.written < y->trace.written ? 1 : -1;
    return -strcmp(x->trace.path, y->trace.path);
}

// Opens a listed file if it is still the same file.
static int listed_open(const struct listed *listed)
{
    CLEANUP(close_fdp)
    int fd = open(listed->trace.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != listed->dev || st.st_ino != listed->ino || !S_ISREG(st.st_mode) ||
        st.st_nlink != 1)
        return -EPERM;
    if (listed->trace.is_part && flock(fd, LOCK_SH | LOCK_NB) < 0)
        return -EBUSY;
    if (listed->trace.is_part)
        flock(fd, LOCK_UN);
    return steal_fd(&fd);
}

static int take(struct trace_history *history, struct listed *listed)
{
    struct finished_trace trace = listed->trace;
    trace.fd = listed_open(listed);
    if (trace.fd < 0) {
        problem_note(history, trace.path, NULL, trace.fd);
        return 0;
    }
    if (finished_traces_push(&history->traces, trace) < 0) {
        close_fd(trace.fd);
        return -ENOMEM;
    }
    listed->trace.path = NULL;
    return 0;
}

int trace_history_find(const struct trace_history_folder *folders, size_t n_folders,
                       const struct trace_history_limits *limits, nsec_t now,
                       struct trace_history *ret)
{
    CLEANUP(listed_done) struct listed_vec all = {0};
    nsec_t oldest = now > limits->age ? now - limits->age : 0;
    int r = 0;
    *ret = (struct trace_history){0};
    for (size_t i = 0; i < n_folders && r == 0; i++)
        r = folder_list(ret, &folders[i], limits->parts, oldest, &all);
    if (all.n > 1)
        qsort(all.items, all.n, sizeof(all.items[0]), newer_first);
    uint64_t bytes = 0;
    for (size_t i = 0; i < all.n && r == 0; i++) {
        bytes += all.items[i].trace.bytes;
        if (ret->traces.n >= limits->files || (ret->traces.n > 0 && bytes > limits->bytes))
            ret->n_beyond++;
        else
            r = take(ret, &all.items[i]);
    }
    return r;
}

void trace_history_done(struct trace_history *history)
{
    vec_foreach(&history->traces, trace) {
        close_fd(trace->fd);
        free(trace->path);
    }
    finished_traces_done(&history->traces);
    strbuf_done(&history->problems);
}
