// SPDX-License-Identifier: Apache-2.0
//
// A scan walks over a list of work: each path (through glob, then fts for folders), then each
// process (through its maps). Every iterator can pause, so a slice takes no longer than its
// deadline plus one step. The slow single steps are one glob() and the reading of one folder.
//
// A library that a hundred processes map must not be opened a hundred times per scan. Therefore the
// device and inode of a maps line are first looked up in `mapped`, which remembers files in the set
// and, during a scan, refused files. The device in maps is the file system's and can differ from
// st_dev (btrfs, overlayfs): `mapped` has keys of its own, and the set's identity of a file is
// always by fstat().
#include "producer/sources/residency/file_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/map.h"
#include "common/str.h"
#include "producer/foreign/path.h"
#include "producer/foreign/payer.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/process_life.h"
#include "producer/sources/requester.h"
#include "producer/sources/residency/probe.h"

// Descriptors reserved for the rest of the program.
#define FDS_RESERVED 256
#define PATH_ROOM    8192
#define MAPPED_MAX   65536

VEC_DEFINE(pid_list, int32_t);

enum scan_stage { SCAN_IDLE, SCAN_PATHS, SCAN_GLOB, SCAN_TREE, SCAN_PIDS, SCAN_MAPS };

struct file_set {
    struct file_set_options options;
    struct residency_files files;
    struct map64 by_inode; // hash of (st_dev, inode) -> address of the file
    struct map64 mapped;   // hash of a maps line's device and inode -> see REFUSED
    uint32_t last_id;
    size_t n_open, n_open_max;
    bool full_logged;

    enum scan_stage stage;
    uint32_t scan;   // number of the present scan
    size_t position; // in options.paths, then in `pids`
    bool was_late;   // this scan could not read a process in time
    glob_t glob;
    size_t glob_position;
    FTS *tree;
    dev_t tree_device;
    struct pid_list pids;
    struct process_file maps_file;
    struct maps_reader maps; // of `maps_file`
};

static uint64_t identity(uint64_t device, uint64_t inode)
{
    return hash_u64(inode ^ hash_u64(device));
}

static size_t raise_fd_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    return limit.rlim_cur > FDS_RESERVED ? limit.rlim_cur - FDS_RESERVED : 0;
}

int file_set_new(const struct file_set_options *options, struct file_set **ret, struct err *err)
{
    struct file_set *set = calloc(1, sizeof(*set));
    if (!set)
        return err_errno(err, -ENOMEM, "page residency");
    set->options = *options;
    set->n_open_max = raise_fd_limit();
    set->maps_file.fd = -1;
    *ret = set;
    return 0;
}

static void file_free(struct file_set *set, struct residency_file *file)
{
    if (file->fd >= 0)
        set->n_open--;
    file->fd = close_fd(file->fd);
    free(file->path);
    free(file);
}

static void scan_end(struct file_set *set)
{
    if (set->stage == SCAN_GLOB || set->stage == SCAN_TREE)
        globfree(&set->glob);
    if (set->tree)
        fts_close(set->tree);
    set->tree = NULL;
    process_file_close(&set->maps_file);
    set->stage = SCAN_IDLE;
}

struct file_set *file_set_free(struct file_set *set)
{
    if (!set)
        return NULL;
    int saved = errno;
    scan_end(set);
    vec_foreach(&set->files, file)
        file_free(set, *file);
    residency_files_done(&set->files);
    pid_list_done(&set->pids);
    map64_done(&set->by_inode);
    map64_done(&set->mapped);
    free(set);
    errno = saved;
    return NULL;
}

const struct residency_files *file_set_files(const struct file_set *set)
{
    return &set->files;
}

// Only the first scan logs, so that a missing path is one line, not one per scan.
#define scan_complain(set, ...)                                                                    \
    do {                                                                                           \
        if ((set)->scan == 1)                                                                      \
            log_warning((set)->options.log, __VA_ARGS__);                                          \
    } while (0)

static struct residency_file *find(const struct file_set *set, uint64_t device, uint64_t inode)
{
    const uint64_t *value = map64_find(&set->by_inode, identity(device, inode));
    struct residency_file *file = value ? (struct residency_file *)(uintptr_t)*value : NULL;
    return file && file->device == device && file->inode == inode ? file : NULL;
}

static void meet(struct file_set *set, struct residency_file *file, bool by_path)
{
    if (file->seen_by_scan != set->scan) {
        file->seen_by_scan = set->scan;
        file->by_path = file->by_process = false;
    }
    file->by_path |= by_path;
    file->by_process |= !by_path;
}

