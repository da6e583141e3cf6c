// SPDX-License-Identifier: Apache-2.0
//
// Pids are reused. An open file of /proc/PID is bound to the process, not to the number: reading it
// fails with ESRCH as soon as the process is gone. The polled files therefore stay open: a reused
// pid cannot be mistaken, and a poll saves open() and close(). Without free descriptors, the start
// time distinguishes two owners of a pid.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/process_stats/internal.h"

VEC_DEFINE(id_vec, uint64_t);

static const char *const file_names[N_PROCESS_FILES] = {
    [PROCESS_STATUS] = "status",
    [PROCESS_OOM_SCORE_ADJ] = "oom_score_adj",
};

struct process *process_find(const struct process_stats *ps, int32_t pid)
{
    uint64_t *slot = map64_find(&ps->processes, (uint64_t)pid);
    return slot ? (struct process *)(uintptr_t)*slot : NULL;
}

struct process *process_each(const struct process_stats *ps, size_t *cursor)
{
    const struct map64_slot *slot = map64_next(&ps->processes, cursor);
    return slot ? (struct process *)(uintptr_t)slot->value : NULL;
}

const struct process *process_of_mark(const struct process_stats *ps, uint64_t mark)
{
    const struct process *process = process_find(ps, (int32_t)(mark & INT32_MAX));
    return process && process_mark(process) == mark ? process : NULL;
}

struct process *process_get(struct process_stats *ps, int32_t pid)
{
    struct process *process = process_find(ps, pid);
    if (process)
        return process;
    process = memory_calloc(1, sizeof(*process));
    if (!process)
        return NULL;
    process->pid = pid;
    process->serial = ++ps->last_serial;
    process->generation = ps->generation;
    for (unsigned i = 0; i < N_PROCESS_FILES; i++)
        process->fds[i] = -1;
    if (map64_set(&ps->processes, (uint64_t)pid, (uint64_t)(uintptr_t)process) < 0) {
        free(process);
        return NULL;
    }
    return process;
}

void process_close_files(struct process_stats *ps, struct process *process)
{
    for (unsigned i = 0; i < N_PROCESS_FILES; i++) {
        ps->n_fds -= process->fds[i] >= 0;
        process->fds[i] = close_fd(process->fds[i]);
    }
}

static int open_file(const struct process_stats *ps, const struct process *process,
                     enum kept_file file)
{
    struct text_file opened;
    int r =
        text_file_open(&opened, 0, ps->env.roots->proc, "/%d/%s", process->pid, file_names[file]);
    return r < 0 ? r : opened.fd;
}

int process_read(struct process_stats *ps, struct process *process, enum kept_file file, bool keep,
                 char *buffer, size_t size, struct span *ret)
{
    int fd = process->fds[file];
    bool is_kept = fd >= 0;
    if (!is_kept) {
        fd = open_file(ps, process, file);
        if (fd < 0)
            return fd == -ENOENT ? -ESRCH : fd;
        if (keep && ps->n_fds < ps->n_fds_max) {
            process->fds[file] = fd;
            ps->n_fds++;
            is_kept = true;
        }
    }
    ssize_t n = text_file_read(&(struct text_file){.fd = fd, .n_piece = SIZE_MAX}, buffer, size);
    if (!is_kept)
        close_fd(fd);
    if (n < 0)
        return (int)n;
    *ret = span_over(buffer, (size_t)n);
    return 0;
}

bool process_read_times(const struct process_stats *ps, const struct process *process,
                        struct process_times *ret)
{
    char text[1024];
    return process_stat_parse(
        process_file_span(text, sizeof(text), ps->env.roots->proc, process->pid, "stat"), ret);
}

// Writes an empty packet. When the ring overwrites it, the packet kept under `key` is dropped.
void process_forget_names(struct process_stats *ps, uint64_t key)
{
    poll_end_packet(ps);
    if (ps->env.keeps_ended)
        return;
    if (packet_writer_begin(ps->env.writer, nsec_now(CLOCK_BOOTTIME), 16))
        packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_FORGET, key);
}

void process_remove(struct process_stats *ps, struct process *process)
{
    process_close_files(ps, process);
    map64_remove(&ps->processes, (uint64_t)process->pid);
    free(process);
    ps->has_orphans = true;
}

