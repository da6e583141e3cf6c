// SPDX-License-Identifier: Apache-2.0
//
// A scan walks over a list of work: each path (named_files.h), then each process (through its
// maps). Every iterator can pause, so a slice takes no longer than its deadline plus one step.
//
// A library that a hundred processes map must not be opened a hundred times per scan. Therefore the
// device and inode of a maps line are first looked up in `mapped`, which remembers files in the set
// and, during a scan, refused files. The device in maps is the file system's and can differ from
// st_dev (btrfs, overlayfs): `mapped` has keys of its own, and the set's identity of a file is
// always by fstat(). On btrfs, files of several subvolumes have the same device and inode in maps,
// as have files of several layers on overlayfs: there, `mapped` knows a file for each process and
// name.
#include "producer/sources/residency/file_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/map.h"
#include "common/str.h"
#include "producer/foreign/helper.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/fd_limit.h"
#include "producer/ground/process_life.h"
#include "producer/sources/requester.h"
#include "producer/sources/residency/file_opener.h"
#include "producer/sources/residency/named_files.h"
#include "producer/sources/residency/set_user.h"

#define WALK_PAUSE     (20 * NSEC_PER_MSEC)
#define PATH_ROOM      8192
#define MAPPED_MAX     65536
#define LATE_SCANS_MAX 30
#define REPEATS_MAX    (10 * NSEC_PER_SEC) // of the steps of a scan, while mounts change
#define LINES_MAX      (1 << 20)           // of the maps of a process
#define LONG_CLOSE     ((64 << 10) / 512)  // blocks of a deleted file

VEC_DEFINE(pid_list, int32_t);

enum scan_stage { SCAN_IDLE, SCAN_PATHS, SCAN_NAMES, SCAN_PROCESSES, SCAN_PIDS, SCAN_MAPS };

struct file_set {
    struct file_set_options options;
    struct set_user *user; // of `users`
    struct residency_files files;
    struct map64 by_inode;   // hash of (st_dev, inode) -> address of the file
    struct map64 mapped;     // key_of() a maps line -> see REFUSED
    struct map64 subvolumes; // devices whose inode numbers repeat -> 0
    uint32_t last_id;
    bool full_logged;

    enum scan_stage stage;
    uint32_t scan;     // number of the present scan
    size_t position;   // in options.paths, then in `pids`
    bool was_late;     // this scan could not read a process, or the mounts, in time
    bool again;        // the last step is to be repeated: the mounts could not be judged
    nsec_t begun;      // time of the scan (CLOCK_MONOTONIC)
    nsec_t walk_due;   // another set of the user walks: the scan waits until then; 0: no wait
    DIR *processes;    // owned; in SCAN_PROCESSES
    unsigned n_lines;  // of the maps of the present process
    bool told_name;    // a failure of the present path was logged
    bool told_changes; // the changes of mounts were logged
    int32_t told_pid;  // the last process whose untrusted files were logged
    struct file_opener opener;
    struct named_files names; // of the present path, in SCAN_NAMES
    struct pid_list pids;
    struct process_file maps_file;
    struct line_reader maps; // of `maps_file`
    struct mapping mapping;  // the last one
};

// A stranger cannot choose numbers with equal identities.
static uint64_t identity(uint64_t device, uint64_t inode)
{
    return table_hash_u64(inode ^ table_hash_u64(device));
}

int file_set_new(const struct file_set_options *options, struct file_set **ret, struct err *err)
{
    struct file_set *set = calloc(1, sizeof(*set));
    if (!set)
        return err_errno(err, -ENOMEM, "page residency");
    set->options = *options;
    fd_limit_raise(RLIM_INFINITY);
    if (foreign_mounts_init(&set->opener.mounts, options->proc) == 0)
        set->user = set_user_join(options->requester);
    if (!set->user) {
        foreign_mounts_done(&set->opener.mounts);
        free(set);
        return err_errno(err, -ENOMEM, "page residency");
    }
    set->opener.mounts.foreign = options->foreign;
    set->opener.mounts.payer = options->requester ? options->requester->payer : 0;
    set->maps_file.fd = -1;
    set->opener.proc = options->proc;
    set->opener.requester = options->requester;
    *ret = set;
    return 0;
}