static bool has_room(struct file_set *set)
{
    if (set->files.n < set->options.max_files)
        return true;
    if (!set->full_logged)
        log_warning(set->options.log,
                    "linux.page_residency: more than %zu files: the rest is not watched (raise "
                    "max_files)",
                    set->options.max_files);
    set->full_logged = true;
    return false;
}

// Takes over `fd`. Returns 0 or -ENOMEM. *ret stays NULL if the file is not wanted.
static int add_opened(struct file_set *set, const char *path, int32_t root_pid, int fd,
                      const struct stat *st, bool by_path, struct residency_file **ret)
{
    CLEANUP(close_fdp) int owned = fd;
    struct residency_file *file = find(set, st->st_dev, st->st_ino);
    if (file && !file->gone) {
        meet(set, file, by_path);
        *ret = file;
        return 0;
    }
    if (file || (uint64_t)st->st_size < set->options.min_size_bytes || !has_room(set))
        return 0;
    int r = residency_files_reserve(&set->files, set->files.n + 1);
    if (r < 0)
        return r;
    file = calloc(1, sizeof(*file));
    if (!file)
        return -ENOMEM;
    file->fd = -1;
    file->path = strdup(path);
    file->root_pid = root_pid;
    file->device = st->st_dev;
    file->inode = st->st_ino;
    uint64_t value = (uint64_t)(uintptr_t)file;
    if (!file->path || map64_set(&set->by_inode, identity(st->st_dev, st->st_ino), value) < 0) {
        file_free(set, file);
        return -ENOMEM;
    }
    file->id = ++set->last_id;
    if (set->n_open < set->n_open_max) {
        file->fd = steal_fd(&owned);
        set->n_open++;
    }
    meet(set, file, by_path);
    residency_files_push(&set->files, file);
    *ret = file;
    return 0;
}

static int add_path(struct file_set *set, const char *path)
{
    int fd;
    struct stat st;
    struct residency_file *file = NULL;
    int r = residency_open(AT_FDCWD, path, &fd, &st);
    if (r < 0) {
        scan_complain(set, "linux.page_residency: %s: %s%s", path,
                      r == -EINVAL ? "not a regular file" : strerror(-r),
                      r == -EACCES ? " (run as root)" : "");
        return 0;
    }
    if (!requester_may_read(set->options.requester, fd, &st)) {
        close_fd(fd);
        scan_complain(
            set, "linux.page_residency: %s: user %u, who asked for the recording, may not read it",
            path, (unsigned)set->options.requester->uid);
        return 0;
    }
    return add_opened(set, path, 0, fd, &st, true, &file);
}

// Adds one entry of a folder tree. fts has the stat of the entry: most unwanted files are never
// opened.
static int add_tree_entry(struct file_set *set, const FTSENT *entry)
{
    if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
        scan_complain(set, "linux.page_residency: %s: %s", entry->fts_path,
                      strerror(entry->fts_errno));
    if (entry->fts_info != FTS_F || !S_ISREG(entry->fts_statp->st_mode) ||
        entry->fts_statp->st_dev != set->tree_device)
        return 0;
    struct residency_file *file = find(set, entry->fts_statp->st_dev, entry->fts_statp->st_ino);
    if (file && !file->gone) {
        meet(set, file, true);
        return 0;
    }
    if ((uint64_t)entry->fts_statp->st_size < set->options.min_size_bytes || !has_room(set))
        return 0;
    return add_path(set, entry->fts_path);
}

static bool is_glob(const char *path)
{
    return strpbrk(path, "*?[") != NULL;
}

static void begin_path(struct file_set *set, char *path)
{
    set->glob = (glob_t){0};
    set->glob_position = 0;
    set->stage = SCAN_GLOB;
    // Without a match glob() returns the pattern itself, which may be a file named "a[1]".
    if (is_glob(path) && glob(path, GLOB_NOSORT | GLOB_NOCHECK, NULL, &set->glob) != 0)
        scan_complain(set, "linux.page_residency: %s: cannot be expanded", path);
}

// Returns the next name of the present path: a match, or the path itself.
static char *next_name(struct file_set *set)
{
    char *path = set->options.paths[set->position];
    size_t i = set->glob_position++;
    if (is_glob(path))
        return i < set->glob.gl_pathc ? set->glob.gl_pathv[i] : NULL;
    return i == 0 ? path : NULL;
}

