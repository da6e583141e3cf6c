// SPDX-License-Identifier: Apache-2.0
//
// Tasks that ended before they were looked up. The kernel remembers the names of tasks with
// recorded events (saved_cmdlines), even after their end, but not the process of a thread.
// Therefore each of these tasks is written as a process of its own. This is right for the short
// programs that a shell runs by the hundred, which most of these tasks are. If recorded events of
// scheduling and of new tasks tell more, nothing is written here.
//
// The kernel misses a name if two CPUs note one at the same moment. The task then becomes a process
// without a name.
//
// The list is long and is read as a whole, at most once a second.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/sources/process_stats/internal.h"
#include "protos/fields.h"

#define LOOK_PERIOD NSEC_PER_SEC
#define ENDED_ROOM  256

void ended_add(struct process_stats *ps, int32_t tid)
{
    if (ps->n_ended < N_ENDED_MAX && ps->env.names_ended && ps->env.roots->tracefs)
        ps->ended[ps->n_ended++] = tid;
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

void ended_write(struct process_stats *ps, bool now)
{
    nsec_t time = nsec_now(CLOCK_BOOTTIME);
    char path[256];
    if (!ps->n_ended || (!now && time < ps->ended_due))
        return;
    ps->ended_due = time + LOOK_PERIOD;
    poll_end_packet(ps);
    int n = snprintf(path, sizeof(path), "%s/saved_cmdlines", ps->env.roots->tracefs);
    CLEANUP(close_fdp)
    int fd = n > 0 && (size_t)n < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        read_names(ps, fd);
    for (size_t i = 0; i < ps->n_ended; i++)
        write_ended(ps, ps->ended[i], span_over(NULL, 0)); // the list does not have their names
    ps->n_ended = 0;
}
