// SPDX-License-Identifier: Apache-2.0
//
// Tasks that ended before they were looked up. Their names come from the kernel's event of a task's
// exit, which the source of events switches on for this purpose and does not record, or from the
// records of perf events. The event does not tell the process of a thread, the records do. Each
// task whose process is not known is written as a process of its own. This is right for the short
// programs that a shell runs by the hundred, which most of these tasks are. If recorded events of
// scheduling and of new tasks tell more, nothing is written here.
//
// An exit may be read a round later than the task's other events, so each task waits for its exit,
// until the next round of reading is over: the time alone does not tell, because a busy machine may
// stop the recorder for seconds. If the exit was lost, or too many tasks wait, the kernel's own
// list of names (saved_cmdlines) is the second choice: the list is long, and while a reader holds
// the list, the kernel notes no names. A task without a name in either place becomes a process
// without a name.
//
// A known process may execute another program and end before it is looked up again. The name of its
// exit is then written, too, if it differs.
//
// The kernel gives the id of a freed task to a new task. So that readers can distinguish the two,
// the trace has the kernel's event of the free after the name: for each task that is named, and for
// no other task. The event is in the buffer of the names, because the buffer of events may lose the
// event. The events of one processor may be read after the free of the task on another processor: a
// task whose id is published again is not written again, unless another exit follows.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/sources/process_stats/internal.h"
#include "protos/fields.h"

#define EXIT_SPARE  NSEC_PER_SEC // for a round of reading that takes long
#define ROUNDS_WAIT (30 * NSEC_PER_SEC)
#define ENDED_ROOM  256
#define FREED_ROOM  128

static struct exited_task *exited_at(struct process_stats *ps, int32_t tid)
{
    return &ps->exited[(uint32_t)tid % N_EXITED];
}

static struct unfreed_task *unfreed_at(struct process_stats *ps, int32_t tid)
{
    return &ps->unfreed[(uint32_t)tid % N_EXITED];
}

void ended_note_exit(struct process_stats *ps, const struct task_end *end)
{
    struct exited_task *task = exited_at(ps, end->tid);
    size_t length = strnlen(end->name, end->size);
    if (length >= sizeof(task->name))
        length = sizeof(task->name) - 1;
    *task = (struct exited_task){.tid = end->tid, .tgid = end->tgid, .time = end->time};
    memcpy(task->name, end->name, length);
}

void ended_note_unfreed(struct process_stats *ps, int32_t tid, nsec_t named)
{
    if (ps->env.names_ended)
        *unfreed_at(ps, tid) = (struct unfreed_task){tid, named};
}

static struct former_name former_of(const struct process *process)
{
    struct former_name former = {.time = process->named};
    if (process->kept)
        memcpy(former.text, process->comm, sizeof(former.text));
    return former;
}

// The kernel shows the names of workers longer than they are: "kworker/0:1-events".
static bool is_same_name(const char *known, const char *name)
{
    return strlen(known) >= sizeof(((struct exited_task *)NULL)->name)
               ? strncmp(known, name, strlen(name)) == 0
               : strcmp(known, name) == 0;
}

// Returns whether the exit is of the process with the former name, and has another name.
static bool is_renamed(const struct former_name *former, const struct exited_task *exited)
{
    return former->text[0] && exited->time > former->time &&
           !is_same_name(former->text, exited->name);
}

// Returns the former name of a task that waits for its exit; otherwise no name.
static struct former_name former_of_waiting(const struct process_stats *ps, int32_t tid)
{
    for (size_t i = 0; i < ps->n_ended; i++)
        if (ps->ended[i].tid == tid)
            return ps->ended[i].former;
    return (struct former_name){0};
}

// Forgets the task, which was freed at `time`. Returns whether the trace has its name, under the
// key *ret_key, and the name if it may be a former one. A name from after `time` does not count:
// the next task with the id has this name.
static bool take_named(struct process_stats *ps, int32_t tid, nsec_t time, uint64_t *ret_key,
                       struct former_name *ret_former)
{
    struct unfreed_task *unfreed = unfreed_at(ps, tid);
    if (unfreed->tid == tid) {
        unfreed->tid = 0;
        *ret_key = ENDED_KEY(tid);
        if (!unfreed->named) // not by an exit
            *ret_former = former_of_waiting(ps, tid);
        return unfreed->named < time;
    }
    struct process *process = process_find(ps, tid);
    if (process) {
        bool named = process->kept;
        *ret_key = process_mark(process);
        if (process->executed)
            *ret_former = former_of(process);
        process_remove(ps, process);
        return named;
    }
    const uint64_t *mark = map64_find(&ps->threads, (uint64_t)tid);
    if (!mark)
        return false;
    *ret_key = THREAD_KEY(*mark, tid);
    map64_remove(&ps->threads, (uint64_t)tid);
    return true;
}

