// SPDX-License-Identifier: Apache-2.0
//
// Memory counters of all processes, at the poll period. A counter is written if it differs from its
// last written value; proc_stats_cache_ttl_ms of the config limits how long this value is
// remembered. A process without changes costs two reads and no bytes.
//
// Kernel threads and zombies have no memory: they are examined only in every sixteenth poll.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/process_stats/internal.h"
#include "producer/sources/requester.h"
#include "protos/fields.h"

#define STATS_ROOM_WANTED (16u << 10)
#define PROCESS_ROOM      320 // one process with all counters, and the end of the packet
#define FD_PATH_MAX       512
#define FD_ROOM           (PROCESS_ROOM + FD_PATH_MAX + 32)
#define N_POLLS_SKIPPED   16
#define N_FDS_MAX         65536                 // of a process
#define FDS_TIME          (100 * NSEC_PER_MSEC) // for the open files of all processes in a look

void poll_end_packet(struct process_stats *ps)
{
    if (!ps->stats)
        return;
    wire_uint(ps->stats, PB_ProcessStats_collection_end_timestamp,
              (uint64_t)nsec_now(CLOCK_BOOTTIME));
    wire_end(ps->stats, ps->stats_mark);
    packet_writer_end(ps->env.writer);
    ps->stats = NULL;
}

// Returns a packet with at least `room` left, or NULL if the buffer refuses.
static struct wire_writer *packet_with_room(struct process_stats *ps, size_t room)
{
    if (ps->stats && wire_room(ps->stats) >= room)
        return ps->stats;
    poll_end_packet(ps);
    ps->stats = packet_writer_begin_range(ps->env.writer, ps->scan_time, room, STATS_ROOM_WANTED);
    if (ps->stats)
        ps->stats_mark = wire_begin(ps->stats, PB_TracePacket_process_stats);
    return ps->stats;
}

static void write_changes(struct process_stats *ps, struct process *process,
                          const struct process_counters *now)
{
    uint32_t changed = 0;
    for (unsigned i = 0; i < N_PROCESS_COUNTERS; i++)
        if ((now->present & 1u << i) &&
            (!(process->last.present & 1u << i) || process->last.values[i] != now->values[i]))
            changed |= 1u << i;
    if (!changed)
        return;
    struct wire_writer *w = packet_with_room(ps, PROCESS_ROOM);
    if (!w)
        return;
    size_t mark = wire_begin(w, PB_ProcessStats_processes);
    wire_int(w, PB_ProcessStats_Process_pid, process->pid);
    for (unsigned i = 0; i < N_PROCESS_COUNTERS; i++) {
        if (!(changed & 1u << i))
            continue;
        wire_int(w, process_counter_fields[i], now->values[i]);
        process->last.values[i] = now->values[i];
    }
    wire_end(w, mark);
    process->last.present |= changed;
    process->is_shown = true;
}

void poll_write_end(struct process_stats *ps, const struct process *process)
{
    if (!process->is_shown)
        return;
    poll_end_packet(ps);
    // The time of the scan would be too early: the process may have lived on during the scan.
    struct wire_writer *w = packet_writer_begin_message(ps->env.writer, nsec_now(CLOCK_BOOTTIME),
                                                        PROCESS_ROOM, PB_TracePacket_process_stats);
    if (!w)
        return;
    size_t mark = wire_begin(w, PB_ProcessStats_ended);
    wire_int(w, PB_ProcessStats_Ended_pid, process->pid);
    wire_uint(w, PB_ProcessStats_Ended_last_seen, (uint64_t)process->seen);
    wire_end(w, mark);
    packet_writer_end(ps->env.writer);
}

static void read_oom_score_adj(struct process_stats *ps, struct process *process,
                               struct process_counters *counters)
{
    char text[32];
    struct span span;
    int64_t value;
    if (process_read(ps, process, PROCESS_OOM_SCORE_ADJ, true, text, sizeof(text), &span) == 0 &&
        span_take_i64(&span, &value))
        process_counters_set(counters, COUNTER_OOM_SCORE_ADJ, value);
}

static void read_times(struct process_stats *ps, struct process *process,
                       struct process_counters *counters)
{
    struct process_times times;
    if (!process_read_times(ps, process, &times))
        return;
    process_counters_set(counters, COUNTER_RUNTIME_USER,
                         (int64_t)(times.user_ticks * ps->ns_per_tick));
    process_counters_set(counters, COUNTER_RUNTIME_KERNEL,
                         (int64_t)(times.kernel_ticks * ps->ns_per_tick));
}

static void read_rollup(struct process_stats *ps, const struct process *process,
                        struct process_counters *counters)
{
    if (requester_may_trace(ps->env.requester, ps->env.roots->proc, process->pid))
        smaps_rollup_parse(process_file_span(ps->text, sizeof(ps->text), ps->env.roots->proc,
                                             process->pid, "smaps_rollup"),
                           counters);
}