void process_end(struct process_stats *ps, struct process *process)
{
    poll_write_end(ps, process);
    if (process->executed)
        ended_add(ps, process->pid, process);
    if (process->kept) {
        process_forget_names(ps, process_mark(process));
        ended_note_unfreed(ps, process->pid, 0);
    }
    process_remove(ps, process);
}

void process_end_thread(struct process_stats *ps, int32_t tid)
{
    const uint64_t *mark = map64_find(&ps->threads, (uint64_t)tid);
    if (!mark)
        return;
    process_forget_names(ps, THREAD_KEY(*mark, tid));
    ended_note_unfreed(ps, tid, 0);
    map64_remove(&ps->threads, (uint64_t)tid);
}

static bool is_orphan(const struct process_stats *ps, const struct map64_slot *slot)
{
    return !process_of_mark(ps, slot->value & ~MARK_STALE);
}

static bool is_dead_thread(const struct process_stats *ps, const struct map64_slot *slot)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%d/task/%d", ps->env.roots->proc,
                     (int32_t)(slot->value & INT32_MAX), (int32_t)slot->key);
    return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) < 0 && errno == ENOENT;
}

static int list_keys(const struct process_stats *ps, const struct map64 *map,
                     bool (*wanted)(const struct process_stats *, const struct map64_slot *),
                     struct id_vec *ret)
{
    size_t cursor = 0;
    int r = 0;
    for (const struct map64_slot *slot; r == 0 && (slot = map64_next(map, &cursor));)
        if (wanted(ps, slot))
            r = id_vec_push(ret, slot->key);
    return r;
}

static void end_threads(struct process_stats *ps,
                        bool (*wanted)(const struct process_stats *, const struct map64_slot *))
{
    CLEANUP(id_vec_done) struct id_vec threads = {0};
    list_keys(ps, &ps->threads, wanted, &threads);
    vec_foreach(&threads, tid)
        process_end_thread(ps, (int32_t)*tid);
}

void process_end_orphans(struct process_stats *ps)
{
    if (!ps->has_orphans)
        return;
    ps->has_orphans = false;
    end_threads(ps, is_orphan);
    CLEANUP(id_vec_done) struct id_vec fds = {0};
    list_keys(ps, &ps->seen_fds, is_orphan, &fds);
    vec_foreach(&fds, fd)
        map64_remove(&ps->seen_fds, *fd);
}

void process_end_unmet(struct process_stats *ps)
{
    CLEANUP(id_vec_done) struct id_vec ended = {0};
    size_t cursor = 0;
    for (const struct process *process; (process = process_each(ps, &cursor));)
        if (process->generation != ps->generation &&
            id_vec_push(&ended, (uint64_t)process->pid) < 0)
            return;
    vec_foreach(&ended, pid)
        process_end(ps, process_find(ps, (int32_t)*pid));
    process_end_orphans(ps);
}

void process_sweep(struct process_stats *ps)
{
    if (ps->processes.n + ps->threads.n <= ps->n_known_max)
        return;
    ps->generation++;
    rewinddir(ps->proc_dir);
    for (int32_t pid; (pid = process_next(ps->proc_dir));) {
        struct process *process = process_find(ps, pid);
        if (process)
            process->generation = ps->generation;
    }
    process_end_unmet(ps);
    end_threads(ps, is_dead_thread);
    ps->n_known_max = 2 * (ps->processes.n + ps->threads.n) + N_KNOWN_MIN;
}

void process_table_renew(struct process_stats *ps)
{
    size_t cursor = 0;
    for (struct process *process; (process = process_each(ps, &cursor));) {
        process->written = false;
        process->n_threads = 0;
        process->last.present = 0;
    }
    cursor = 0;
    for (const struct map64_slot *slot; (slot = map64_next(&ps->threads, &cursor));)
        *map64_find(&ps->threads, slot->key) |= MARK_STALE;
    map64_clear(&ps->seen_fds);
}

void process_table_clear(struct process_stats *ps)
{
    size_t cursor = 0;
    for (struct process *process; (process = process_each(ps, &cursor));) {
        process_close_files(ps, process);
        free(process);
    }
    map64_done(&ps->processes);
    map64_done(&ps->threads);
    map64_done(&ps->seen_fds);
}
