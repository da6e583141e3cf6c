// SPDX-License-Identifier: Apache-2.0
//
// Tasks that ended before they were looked up. Their names come from the kernel's event of a task's
// exit, which the source of events switches on for this purpose and does not record. The event does
// not tell the process of a thread. Therefore each of these tasks is written as a process of its
// own. This is right for the short programs that a shell runs by the hundred, which most of these
// tasks are. If recorded events of scheduling and of new tasks tell more, nothing is written here.
//
// An exit may be read a round later than the task's other events, so each task waits for its exit,
// until the next round of reading is over. If the exit was lost, or too many tasks wait, the
// kernel's own list of names (saved_cmdlines) is the second choice: the list is long, and while a
// reader holds the list, the kernel notes no names. A task without a name in either place becomes a
// process without a name.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/sources/process_stats/internal.h"
#include "protos/fields.h"

#define EXIT_SPARE NSEC_PER_SEC // for a round of reading that takes long
#define ENDED_ROOM 256

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

// Takes the task out of the first `*n` ones.
static bool take_ended(struct process_stats *ps, int32_t tid, size_t *n)
{
    for (size_t i = 0; i < *n; i++) {
        if (ps->ended[i].tid != tid)
            continue;
        ps->n_ended--;
        --*n;
        memmove(ps->ended + i, ps->ended + i + 1, (ps->n_ended - i) * sizeof(ps->ended[0]));
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
    // A task without a name replaces no name of an earlier task with the same id.
    uint64_t key = span_size(name) > 0 ? (uint64_t)tid : NAMELESS_KEY(tid);
    ps->n_written += packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_REPLACE, key);
}

// A line is "PID NAME"; the name may contain blanks.
static void read_line(struct process_stats *ps, struct span line, size_t *n)
{
    uint64_t tid;
    if (!span_take_u64(&line, &tid) || tid > INT32_MAX)
        return;
    struct span name = span_trim(line);
    if (span_size(name) > 0 && span_size(name) < COMM_BYTES_MAX && !span_eq(name, "<...>") &&
        take_ended(ps, (int32_t)tid, n))
        write_ended(ps, (int32_t)tid, name);
}

// The text comes in pieces of whole lines and one partial line.
static void read_names(struct process_stats *ps, int fd, size_t *n)
{
    size_t kept = 0;
    ssize_t size;
    while (*n > 0 && ((size = read(fd, ps->status + kept, sizeof(ps->status) - kept)) > 0 ||
                      (size < 0 && errno == EINTR))) {
        struct span text = span_over(ps->status, kept + (size > 0 ? (size_t)size : 0)), line;
        struct span lines = span_whole_lines(text);
        while (span_take_line(&lines, &line))
            read_line(ps, line, n);
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
        int32_t tid = ps->ended[i].tid;
        const struct exited_task *task = &ps->exited[(uint32_t)tid % N_EXITED];
        if (task->tid == tid)
            write_ended(ps, tid, span_over(task->name, strlen(task->name)));
        else
            ps->ended[n_left++] = ps->ended[i];
    }
    ps->n_ended = n_left;
}

// Writes the first `n` tasks.
static void write_by_list(struct process_stats *ps, size_t n)
{
    char path[256];
    int size = snprintf(path, sizeof(path), "%s/saved_cmdlines", ps->env.roots->tracefs);
    CLEANUP(close_fdp)
    int fd = size > 0 && (size_t)size < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        read_names(ps, fd, &n);
    for (size_t i = 0; i < n; i++)
        write_ended(ps, ps->ended[i].tid, span_over(NULL, 0)); // the list does not have their names
    ps->n_ended -= n;
    memmove(ps->ended, ps->ended + n, ps->n_ended * sizeof(ps->ended[0]));
}

void ended_write(struct process_stats *ps, bool now)
{
    if (!ps->n_ended)
        return;
    poll_end_packet(ps);
    write_exited(ps);
    nsec_t time = now ? NSEC_MAX : nsec_now(CLOCK_BOOTTIME);
    size_t n = 0;
    while (n < ps->n_ended && ps->ended[n].due <= time)
        n++;
    if (n)
        write_by_list(ps, n);
}

void ended_add(struct process_stats *ps, int32_t tid)
{
    if (!ps->env.names_ended || !ps->env.roots->tracefs)
        return;
    if (ps->n_ended == N_ENDED_MAX)
        ended_write(ps, false);
    if (ps->n_ended == N_ENDED_MAX)
        ended_write(ps, true);
    ps->ended[ps->n_ended++] =
        (struct ended_task){tid, ps->scan_time + ps->env.pids->exit_delay + EXIT_SPARE};
}