static void read_dmabuf(struct process_stats *ps, const struct process *process,
                        struct process_counters *counters)
{
    char text[64];
    struct span span =
        text_file_span(text, sizeof(text), ps->env.roots->proc, "/%d/dmabuf_rss", process->pid);
    uint64_t bytes;
    if (span_take_u64(&span, &bytes))
        process_counters_set(counters, COUNTER_DMABUF_RSS, (int64_t)(bytes / 1024));
}

// Returns a packet with an open message of `process` and room for one more file. *mark: the open
// message; 0: none.
static struct wire_writer *message_with_room(struct process_stats *ps,
                                             const struct process *process, size_t *mark)
{
    if (*mark && wire_room(ps->stats) >= FD_ROOM)
        return ps->stats;
    if (*mark)
        wire_end(ps->stats, *mark);
    *mark = 0;
    struct wire_writer *w = packet_with_room(ps, FD_ROOM);
    if (!w)
        return NULL;
    *mark = wire_begin(w, PB_ProcessStats_processes);
    wire_int(w, PB_ProcessStats_Process_pid, process->pid);
    return w;
}

struct fds_call {
    int32_t pid;
    uint32_t n_skipped; // entries that are known from the calls before
    char proc[PROCESS_CALL_BYTES - 8];
};

struct fds_entry {
    uint32_t fd;
    uint32_t size; // of the path, which follows
};

// Lists descriptors with their paths, as many as fit.
static int fds_list(const void *argument, char *bytes, size_t size)
{
    const struct fds_call *call = argument;
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s/%d/fd", call->proc, call->pid);
    DIR *dir CLEANUP(closedirp) = opendir(folder);
    size_t used = 0;
    uint32_t n = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct fds_entry ret;
        if (entry->d_name[0] == '.' || str_parse_u32(entry->d_name, &ret.fd) < 0 ||
            n++ < call->n_skipped)
            continue;
        if (size - used < sizeof(ret) + FD_PATH_MAX)
            break;
        ssize_t n_path =
            readlinkat(dirfd(dir), entry->d_name, bytes + used + sizeof(ret), FD_PATH_MAX);
        ret.size = n_path > 0 ? (uint32_t)n_path : 0;
        memcpy(bytes + used, &ret, sizeof(ret));
        used += sizeof(ret) + ret.size;
    }
    return (int)used;
}

static void write_fd(struct process_stats *ps, const struct process *process,
                     const struct fds_entry *entry, const char *path, size_t *mark)
{
    uint64_t key = (uint64_t)process->pid << 32 | entry->fd;
    const uint64_t *written = map64_find(&ps->seen_fds, key);
    if (!entry->size || (written && *written == process_mark(process)))
        return;
    struct wire_writer *w = message_with_room(ps, process, mark);
    if (!w)
        return;
    size_t inner = wire_begin(w, PB_ProcessStats_Process_fds);
    wire_uint(w, PB_ProcessStats_FDInfo_fd, entry->fd);
    wire_text(w, PB_ProcessStats_FDInfo_path, path, entry->size);
    wire_end(w, inner);
    map64_set(&ps->seen_fds, key, process_mark(process));
}

// A look goes on where the last look had no more time.
static void begin_fds(struct process_stats *ps)
{
    ps->fds_until = work_time_now() + FDS_TIME;
    ps->fds_round += !ps->fds_late;
    ps->fds_late = false;
}

static bool fds_have_time(struct process_stats *ps)
{
    if (!ps->fds_late && work_time_now() >= ps->fds_until) {
        ps->fds_late = true;
        if (!ps->fds_told)
            log_warning(ps->env.log, "linux.process_stats: the open files of all processes take "
                                     "too long: each look reads a part of them");
        ps->fds_told = true;
    }
    return !ps->fds_late;
}

static void write_fds(struct process_stats *ps, struct process *process)
{
    struct fds_call call = {.pid = process->pid};
    char list[PROCESS_FILE_PIECE];
    size_t mark = 0;
    int n;
    if (process->fds_round == ps->fds_round || !fds_have_time(ps))
        return;
    process->fds_round = ps->fds_round;
    if (!requester_may_trace(ps->env.requester, ps->env.roots->proc, process->pid))
        return;
    snprintf(call.proc, sizeof(call.proc), "%s", ps->env.roots->proc);
    while (call.n_skipped < N_FDS_MAX && fds_have_time(ps) &&
           (n = process_call(call.proc, call.pid, fds_list, &call, sizeof(call), list,
                             sizeof(list))) > 0)
        for (const char *at = list; at < list + n; call.n_skipped++) {
            struct fds_entry entry;
            memcpy(&entry, at, sizeof(entry));
            write_fd(ps, process, &entry, at + sizeof(entry), &mark);
            at += sizeof(entry) + entry.size;
        }
    if (mark)
        wire_end(ps->stats, mark);
}