void ended_note_seen(struct process_stats *ps, int32_t tid)
{
    ps->seen[(uint32_t)tid % N_EXITED] = tid;
}

// Forgets that the task was seen. Returns whether the task was seen.
static bool take_seen(struct process_stats *ps, int32_t tid)
{
    int32_t *seen = &ps->seen[(uint32_t)tid % N_EXITED];
    bool is_seen = *seen == tid;
    if (is_seen)
        *seen = 0;
    return is_seen;
}

void ended_note_free(struct process_stats *ps, const struct task_end *end)
{
    struct exited_task *exited = exited_at(ps, end->tid);
    // An exit after the free belongs to the next task.
    bool is_exit_of = exited->tid == end->tid && exited->time <= end->time;
    struct freed_entry freed = {
        .task = {end->tid, end->cpu, end->time},
        .key = ENDED_KEY(end->tid),
    };
    bool is_seen = take_seen(ps, end->tid);
    struct former_name former = {0};
    if (take_named(ps, end->tid, end->time, &freed.key, &former)) {
        if (is_exit_of && !exited->named && is_renamed(&former, exited)) {
            freed.former_key = freed.key;
            freed.key = ENDED_KEY(end->tid);
            freed.exited = *exited;
        }
    } else {
        if (!is_exit_of || exited->named)
            return;
        if (!is_seen) {
            exited->freed = freed.task; // an event of the task may still be read
            return;
        }
        freed.exited = *exited; // copied now, because another exit may take this place
    }
    if (ps->n_freed == N_FREED_MAX)
        return;
    if (is_exit_of)
        exited->named = true;
    ps->freed[ps->n_freed++] = freed;
}

// Writes the kernel's event of the free. `key` is the key of the task's name.
static void write_freed(struct process_stats *ps, const struct freed_task *task, uint64_t key)
{
    struct wire_writer *w =
        packet_writer_begin_message(ps->env.writer, 0, FREED_ROOM, PB_TracePacket_ftrace_events);
    if (!w)
        return;
    wire_uint(w, PB_FtraceEventBundle_cpu, task->cpu);
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, (uint64_t)task->time);
    wire_uint(w, PB_FtraceEvent_pid, 0);
    size_t mark = wire_begin(w, PB_FtraceEvent_sched_process_free);
    wire_int(w, PB_SchedProcessFreeFtraceEvent_pid, task->tid);
    wire_end(w, mark);
    wire_end(w, event);
    if (ps->env.keeps_ended)
        packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_REPLACE,
                                   FREED_KEY(++ps->last_ended));
    else
        packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_FORGET, key);
}

// Removes the task from the first `*n` ended tasks.
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

static void write_main(struct wire_writer *w, int32_t pid, struct span name)
{
    size_t mark = wire_begin(w, PB_ProcessTree_processes);
    wire_int(w, PB_ProcessTree_Process_pid, pid);
    if (span_size(name) > 0) {
        wire_text(w, PB_ProcessTree_Process_cmdline, name.pos, span_size(name));
        wire_uint(w, PB_ProcessTree_Process_cmdline_is_comm, 1);
    }
    wire_end(w, mark);
}

static void write_ended(struct process_stats *ps, int32_t tid, int32_t tgid, struct span name,
                        nsec_t time)
{
    struct wire_writer *w =
        packet_writer_begin_message(ps->env.writer, time, ENDED_ROOM, PB_TracePacket_process_tree);
    if (!w)
        return;
    if (tgid == tid)
        write_main(w, tid, name);
    size_t mark = wire_begin(w, PB_ProcessTree_threads);
    wire_int(w, PB_ProcessTree_Thread_tid, tid);
    wire_int(w, PB_ProcessTree_Thread_tgid, tgid);
    if (ps->config->record_thread_names && span_size(name) > 0)
        wire_text(w, PB_ProcessTree_Thread_name, name.pos, span_size(name));
    wire_end(w, mark);
    uint64_t serial = (uint64_t)tid;
    if (ps->env.keeps_ended) // the names of all tasks of this id stay
        serial = ++ps->last_ended | UINT64_C(1) << 32;
    uint64_t key = ENDED_KEY(serial);
    ps->n_written += packet_writer_end_retained(ps->env.writer, PACKET_RETAIN_REPLACE, key);
    ended_note_unfreed(ps, tid, time);
}