// The last close of a deleted file frees its memory.
static bool takes_long_to_close(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_blocks > LONG_CLOSE;
}

static void close_of(const struct file_set *set, int fd)
{
    foreign_close_file(takes_long_to_close(fd) ? set->opener.mounts.foreign : NULL, fd,
                       set->opener.mounts.payer);
}

static void file_close(struct file_set *set, struct residency_file *file)
{
    if (file->fd < 0)
        return;
    set_user_count(set->user, -1);
    close_of(set, file->fd);
    file->fd = -1;
}

// The files that are closed are opened for each look from now on.
static void close_some(struct file_set *set)
{
    for (size_t i = set->files.n; i > 0 && set_user_must_close(set->user); i--)
        file_close(set, set->files.items[i - 1]);
}

static void file_free(struct file_set *set, struct residency_file *file)
{
    file_close(set, file);
    free(file->path);
    free(file);
}

static void walk_end(struct file_set *set)
{
    named_files_end(&set->names);
    if (set->user->walker == set)
        set->user->walker = NULL;
}

void file_set_end_scan(struct file_set *set)
{
    if (set->stage == SCAN_NAMES)
        walk_end(set);
    closedirp(&set->processes);
    process_file_close(&set->maps_file);
    foreign_mounts_tidy(&set->opener.mounts);
    foreign_mounts_forget_process(&set->opener.mounts);
    set->again = false;
    set->stage = SCAN_IDLE;
}

struct file_set *file_set_free(struct file_set *set)
{
    if (!set)
        return NULL;
    int saved = errno;
    file_set_end_scan(set);
    vec_foreach(&set->files, file)
        file_free(set, *file);
    residency_files_done(&set->files);
    pid_list_done(&set->pids);
    map64_done(&set->by_inode);
    map64_done(&set->mapped);
    map64_done(&set->subvolumes);
    foreign_mounts_done(&set->opener.mounts);
    set_user_leave(set->user);
    free(set);
    errno = saved;
    return NULL;
}