static int begin_name(struct file_set *set, char *name)
{
    struct stat st;
    if (stat(name, &st) < 0) {
        scan_complain(set, "linux.page_residency: %s: %s", name, strerror(errno));
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return add_path(set, name);
    char *roots[] = {name, NULL};
    set->tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV | FTS_COMFOLLOW, NULL);
    if (!set->tree)
        return errno == ENOMEM ? -ENOMEM : 0;
    set->tree_device = st.st_dev;
    set->stage = SCAN_TREE;
    return 0;
}

static int step_tree(struct file_set *set)
{
    FTSENT *entry = fts_read(set->tree);
    if (entry)
        return add_tree_entry(set, entry);
    fts_close(set->tree);
    set->tree = NULL;
    set->stage = SCAN_GLOB;
    return 0;
}

static int step_names(struct file_set *set)
{
    char *name = next_name(set);
    if (name)
        return begin_name(set, name);
    globfree(&set->glob);
    set->position++;
    set->stage = SCAN_PATHS;
    return 0;
}

static int list_pids(struct file_set *set)
{
    pid_list_clear(&set->pids);
    for (size_t i = 0; i < set->options.n_pids; i++)
        if (pid_list_push(&set->pids, set->options.pids[i]) < 0)
            return -ENOMEM;
    if (!set->options.n_cmdlines)
        return 0;
    DIR *dir CLEANUP(closedirp) = opendir(set->options.proc);
    if (!dir) {
        scan_complain(set, "linux.page_residency: %s: %s", set->options.proc, strerror(errno));
        return 0;
    }
    int r = 0;
    for (int32_t pid; r == 0 && (pid = process_next(dir));) {
        int called = process_is_called(set->options.proc, pid, set->options.cmdlines,
                                       set->options.n_cmdlines);
        set->was_late |= process_file_is_late(called);
        if (called > 0)
            r = pid_list_push(&set->pids, pid);
    }
    return r;
}

// In set->mapped: the address of a file, or REFUSED with the scan in which the file was refused.
#define REFUSED (UINT64_C(1) << 63)

// Opens a name that counts from the root of a process. If a user can have made the mounts of the
// process, no file is opened: a file system of this user may never answer.
static int open_below_root(const struct file_set *set, int32_t pid, const char *path, int *ret_fd,
                           struct stat *st)
{
    int root CLEANUP(close_fdp) = foreign_root(set->options.proc, pid);
    if (root < 0 || foreign_has_own_mounts(set->options.proc, pid)) // mounts made meanwhile
        return root < 0 ? root : -EPERM;
    return residency_open(root, path + strspn(path, "/"), ret_fd, st);
}