// The name has the time of the exit, which is before the end of the id.
static void write_by_exit(struct process_stats *ps, const struct exited_task *task)
{
    write_ended(ps, task->tid, task->tgid ? task->tgid : task->tid,
                span_over(task->name, strlen(task->name)), task->time);
}

void ended_write_freed(struct process_stats *ps)
{
    if (!ps->n_freed)
        return;
    poll_end_packet(ps);
    for (size_t i = 0; i < ps->n_freed; i++) {
        const struct freed_entry *entry = &ps->freed[i];
        if (entry->exited.tid) {
            write_by_exit(ps, &entry->exited);
            unfreed_at(ps, entry->task.tid)->tid = 0;
            if (entry->former_key && entry->former_key != entry->key)
                process_forget_names(ps, entry->former_key);
        }
        write_freed(ps, &entry->task, entry->key);
    }
    ps->n_freed = 0;
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
        write_ended(ps, (int32_t)tid, (int32_t)tid, name, ps->scan_time);
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
        const struct former_name *former = &ps->ended[i].former;
        struct exited_task *task = exited_at(ps, ps->ended[i].tid);
        if (task->tid != ps->ended[i].tid || task->named || task->time < former->time) {
            ps->ended[n_left++] = ps->ended[i];
            continue;
        }
        task->named = true;
        if (former->text[0] && !is_renamed(former, task))
            continue;
        write_by_exit(ps, task);
        if (task->freed.time) {
            unfreed_at(ps, task->tid)->tid = 0;
            write_freed(ps, &task->freed, ENDED_KEY(task->tid));
        }
    }
    ps->n_ended = n_left;
}

// Drops the tasks among the first `n` that are named already: only an exit is better than a former
// name. Returns the number of remaining tasks.
static size_t drop_named(struct process_stats *ps, size_t n)
{
    size_t n_left = 0;
    for (size_t i = 0; i < ps->n_ended; i++) {
        int32_t tid = ps->ended[i].tid;
        const struct exited_task *task = exited_at(ps, tid);
        if (i < n && ((task->tid == tid && task->named) || ps->ended[i].former.text[0]))
            continue;
        ps->ended[n_left++] = ps->ended[i];
    }
    n -= ps->n_ended - n_left;
    ps->n_ended = n_left;
    return n;
}

// Writes the first `n` tasks.
static void write_by_list(struct process_stats *ps, size_t n)
{
    n = drop_named(ps, n);
    if (!n)
        return;
    char path[256];
    const char *tracefs = ps->env.roots->tracefs;
    int size = tracefs ? snprintf(path, sizeof(path), "%s/saved_cmdlines", tracefs) : -1;
    CLEANUP(close_fdp)
    int fd = size > 0 && (size_t)size < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        read_names(ps, fd, &n);
    for (size_t i = 0; i < n; i++)
        write_ended(ps, ps->ended[i].tid, ps->ended[i].tid, span_over(NULL, 0),
                    ps->scan_time); // the list does not have their names
    ps->n_ended -= n;
    memmove(ps->ended, ps->ended + n, ps->n_ended * sizeof(ps->ended[0]));
}

// Returns whether the exits up to the look-up of the task have been published, or the source of
// exits seems to have ended. The round of the look-up may have begun earlier, so the next round
// counts.
static bool is_read(const struct process_stats *ps, const struct ended_task *task, nsec_t time)
{
    const struct pid_feed *pids = ps->env.pids;
    return pids->exit_delay == 0 || pids->n_rounds - task->round >= 2 ||
           time - task->due > ROUNDS_WAIT + pids->exit_delay;
}

void ended_write(struct process_stats *ps, bool now)
{
    if (!ps->n_ended)
        return;
    poll_end_packet(ps);
    write_exited(ps);
    nsec_t time = now ? NSEC_MAX : nsec_now(CLOCK_BOOTTIME);
    size_t n = 0;
    while (n < ps->n_ended && ps->ended[n].due <= time && (now || is_read(ps, &ps->ended[n], time)))
        n++;
    if (n)
        write_by_list(ps, n);
}

void ended_add(struct process_stats *ps, int32_t tid, const struct process *process)
{
    if (!ps->env.names_ended || unfreed_at(ps, tid)->tid == tid)
        return;
    if (ps->n_ended == N_ENDED_MAX)
        ended_write(ps, false);
    if (ps->n_ended == N_ENDED_MAX)
        ended_write(ps, true);
    struct ended_task *task = &ps->ended[ps->n_ended++];
    *task = (struct ended_task){.tid = tid,
                                .due = ps->scan_time + ps->env.pids->exit_delay + EXIT_SPARE,
                                .round = ps->env.pids->n_rounds};
    if (process)
        task->former = former_of(process);
}