size_t file_set_peers(const struct file_set *set)
{
    return set->user->is_limited ? set->user->n_sets : 1;
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

static struct residency_file *file_at(uint64_t address)
{
    return (struct residency_file *)(uintptr_t)address;
}

static struct residency_file *find(const struct file_set *set, uint64_t device, uint64_t inode)
{
    const uint64_t *value = map64_find(&set->by_inode, identity(device, inode));
    struct residency_file *file = value ? file_at(*value) : NULL;
    return file && file->device == device && file->inode == inode ? file : NULL;
}

// `mapped` is NULL if a path led to the file.
static void meet(struct file_set *set, struct residency_file *file,
                 const struct file_mapping *mapped)
{
    if (file->seen_by_scan != set->scan) {
        file->seen_by_scan = set->scan;
        file->by_path = file->by_process = false;
        file->mapped.pid = 0;
    }
    file->by_path |= !mapped;
    file->by_process |= mapped != NULL;
    if (mapped)
        file->mapped = *mapped;
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

// Takes over `fd`. `mapped` is NULL for a file that a path led to. Returns 0 or -ENOMEM. *ret stays
// NULL if the file is not wanted.
static int add_opened(struct file_set *set, const char *path, const struct file_mapping *mapped,
                      int fd, const struct stat *st, struct residency_file **ret)
{
    CLEANUP(close_fdp) int owned = fd;
    struct residency_file *file = find(set, st->st_dev, st->st_ino);
    if (file && !file->gone) {
        meet(set, file, mapped);
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
    file->device = st->st_dev;
    file->inode = st->st_ino;
    uint64_t value = (uint64_t)(uintptr_t)file;
    if (!file->path || map64_set(&set->by_inode, identity(st->st_dev, st->st_ino), value) < 0) {
        file_free(set, file);
        return -ENOMEM;
    }
    file->id = ++set->last_id;
    if (set_user_may_open(set->user)) {
        file->fd = steal_fd(&owned);
        set_user_count(set->user, 1);
    }
    meet(set, file, mapped);
    residency_files_push(&set->files, file);
    *ret = file;
    return 0;
}

static bool may_repeat(const struct file_set *set)
{
    return nsec_now(CLOCK_MONOTONIC) - set->begun < REPEATS_MAX;
}

// Returns whether the mounts, and no process, are the reason of -EAGAIN, and the step is to be
// repeated.
static bool must_judge_again(struct file_set *set, int error)
{
    if (error != -EAGAIN || !set->opener.mounts.is_refused)
        return false;
    if (may_repeat(set))
        return true;
    if (!set->told_changes)
        log_warning(set->options.log,
                    "linux.page_residency: mounts change all the time: some files are found late");
    set->told_changes = true;
    return false;
}

static void name_complain(struct file_set *set, const char *path, int r)
{
    const char *why = r == -EINVAL    ? "neither a regular file nor a folder"
                      : r == -ENOTSUP ? "the kernel makes the files there: they have no pages"
                      : r == -EXDEV
                          ? "a user has mounted the file system there: it may never answer"
                          : strerror(-r);
    if (!set->told_name)
        scan_complain(set, "linux.page_residency: %s: %s%s", path, why,
                      r == -EACCES && geteuid() != 0 ? " (run as root)" : "");
    set->told_name = true;
}

static void unreadable_complain(struct file_set *set, const char *path)
{
    if (!set->told_name)
        scan_complain(
            set, "linux.page_residency: %s: user %u, who asked for the recording, may not read it",
            path, (unsigned)set->options.requester->uid);
    set->told_name = true;
}

// The walk has the stat of the file: unwanted files are never opened, nor are files that the
// requester may not read. Returns 0, -ENOMEM, or -EAGAIN if the file must be judged again.
static int add_named(struct file_set *set)
{
    const struct named_files *walk = &set->names;
    struct residency_file *file = find(set, walk->st.st_dev, walk->st.st_ino);
    if (file && !file->gone) {
        meet(set, file, NULL);
        return 0;
    }
    if ((uint64_t)walk->st.st_size < set->options.min_size_bytes || !has_room(set))
        return 0;
    int fd;
    struct stat st;
    int r = requester_may_read(set->options.requester, &set->opener.mounts, walk->held, &walk->st);
    if (must_judge_again(set, r))
        return r;
    if (r == 0) {
        unreadable_complain(set, walk->path);
        return 0;
    }
    r = r < 0 ? r : file_open_held(walk->held, &fd, &st);
    if (r == 0)
        return add_opened(set, walk->path, NULL, fd, &st, &file);
    set->was_late |= file_error_passes(r);
    name_complain(set, walk->path, r);
    return 0;
}

// Ends a step with the result of adding a file: -EAGAIN has the next step add the file again.
static int end_step(struct file_set *set, int r)
{
    set->again = r == -EAGAIN;
    return set->again ? 0 : r;
}

static int step_names(struct file_set *set)
{
    int r = set->again ? NAMED_FILE : named_files_next(&set->names);
    set->again = false;
    if (r == NAMED_FILE)
        return end_step(set, add_named(set));
    if (must_judge_again(set, r)) {
        named_files_repeat(&set->names);
        return 0;
    }
    set->was_late |= file_error_passes(r);
    if (r < 0)
        name_complain(set, set->names.path, r);
    if (r == NAMED_END) {
        walk_end(set);
        set->position++;
        set->stage = SCAN_PATHS;
    }
    return 0;
}

// Begins the list of processes.
static int begin_pids(struct file_set *set)
{
    set->position = 0;
    set->stage = SCAN_PIDS;
    pid_list_clear(&set->pids);
    for (size_t i = 0; i < set->options.n_pids; i++)
        if (pid_list_push(&set->pids, set->options.pids[i]) < 0)
            return -ENOMEM;
    if (!set->options.n_cmdlines)
        return 0;
    set->processes = opendir(set->options.proc);
    if (set->processes)
        set->stage = SCAN_PROCESSES;
    else
        scan_complain(set, "linux.page_residency: %s: %s", set->options.proc, strerror(errno));
    return 0;
}

static int step_processes(struct file_set *set)
{
    int32_t pid = process_next(set->processes);
    if (pid == 0) {
        closedirp(&set->processes);
        set->stage = SCAN_PIDS;
        return 0;
    }
    int called =
        process_is_called(set->options.proc, pid, set->options.cmdlines, set->options.n_cmdlines);
    set->was_late |= process_file_is_late(called);
    return called > 0 ? pid_list_push(&set->pids, pid) : 0;
}

// In set->mapped: the address of a file, or REFUSED with the scan in which the file was refused.
#define REFUSED (UINT64_C(1) << 63)

// Files of the kernel without a place in a file system, "/[aio] (deleted)", are not told of.
static void refusal_tell(struct file_set *set, int32_t pid, const char *path, int why)
{
    if ((why != -EXDEV && why != -ENODEV) || set->told_pid == pid ||
        (why == -ENODEV && str_ends_with(path, " (deleted)")))
        return;
    scan_complain(set,
                  "linux.page_residency: process %d: %s is left out, and perhaps other files: its "
                  "file system is not mounted here, so a user may have mounted it",
                  pid, path);
    set->told_pid = pid;
}

// Drops entries of files that are gone, and refusals of earlier scans. Without memory, all entries
// go: files are opened again.
static void mapped_prune(struct file_set *set)
{
    struct map64 kept = {0};
    size_t cursor = 0;
    int r = 0;
    for (const struct map64_slot *slot; r == 0 && (slot = map64_next(&set->mapped, &cursor));)
        if (slot->value & REFUSED ? slot->value == (REFUSED | set->scan)
                                  : !file_at(slot->value)->gone)
            r = map64_set(&kept, slot->key, slot->value);
    map64_done(&set->mapped);
    if (r < 0)
        map64_clear(&kept);
    set->mapped = kept;
}

// Remembers a refusal for this scan, unless too many are known.
static void refuse(struct file_set *set, uint64_t key)
{
    if (set->mapped.n < MAPPED_MAX || map64_find(&set->mapped, key))
        map64_set(&set->mapped, key, REFUSED | set->scan); // without memory: asked again
}

static bool is_refused(const struct file_set *set, uint64_t key)
{
    const uint64_t *known = map64_find(&set->mapped, key);
    return known && *known == (REFUSED | set->scan);
}

static uint64_t key_here(const struct file_mapping *mapped)
{
    return table_hash_u64(identity(mapped->device, mapped->inode) ^
                          table_hash_u64((uint64_t)mapped->pid));
}

// Returns the key of the file of a maps line in `mapped`.
static uint64_t key_of(const struct file_set *set, const struct file_mapping *mapped,
                       const char *path)
{
    return map64_find(&set->subvolumes, mapped->device)
               ? table_hash_u64(key_here(mapped) ^ table_hash_bytes(path, strlen(path)))
               : identity(mapped->device, mapped->inode);
}

// Returns the key of a file that is refused for one process.
static uint64_t key_of_refusal(const struct file_set *set, const struct file_mapping *mapped,
                               const char *path)
{
    return map64_find(&set->subvolumes, mapped->device) ? key_of(set, mapped, path)
                                                        : key_here(mapped);
}

// Learns whether inode numbers repeat on the device of the file.
static int learn_device(struct file_set *set, const struct file_mapping *mapped, int fd)
{
    struct statfs fs;
    bool repeats = fstatfs(fd, &fs) == 0 &&
                   (fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == OVERLAYFS_SUPER_MAGIC);
    return repeats ? map64_set(&set->subvolumes, mapped->device, 0) : 0;
}

// A file that cannot be opened is refused for this process: another process may lead to the same
// file. A file that is not wanted is refused for all. Returns 0, -ENOMEM, or -EAGAIN if the file
// must be judged again.
static int add_unknown(struct file_set *set, const struct file_mapping *mapped, const char *path)
{
    int fd;
    struct stat st;
    struct residency_file *file = NULL;
    if (is_refused(set, key_of(set, mapped, path)) ||
        is_refused(set, key_of_refusal(set, mapped, path)))
        return 0;
    int r = file_opener_open_mapped(&set->opener, mapped, path, &fd, &st);
    if (must_judge_again(set, r))
        return r;
    if (r < 0) {
        set->was_late |= file_error_passes(r);
        refusal_tell(set, mapped->pid, path, r);
        refuse(set, key_of_refusal(set, mapped, path));
        return 0;
    }
    r = learn_device(set, mapped, fd);
    if (r < 0) {
        close_fd(fd);
        return r;
    }
    r = add_opened(set, path, mapped, fd, &st, &file);
    uint64_t key = key_of(set, mapped, path);
    if (file && set->mapped.n < 2 * MAPPED_MAX)
        return map64_set(&set->mapped, key, (uint64_t)(uintptr_t)file);
    if (r == 0 && !file)
        refuse(set, key);
    return r;
}

static int add_mapping(struct file_set *set, int32_t pid, const struct mapping *mapping)
{
    char path[PATH_ROOM];
    if (!mapping->inode || !mapping_get_path(mapping, path, sizeof(path)))
        return 0;
    const struct file_mapping mapped = {
        .pid = pid,
        .start = mapping->start,
        .end = mapping->end,
        .device = makedev(mapping->major, mapping->minor),
        .inode = mapping->inode,
    };
    const uint64_t *known = map64_find(&set->mapped, key_of(set, &mapped, path));
    if (!known || *known & REFUSED)
        return add_unknown(set, &mapped, path);
    meet(set, file_at(*known), &mapped);
    return 0;
}

static int step_pids(struct file_set *set)
{
    if (set->position == set->pids.n)
        return 0;
    int32_t pid = set->pids.items[set->position];
    bool allowed = requester_may_trace(set->options.requester, set->options.proc, pid);
    int r = allowed ? process_file_open_maps(&set->maps_file, &set->maps, set->options.proc, pid)
                    : -EACCES;
    if (r == 0 && !requester_may_trace(set->options.requester, set->options.proc, pid)) {
        process_file_close(&set->maps_file); // a set-uid program's
        r = -EACCES;
    }
    if (r == 0) {
        set->n_lines = 0;
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
    else
        scan_complain(set, "linux.page_residency: process %d: %s", pid, process_file_strerror(r));
    set->position++;
    return 0;
}

static int step_maps(struct file_set *set)
{
    int32_t pid = set->pids.items[set->position];
    int r = set->again ? 1 : maps_next(&set->maps, &set->mapping);
    set->again = false;
    if (r > 0 && ++set->n_lines > LINES_MAX) // the process can map on, ahead of the reader
        r = -EAGAIN;
    if (r > 0)
        return end_step(set, add_mapping(set, pid, &set->mapping));
    set->was_late |= process_file_is_late(r);
    if (r < 0)
        scan_complain(set, "linux.page_residency: process %d: %s", pid, process_file_strerror(r));
    process_file_close(&set->maps_file);
    set->stage = SCAN_PIDS;
    set->position++;
    return 0;
}

static int begin_walk(struct file_set *set)
{
    struct set_user *user = set->user;
    if (user->is_limited && user->walker) {
        set->walk_due = nsec_now(CLOCK_MONOTONIC) + WALK_PAUSE;
        return 0;
    }
    user->walker = set;
    named_files_begin(&set->names,
                      &(struct named_path){
                          .mounts = &set->opener.mounts,
                          .may_use = requester_may_use,
                          .userdata = (void *)(uintptr_t)set->options.requester,
                      },
                      set->options.paths[set->position]);
    set->told_name = false;
    set->stage = SCAN_NAMES;
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
        set->begun = nsec_now(CLOCK_MONOTONIC);
        set->told_pid = 0;
        if (set->mapped.n >= MAPPED_MAX)
            mapped_prune(set);
        if (set->mapped.n >= MAPPED_MAX) // of processes that have ended, too
            map64_clear(&set->mapped);
        set->stage = SCAN_PATHS;
        return 0;
    case SCAN_PATHS:
        return set->position < set->options.n_paths ? begin_walk(set) : begin_pids(set);
    case SCAN_NAMES:
        return step_names(set);
    case SCAN_PROCESSES:
        return step_processes(set);
    case SCAN_PIDS:
        *ret_done = set->position == set->pids.n;
        return step_pids(set);
    case SCAN_MAPS:
        return step_maps(set);
    }
    return 0;
}

// After a scan that could not read everything, a file that it has not met stays for some scans. A
// deleted file does not: its descriptor would keep its memory.
static bool may_stay(const struct file_set *set, const struct residency_file *file)
{
    struct stat st;
    return set->was_late && set->scan - file->seen_by_scan <= LATE_SCANS_MAX &&
           !(file->fd >= 0 && fstat(file->fd, &st) == 0 && st.st_nlink == 0);
}

nsec_t file_set_resumes(const struct file_set *set)
{
    const struct foreign_mounts *mounts = &set->opener.mounts;
    const nsec_t last = set->begun + REPEATS_MAX;
    if (set->walk_due || !mounts->is_refused || !may_repeat(set))
        return set->walk_due;
    return mounts->trusted->renew_earliest < last ? mounts->trusted->renew_earliest : last;
}

int file_set_scan(struct file_set *set, nsec_t deadline)
{
    for (bool done = false; !done;) {
        nsec_t resumes = file_set_resumes(set);
        if (resumes > 0 && nsec_now(CLOCK_MONOTONIC) < resumes)
            return FILE_SET_E_AGAIN;
        set->walk_due = 0;
        set->opener.mounts.is_refused = false;
        int r = step(set, &done);
        if (r < 0) {
            file_set_end_scan(set);
            return r;
        }
        if (!done && nsec_now(CLOCK_MONOTONIC) >= deadline)
            return FILE_SET_E_AGAIN;
    }
    file_set_end_scan(set);
    vec_foreach(&set->files, file)
        if ((*file)->seen_by_scan != set->scan && !may_stay(set, *file))
            (*file)->gone = true;
    return 0;
}

// `mapped` is NULL to open the file by its path.
static int open_same(struct file_set *set, const struct residency_file *file,
                     const struct file_mapping *mapped, int *ret_fd)
{
    struct stat st;
    CLEANUP(close_fdp) int fd = -1;
    int r = mapped ? file_opener_open_mapped(&set->opener, mapped, file->path, &fd, &st)
                   : file_opener_open_path(&set->opener, file->path, &fd, &st);
    if (r < 0)
        return r;
    if (st.st_dev != file->device || st.st_ino != file->inode)
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int file_set_acquire(struct file_set *set, const struct residency_file *file, int *ret_fd)
{
    if (file->fd >= 0) {
        *ret_fd = file->fd;
        return 0;
    }
    int r = file->by_path ? open_same(set, file, NULL, ret_fd) : -ENOENT;
    if (r == 0 || !file->mapped.pid)
        return r;
    int by_mapping = open_same(set, file, &file->mapped, ret_fd);
    return by_mapping < 0 && file_error_passes(r) ? r : by_mapping;
}

void file_set_release(const struct file_set *set, const struct residency_file *file, int fd)
{
    if (fd != file->fd)
        close_of(set, fd);
}

void file_set_looked(struct file_set *set)
{
    foreign_mounts_tidy(&set->opener.mounts);
}

void file_set_sweep(struct file_set *set, void (*forget)(void *, struct residency_file *),
                    void *userdata)
{
    size_t n = 0, n_gone = 0;
    vec_foreach(&set->files, file)
        n_gone += (*file)->gone;
    if (n_gone > 0)
        mapped_prune(set);
    vec_foreach(&set->files, file) {
        if (!(*file)->gone) {
            set->files.items[n++] = *file;
            continue;
        }
        if (forget)
            forget(userdata, *file);
        map64_remove(&set->by_inode, identity((*file)->device, (*file)->inode));
        file_free(set, *file);
    }
    set->files.n = n;
    close_some(set);
}