// Opens a mapped file. Its address range (map_files) leads to the right file even if the file was
// deleted or is in another mount namespace, but needs privileges. Otherwise opens its name below
// the process's root.
static int open_mapping(const struct file_set *set, int32_t pid, const struct mapping *mapping,
                        const char *path, int *ret_fd, struct stat *st)
{
    char link[64];
    struct process_file held CLEANUP(process_file_close) = {.fd = -1};
    snprintf(link, sizeof(link), "map_files/%llx-%llx", (unsigned long long)mapping->start,
             (unsigned long long)mapping->end);
    int r = process_file_open(&held, set->options.proc, pid, link, O_PATH);
    if (process_file_is_late(r))
        return r;
    if (foreign_has_own_mounts(set->options.proc, pid))
        return -EPERM;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", held.fd);
    if (r == 0 && residency_open(AT_FDCWD, link, ret_fd, st) == 0)
        return 0;
    CLEANUP(close_fdp) int fd = -1;
    r = open_below_root(set, pid, path, &fd, st);
    if (r < 0)
        return r;
    // Same file system and another inode: the name leads to another file now.
    if (st->st_dev == makedev(mapping->major, mapping->minor) && st->st_ino != mapping->inode)
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int add_mapping(struct file_set *set, int32_t pid, const struct mapping *mapping)
{
    char path[PATH_ROOM];
    if (!mapping->inode || !mapping_get_path(mapping, path, sizeof(path)))
        return 0;
    bool is_new;
    uint64_t *known = map64_get_or_add(
        &set->mapped, identity(makedev(mapping->major, mapping->minor), mapping->inode), 0,
        &is_new);
    if (!known)
        return -ENOMEM;
    if (*known == (REFUSED | set->scan))
        return 0;
    if (*known && !(*known & REFUSED)) {
        struct residency_file *file = (struct residency_file *)(uintptr_t)*known;
        meet(set, file, false);
        return 0;
    }
    int fd;
    struct stat st;
    struct residency_file *file = NULL;
    int r = open_mapping(set, pid, mapping, path, &fd, &st);
    set->was_late |= process_file_is_late(r);
    if (r == 0)
        r = add_opened(set, path, pid, fd, &st, false, &file);
    *known = file ? (uint64_t)(uintptr_t)file : REFUSED | set->scan;
    return r == -ENOMEM ? r : 0;
}

static int step_pids(struct file_set *set)
{
    if (set->position == set->pids.n)
        return 0;
    int32_t pid = set->pids.items[set->position];
    bool allowed = requester_may_trace(set->options.requester, set->options.proc, pid);
    bool is_foreign = foreign_has_own_mounts(set->options.proc, pid);
    int r = !allowed ? -EACCES
            : is_foreign
                ? -EXDEV
                : process_file_open_maps(&set->maps_file, &set->maps, set->options.proc, pid);
    if (r == 0) {
        set->stage = SCAN_MAPS;
        return 0;
    }
    set->was_late |= process_file_is_late(r);
    if (r == -EACCES || r == -EPERM)
        scan_complain(
            set,
            "linux.page_residency: process %d: its maps may not be read (run as root or its "
            "user)",
            pid);
    else if (r == -EXDEV)
        scan_complain(set,
                      "linux.page_residency: process %d: its files are left out: a user who is not "
                      "root makes its mounts",
                      pid);
    else
        scan_complain(set, "linux.page_residency: process %d: %s", pid, process_file_strerror(r));
    set->position++;
    return 0;
}

static int step_maps(struct file_set *set)
{
    struct mapping mapping;
    int32_t pid = set->pids.items[set->position];
    int r = maps_next(&set->maps, &mapping);
    if (r > 0)
        return add_mapping(set, pid, &mapping);
    set->was_late |= process_file_is_late(r);
    if (r < 0)
        scan_complain(set, "linux.page_residency: process %d: %s", pid, process_file_strerror(r));
    process_file_close(&set->maps_file);
    set->stage = SCAN_PIDS;
    set->position++;
    return 0;
}

// Does one step. Sets *ret_done if no step is left.
static int step(struct file_set *set, bool *ret_done)
{
    switch (set->stage) {
    case SCAN_IDLE:
        set->scan++;
        set->position = 0;
        set->was_late = false;
        if (set->mapped.n > MAPPED_MAX) // the map also has old refusals
            map64_clear(&set->mapped);
        set->stage = SCAN_PATHS;
        return 0;
    case SCAN_PATHS:
        if (set->position < set->options.n_paths) {
            begin_path(set, set->options.paths[set->position]);
            return 0;
        }
        set->position = 0;
        set->stage = SCAN_PIDS;
        return list_pids(set);
    case SCAN_GLOB:
        return step_names(set);
    case SCAN_TREE:
        return step_tree(set);
    case SCAN_PIDS:
        *ret_done = set->position == set->pids.n;
        return step_pids(set);
    case SCAN_MAPS:
        return step_maps(set);
    }
    return 0;
}

int file_set_scan(struct file_set *set, nsec_t deadline)
{
    for (bool done = false; !done;) {
        int r = step(set, &done);
        if (r < 0) {
            scan_end(set);
            return r;
        }
        if (!done && nsec_now(CLOCK_MONOTONIC) >= deadline)
            return FILE_SET_E_AGAIN;
    }
    scan_end(set);
    vec_foreach(&set->files, file)
        if ((*file)->seen_by_scan != set->scan && !(set->was_late && (*file)->by_process))
            (*file)->gone = true;
    return 0;
}

int file_set_acquire(const struct file_set *set, const struct residency_file *file, int *ret_fd)
{
    if (file->fd >= 0) {
        *ret_fd = file->fd;
        return 0;
    }
    struct stat st;
    CLEANUP(close_fdp) int fd = -1;
    int r = file->root_pid ? open_below_root(set, file->root_pid, file->path, &fd, &st)
                           : residency_open(AT_FDCWD, file->path, &fd, &st);
    if (r < 0)
        return r;
    if (st.st_dev != file->device || st.st_ino != file->inode)
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

void file_set_release(const struct residency_file *file, int fd)
{
    if (fd != file->fd)
        close_fd(fd);
}

void file_set_sweep(struct file_set *set, void (*forget)(void *, struct residency_file *),
                    void *userdata)
{
    size_t n = 0;
    bool swept = false;
    vec_foreach(&set->files, file) {
        if (!(*file)->gone) {
            set->files.items[n++] = *file;
            continue;
        }
        if (forget)
            forget(userdata, *file);
        map64_remove(&set->by_inode, identity((*file)->device, (*file)->inode));
        file_free(set, *file);
        swept = true;
    }
    set->files.n = n;
    if (swept) // the map holds addresses of files
        map64_clear(&set->mapped);
}
