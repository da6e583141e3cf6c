// SPDX-License-Identifier: Apache-2.0
//
// Names. Every process and every thread has a packet of its own, kept beside the ring under its own
// key. A name lives as long as any packet that may need it, and a new name replaces the old one.
//
// A dying process loses its command line before it disappears. The names that were written during
// its life are better than those of a zombie, and are left unchanged unless the process executed
// another program.
#include <limits.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "producer/foreign/process_file.h"
#include "producer/sources/process_stats/internal.h"
#include "protos/fields.h"

#define PROCESS_ROOM 768 // without the arguments: ids of 32 nested namespaces, twice, and names
#define THREAD_ROOM  384

static bool read_status(char text[STATUS_BYTES_MAX], const char *folder, int32_t tid,
                        struct process_status *ret)
{
    return process_status_parse(text_file_span(text, STATUS_BYTES_MAX, folder, "/%d/status", tid),
                                ret, NULL);
}

static void write_thread_message(const struct process_stats *ps, struct wire_writer *w, int32_t tid,
                                 int32_t tgid, const struct process_status *status)
{
    size_t mark = wire_begin(w, PB_ProcessTree_threads);
    wire_int(w, PB_ProcessTree_Thread_tid, tid);
    wire_int(w, PB_ProcessTree_Thread_tgid, tgid);
    if (status) {
        nspid_write(status->nspid, w, PB_ProcessTree_Thread_nstid);
        if (ps->config->record_thread_names)
            wire_string(w, PB_ProcessTree_Thread_name, status->name);
    }
    wire_end(w, mark);
}

static struct wire_writer *begin_tree(const struct process_stats *ps, size_t room)
{
    return packet_writer_begin_message(ps->env.writer, ps->scan_time, room,
                                       PB_TracePacket_process_tree);
}

static bool end_tree(struct process_stats *ps, struct wire_writer *w, uint64_t key)
{
    wire_uint(w, PB_ProcessTree_collection_end_timestamp, (uint64_t)nsec_now(CLOCK_BOOTTIME));
    bool written = packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_REPLACE, key);
    ps->n_written += written;
    return written;
}

static void write_age(struct process_stats *ps, struct process *process, struct wire_writer *w)
{
    struct process_times times;
    if (process_read_times(ps, process, &times))
        wire_uint(w, PB_ProcessTree_Process_process_start_from_boot,
                  times.start_ticks * ps->ns_per_tick);
}

static void write_process_message(struct process_stats *ps, struct process *process,
                                  const struct process_status *status, struct span cmdline,
                                  struct wire_writer *w)
{
    size_t mark = wire_begin(w, PB_ProcessTree_processes);
    wire_int(w, PB_ProcessTree_Process_pid, process->pid);
    wire_int(w, PB_ProcessTree_Process_ppid, status->ppid);
    bool with_cmdline = cmdline_write(cmdline, w, PB_ProcessTree_Process_cmdline) > 0;
    if (!with_cmdline)
        wire_string(w, PB_ProcessTree_Process_cmdline, status->name);
    wire_int(w, PB_ProcessTree_Process_uid, (int32_t)status->uid);
    nspid_write(status->nspid, w, PB_ProcessTree_Process_nspid);
    if (ps->config->record_process_age)
        write_age(ps, process, w);
    if (status->kthread >= 0)
        wire_uint(w, PB_ProcessTree_Process_is_kthread, status->kthread > 0);
    if (!with_cmdline)
        wire_uint(w, PB_ProcessTree_Process_cmdline_is_comm, 1);
    wire_end(w, mark);
    process->with_cmdline = with_cmdline;
}