void poll_fds_of_all(struct process_stats *ps)
{
    ps->scan_time = nsec_now(CLOCK_BOOTTIME);
    size_t cursor = 0;
    begin_fds(ps);
    for (struct process *process; (process = process_each(ps, &cursor));)
        write_fds(ps, process);
    poll_end_packet(ps);
}

// Returns whether the pid still belongs to `process`: without a file that is bound to the process,
// its start time decides.
static bool is_same(struct process_stats *ps, struct process *process)
{
    if (process->fds[PROCESS_STATUS] >= 0)
        return true;
    struct process_times times;
    if (!process_read_times(ps, process, &times))
        return true;
    uint64_t known = process->start_ticks;
    process->start_ticks = times.start_ticks;
    return known == 0 || known == times.start_ticks;
}

// Reads the present status of `pid` into ps->status. Ends an earlier process with this pid. Returns
// NULL if the process is gone.
static struct process *read_status(struct process_stats *ps, int32_t pid,
                                   struct process_status *ret, struct process_counters *counters)
{
    struct process *process = process_get(ps, pid);
    if (!process)
        return NULL;
    struct span text;
    int r = process_read(ps, process, PROCESS_STATUS, !process->no_memory, ps->status,
                         sizeof(ps->status), &text);
    if (r == -ESRCH || (r == 0 && !is_same(ps, process))) {
        process_end(ps, process);
        process = process_get(ps, pid);
        if (!process)
            return NULL;
        r = process_read(ps, process, PROCESS_STATUS, true, ps->status, sizeof(ps->status), &text);
        if (r < 0)
            process_end(ps, process);
    }
    if (r < 0 || !process_status_parse(text, ret, counters) || ret->tgid != pid)
        return NULL;
    return process;
}

static bool may_skip(const struct process_stats *ps, struct process *process)
{
    if (!process || !process->no_memory || ps->config->record_process_runtime)
        return false;
    return ++process->n_skipped % N_POLLS_SKIPPED != 0;
}

static bool has_new_name(const struct process *process, const struct process_status *status)
{
    return strcmp(status->name, process->comm) != 0;
}

static void poll_process(struct process_stats *ps, int32_t pid)
{
    struct process *process = process_find(ps, pid);
    if (may_skip(ps, process)) {
        process->generation = ps->generation;
        return;
    }
    struct process_counters counters = {0};
    struct process_status status;
    process = read_status(ps, pid, &status, &counters);
    if (!process)
        return;
    process->generation = ps->generation;
    process->seen = ps->scan_time;
    process->no_memory = !status.has_memory;
    if (process->no_memory) {
        process_close_files(ps, process);
    } else {
        read_oom_score_adj(ps, process, &counters);
        if (ps->with_rollup)
            read_rollup(ps, process, &counters);
        if (ps->with_dmabuf)
            read_dmabuf(ps, process, &counters);
    }
    if (ps->config->record_process_runtime)
        read_times(ps, process, &counters);
    if (counters.present)
        write_changes(ps, process, &counters);
    if (ps->config->resolve_process_fds)
        write_fds(ps, process);
    process->unnamed = counters.present && (!process->written || has_new_name(process, &status));
    process->new_threads = counters.present && status.n_threads != process->n_threads;
}

static void name_process(struct process_stats *ps, struct process *process)
{
    struct process_status status;
    struct span text;
    bool unnamed = process->unnamed, new_threads = process->new_threads;
    process->unnamed = process->new_threads = false;
    if (!(unnamed || new_threads) ||
        process_read(ps, process, PROCESS_STATUS, false, ps->status, sizeof(ps->status), &text) <
            0 ||
        !process_status_parse(text, &status, NULL) || status.tgid != process->pid)
        return;
    if (unnamed)
        tree_write_process(ps, process, &status);
    if (new_threads && (ps->config->record_thread_names || ps->config->scan_all_processes_on_start))
        tree_write_new_threads(ps, process, &status);
}

static void age_cache(struct process_stats *ps)
{
    if (++ps->n_ticks < ps->n_ttl_ticks)
        return;
    ps->n_ticks = 0;
    size_t cursor = 0;
    for (struct process *process; (process = process_each(ps, &cursor));)
        process->last.present = 0;
}

void poll_all(struct process_stats *ps)
{
    ps->scan_time = nsec_now(CLOCK_BOOTTIME);
    ps->generation++;
    if (ps->config->resolve_process_fds)
        begin_fds(ps);
    rewinddir(ps->proc_dir);
    for (int32_t pid; (pid = process_next(ps->proc_dir));)
        poll_process(ps, pid);
    poll_end_packet(ps);
    ps->scan_time = nsec_now(CLOCK_BOOTTIME);
    size_t cursor = 0;
    for (struct process *process; (process = process_each(ps, &cursor));)
        name_process(ps, process);
    process_end_unmet(ps);
    process_sweep(ps);
    age_cache(ps);
    ps->n_written++;
}
