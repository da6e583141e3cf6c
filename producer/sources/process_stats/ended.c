// SPDX-License-Identifier: Apache-2.0
//
// Tasks that ended before they were looked up. Their names come from the kernel's event of a task's
// exit, which the source of events switches on for this purpose and does not record. The event does
// not tell the process of a thread. Therefore each of these tasks is written as a process of its
// own. This is right for the short programs that a shell runs by the hundred, which most of these
// tasks are. If recorded events of scheduling and of new tasks tell more, nothing is written here.
//
// An exit may be read a round later than the task's other events, so a task waits for its exit. If
// the exit was lost, the kernel's own list of names (saved_cmdlines) is the second choice: the list
// is long, and while a reader holds the list, the kernel notes no names. A task without a name in
// either place becomes a process without a name.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/sources/process_stats/internal.h"
#include "protos/fields.h"

#define EXIT_WAIT  NSEC_PER_SEC
#define ENDED_ROOM 256

void ended_add(struct process_stats *ps, int32_t tid)
{
    if (ps->n_ended == N_ENDED_MAX || !ps->env.names_ended || !ps->env.roots->tracefs)
        return;
    if (ps->n_ended == 0)
        ps->ended_due = ps->scan_time + EXIT_WAIT;
    ps->ended[ps->n_ended++] = tid;
}

void ended_note_exit(struct process_stats *ps, int32_t tid, const char *name, size_t size)
{
    struct exited_task *task = &ps->exited[(uint32_t)tid % N_EXITED];
    size_t length = strnlen(name, size);
    if (length >= sizeof(task->name))
        length = sizeof(task->name) - 1;
    task->tid = tid;
    memcpy(task->name, name, length);
    task->name[length] = '\0';
}

static bool take_ended(struct process_stats *ps, int32_t tid)
{
    for (size_t i = 0; i < ps->n_ended; i++)
        if (ps->ended[i] == tid) {
            ps->ended[i] = ps->ended[--ps->n_ended];
            return true;
        }
    return false;
}

static void write_ended(struct process_stats *ps, int32_t tid, struct span name)
{
    struct wire_writer *w = packet_writer_begin_message(ps->env.writer, ps->scan_time, ENDED_ROOM,
                                                        PB_TracePacket_process_tree);
    if (!w)
        return;
    size_t mark = wire_begin(w, PB_ProcessTree_processes);
    wire_int(w, PB_ProcessTree_Process_pid, tid);
    if (span_size(name) > 0) {
        wire_text(w, PB_ProcessTree_Process_cmdline, name.pos, span_size(name));
        wire_uint(w, PB_ProcessTree_Process_cmdline_is_comm, 1);
    }
    wire_end(w, mark);
    mark = wire_begin(w, PB_ProcessTree_threads);
    wire_int(w, PB_ProcessTree_Thread_tid, tid);
    wire_int(w, PB_ProcessTree_Thread_tgid, tid);
    if (ps->config->record_thread_names && span_size(name) > 0)
        wire_text(w, PB_ProcessTree_Thread_name, name.pos, span_size(name));
    wire_end(w, mark);
    ps->n_written +=
        packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_REPLACE, (uint64_t)tid);
}

// A line is "PID NAME"; the name may contain blanks.
static void read_line(struct process_stats *ps, struct span line)
{
    uint64_t tid;
    if (!span_take_u64(&line, &tid) || tid > INT32_MAX)
        return;
    struct span name = span_trim(line);
    if (span_size(name) > 0 && span_size(name) < COMM_BYTES_MAX && !span_eq(name, "<...>") &&
        take_ended(ps, (int32_t)tid))
        write_ended(ps, (int32_t)tid, name);
}

// The text comes in pieces of whole lines and one partial line.
static void read_names(struct process_stats *ps, int fd)
{
    size_t kept = 0;
    ssize_t n;
    while (ps->n_ended > 0 && ((n = read(fd, ps->status + kept, sizeof(ps->status) - kept)) > 0 ||
                               (n < 0 && errno == EINTR))) {
        struct span text = span_over(ps->status, kept + (n > 0 ? (size_t)n : 0)), line;
        struct span lines = span_whole_lines(text);
        while (span_take_line(&lines, &line))
            read_line(ps, line);
        kept = (size_t)(text.end - span_whole_lines(text).end);
        if (kept == sizeof(ps->status))
            return; // longer than any line of the kernel
        memmove(ps->status, text.end - kept, kept);
    }
}

// Writes the tasks whose exits were read.
static void write_exited(struct process_stats *ps)
{
    size_t n_left = 0;
    for (size_t i = 0; i < ps->n_ended; i++) {
        int32_t tid = ps->ended[i];
        const struct exited_task *task = &ps->exited[(uint32_t)tid % N_EXITED];
        if (task->tid == tid)
            write_ended(ps, tid, span_over(task->name, strlen(task->name)));
        else
            ps->ended[n_left++] = tid;
    }
    ps->n_ended = n_left;
}

static void write_by_list(struct process_stats *ps)
{
    char path[256];
    int n = snprintf(path, sizeof(path), "%s/saved_cmdlines", ps->env.roots->tracefs);
    CLEANUP(close_fdp)
    int fd = n > 0 && (size_t)n < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        read_names(ps, fd);
    for (size_t i = 0; i < ps->n_ended; i++)
        write_ended(ps, ps->ended[i], span_over(NULL, 0)); // the list does not have their names
    ps->n_ended = 0;
}

void ended_write(struct process_stats *ps, bool now)
{
    if (!ps->n_ended)
        return;
    poll_end_packet(ps);
    write_exited(ps);
    if (ps->n_ended && (now || nsec_now(CLOCK_BOOTTIME) >= ps->ended_due))
        write_by_list(ps);
}