void tree_write_process(struct process_stats *ps, struct process *process,
                        const struct process_status *status)
{
    ssize_t size =
        process_file_text(ps->text, sizeof(ps->text), ps->env.roots->proc, process->pid, "cmdline");
    struct span cmdline = span_over(ps->text, size > 0 ? (size_t)size : 0);
    bool is_late = process_file_is_late(size);
    bool is_other = process->executed && strcmp(process->comm, status->name) != 0;
    if (process->with_cmdline && (is_late || (!status->has_memory && !is_other))) {
        process->written = !is_other; // the command line in the trace is better than none
        return;
    }
    struct wire_writer *w =
        begin_tree(ps, PROCESS_ROOM + span_size(cmdline) + span_size(cmdline) / 2);
    if (!w)
        return;
    write_process_message(ps, process, status, cmdline, w);
    if (!ps->config->skip_main_thread_message)
        write_thread_message(ps, w, process->pid, process->pid, status);
    if (end_tree(ps, w, process_mark(process))) {
        memcpy(process->comm, status->name, sizeof(process->comm));
        process->kept = true;
        process->named = ps->scan_time;
        process->executed &= is_late;
        process->written = !is_late; // otherwise the next look-up tries again
    }
}

static void write_thread(struct process_stats *ps, int32_t tid, const struct process *process,
                         const struct process_status *status)
{
    struct wire_writer *w = begin_tree(ps, THREAD_ROOM);
    if (!w)
        return;
    write_thread_message(ps, w, tid, process->pid, status);
    if (end_tree(ps, w, THREAD_KEY(process_mark(process), tid)))
        map64_set(&ps->threads, (uint64_t)tid, process_mark(process));
}

// Returns true if `tid` was written as a thread of exactly this process.
static bool thread_is_written(const struct process_stats *ps, int32_t tid,
                              const struct process *process)
{
    const uint64_t *mark = map64_find(&ps->threads, (uint64_t)tid);
    return mark && *mark == process_mark(process);
}

void tree_write_new_threads(struct process_stats *ps, struct process *process,
                            const struct process_status *status)
{
    process->n_threads = status->n_threads;
    if (status->n_threads == 1)
        return;
    bool with_status = ps->config->record_thread_names || span_size(span_trim(status->nspid)) > 0;
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%d/task", ps->env.roots->proc, process->pid);
    DIR *dir CLEANUP(closedirp) = n > 0 && (size_t)n < sizeof(path) ? opendir(path) : NULL;
    if (!dir)
        return;
    char text[STATUS_BYTES_MAX];
    for (int32_t tid; (tid = process_next(dir));) {
        if (tid == process->pid || thread_is_written(ps, tid, process))
            continue;
        struct process_status thread;
        if (!with_status || read_status(text, path, tid, &thread)) // false: the thread has just
                                                                   // ended
            write_thread(ps, tid, process, with_status ? &thread : NULL);
    }
}

static void write_main_of(struct process_stats *ps, int32_t pid)
{
    char text[STATUS_BYTES_MAX];
    struct process_status status;
    if (!read_status(text, ps->env.roots->proc, pid, &status) || status.tgid != pid)
        return;
    struct process *process = process_get(ps, pid);
    if (process)
        tree_write_process(ps, process, &status);
}

void tree_look_up(struct process_stats *ps, int32_t tid)
{
    struct process *process = process_find(ps, tid);
    if (process && process->written)
        return;
    const uint64_t *mark = map64_find(&ps->threads, (uint64_t)tid);
    if (mark && process_of_mark(ps, *mark))
        return;
    struct process_status status;
    if (!read_status(ps->status, ps->env.roots->proc, tid, &status)) {
        if (!process && !mark)
            ended_add(ps, tid, NULL);
        if (process)
            process_end(ps, process);
        process_end_thread(ps, tid);
        return;
    }
    if (status.tgid == tid) {
        process_end_thread(ps, tid); // the id's former owner
        process = process_get(ps, tid);
        if (process)
            tree_write_process(ps, process, &status);
        return;
    }
    process = process_find(ps, status.tgid);
    if (!process || !process->written) {
        write_main_of(ps, status.tgid);
        process = process_find(ps, status.tgid);
    }
    if (process)
        write_thread(ps, tid, process, &status);
}

void tree_write_all(struct process_stats *ps)
{
    ps->scan_time = nsec_now(CLOCK_BOOTTIME);
    rewinddir(ps->proc_dir);
    for (int32_t pid; (pid = process_next(ps->proc_dir));) {
        struct process_status status;
        if (!read_status(ps->status, ps->env.roots->proc, pid, &status) || status.tgid != pid)
            continue;
        struct process *process = process_get(ps, pid);
        if (!process)
            return;
        tree_write_process(ps, process, &status);
        tree_write_new_threads(ps, process, &status);
    }
}
