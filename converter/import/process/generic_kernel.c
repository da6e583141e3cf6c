// SPDX-License-Identifier: Apache-2.0
//
// Events of kernels other than Linux: states, names and processes of tasks, and frequencies of
// CPUs. Each task reports its own states, so at a switch the start of the next task and the end of
// the previous task come in either order. A slice that the start of another task has closed is
// kept, because the slice's task may still report its new state for the same time.
#include <errno.h>

#include "converter/import/importer.h"
#include "converter/import/process/sched_slices.h"
#include "protos/fields.h"

enum state { UNKNOWN, CREATED, RUNNABLE, RUNNING, SLEEPING, WAITING, STOPPED, DEAD, DESTROYED };

// thread_states_now() returns this address, so a comparison of addresses suffices.
static const char dead[] = "Z";

static const char *state_text(enum state state)
{
    switch (state) {
    case CREATED:
        return "Created";
    case RUNNABLE:
        return thread_state_runnable;
    case RUNNING:
        return thread_state_running;
    case SLEEPING:
        return "S";
    case WAITING:
        return "D";
    case STOPPED:
        return "T";
    case DEAD:
        return dead;
    case DESTROYED:
        return "X";
    case UNKNOWN:
        break;
    }
    return NULL;
}

// A slice that ended with the start of another task on its CPU.
struct closed_slice {
    struct sched_cpu slice;
    uint32_t cpu;
    int64_t end_ts;
};
VEC_DEFINE(closed_slice_vec, struct closed_slice);

struct tasks {
    struct sched_cpu_vec cpus;
    struct closed_slice_vec closed;
    struct map64 closed_of; // utid -> index in closed
};

struct task {
    int64_t ts, utid, tid;
    uint32_t cpu;
    int32_t priority;
    enum state state;
};

static uint32_t name_of(struct import *im, const struct wire_field *text)
{
    return text->size ? import_keep(im, text) : STRSET_NONE;
}

// Returns the thread of a state event. UTID_NONE: the state cannot follow the thread's last state.
static int64_t task_thread(struct import *im, const struct task *task, uint32_t name)
{
    struct processes *processes = &im->processes;
    int64_t utid = processes_find_thread(processes, task->tid);
    bool is_known = utid != UTID_NONE, fits = true;
    if (task->state == CREATED) {
        fits = !is_known;
    } else if (task->state != DESTROYED && is_known) {
        const char *before = thread_states_now(&im->thread_states, utid);
        fits = before != dead && (task->state != RUNNING || before != thread_state_running);
    }
    if (!fits) {
        stats_add(&im->stats, STAT_generic_task_state_invalid_order, 1);
        return UTID_NONE;
    }
    utid = processes_thread(processes, task->tid);
    if (task->state == CREATED) {
        struct thread *thread = processes_thread_at(processes, utid);
        thread->start_ts = task->ts;
        thread->has_start = true;
    }
    if (task->state != DESTROYED || !is_known)
        processes_name_thread(processes, utid, name, NAME_FTRACE);
    if (task->state == DESTROYED)
        processes_end_thread(processes, task->ts, task->tid);
    return utid;
}

static int64_t slice_dur(const struct closed_slice *closed)
{
    return (int64_t)((uint64_t)closed->end_ts - (uint64_t)closed->slice.slice_ts);
}

static void closed_write(struct import *im, const struct closed_slice *closed, const char *state)
{
    sched_slice_write(im, closed->cpu, &closed->slice, slice_dur(closed), state);
}

static void closed_keep(struct import *im, struct tasks *tasks, const struct task *task,
                        const struct sched_cpu *slice)
{
    struct closed_slice closed = {.slice = *slice, .cpu = task->cpu, .end_ts = task->ts};
    const uint64_t *known = map64_find(&tasks->closed_of, (uint64_t)slice->last_utid);
    import_bounds(im, task->ts);
    if (known) {
        struct closed_slice *old = &tasks->closed.items[*known];
        if (old->slice.running)
            closed_write(im, old, NULL);
        *old = closed;
        return;
    }
    int r = closed_slice_vec_push(&tasks->closed, closed);
    import_fail(
        im,
        r < 0 ? r : map64_set(&tasks->closed_of, (uint64_t)slice->last_utid, tasks->closed.n - 1));
}

// Writes the task's closed slice with its new state. False: the task has no closed slice.
static bool closed_end(struct import *im, struct tasks *tasks, const struct task *task)
{
    const uint64_t *known = map64_find(&tasks->closed_of, (uint64_t)task->utid);
    struct closed_slice *closed = known ? &tasks->closed.items[*known] : NULL;
    if (!closed || !closed->slice.running || closed->end_ts != task->ts)
        return false;
    closed_write(im, closed, state_text(task->state));
    closed->slice.running = false;
    return true;
}

static void task_start(struct import *im, struct tasks *tasks, const struct task *task,
                       struct sched_cpu *cpu)
{
    if (cpu->running) {
        closed_keep(im, tasks, task, cpu);
        thread_states_set(&im->thread_states, task->ts, cpu->last_utid, NULL, -1);
    }
    *cpu = (struct sched_cpu){
        .running = true,
        .slice_id = database_reserve_id(im->db, TABLE_sched_slice),
        .slice_ts = task->ts,
        .slice_priority = task->priority,
        .last_utid = task->utid,
        .last_tid = task->tid,
    };
}

static void task_enter(struct import *im, struct tasks *tasks, const struct task *task)
{
    struct sched_cpu *cpu = &tasks->cpus.items[task->cpu];
    const char *state = state_text(task->state);
    if (task->state == RUNNING) {
        task_start(im, tasks, task, cpu);
    } else if (cpu->running && cpu->last_tid == task->tid) {
        struct closed_slice closed = {.slice = *cpu, .cpu = task->cpu, .end_ts = task->ts};
        closed_write(im, &closed, state);
        import_bounds(im, task->ts);
        *cpu = (struct sched_cpu){.last_utid = UTID_NONE};
    } else if (closed_end(im, tasks, task)) {
        thread_states_correct(&im->thread_states, task->utid, state);
        return;
    }
    if (!thread_states_set(&im->thread_states, task->ts, task->utid, state,
                           task->state == RUNNING ? (int64_t)ucpu_of(im, task->cpu) : -1))
        stats_add(&im->stats, STAT_generic_task_state_invalid_order, 1);
}

static void task_sorted(struct import *im, const struct packet *packet)
{
    struct tasks *tasks = packet->own;
    MESSAGE(event, GenericKernelTaskStateEvent, packet->message);
    struct task task = {
        .ts = packet->ts,
        .tid = field_i64(&event.tid),
        .cpu = (uint32_t)field_u64(&event.cpu),
        .priority = (int32_t)field_i64(&event.prio),
        .state = (enum state)field_u64(&event.state),
    };
    if (field_u64(&event.state) > DESTROYED || task.state == UNKNOWN || task.cpu >= CPUS_MAX) {
        stats_add(&im->stats, STAT_task_state_invalid, 1);
        return;
    }
    while (tasks->cpus.n <= task.cpu)
        if (sched_cpu_vec_push(&tasks->cpus, (struct sched_cpu){.last_utid = UTID_NONE}) < 0) {
            import_fail(im, -ENOMEM);
            return;
        }
    task.utid = task_thread(im, &task, name_of(im, &event.comm));
    if (task.utid == UTID_NONE)
        return;
    if (task.state == RUNNING)
        cpus_see(im, task.cpu);
    task_enter(im, tasks, &task);
}

static void tasks_finish(struct import *im, void *state)
{
    struct tasks *tasks = state;
    vec_foreach(&tasks->closed, closed)
        if (closed->slice.running)
            closed_write(im, closed, NULL);
    for (uint32_t i = 0; i < tasks->cpus.n; i++)
        if (tasks->cpus.items[i].running)
            sched_slice_write(im, i, &tasks->cpus.items[i], -1, NULL);
}

static void tasks_done(void *state)
{
    struct tasks *tasks = state;
    sched_cpu_vec_done(&tasks->cpus);
    closed_slice_vec_done(&tasks->closed);
    map64_done(&tasks->closed_of);
}

static void rename_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(event, GenericKernelTaskRenameEvent, packet->message);
    int64_t utid = processes_thread(&im->processes, field_i64(&event.tid));
    processes_rename(&im->processes, utid, name_of(im, &event.comm), NAME_FTRACE);
}

static void process_read(struct import *im, const struct wire_field *message)
{
    MESSAGE(part, GenericKernelProcessTree_Process, message);
    const struct wire_field *cmdline = &part.cmdline;
    if (!field_present(cmdline))
        return;
    const char *text = field_text(cmdline), *space = memchr(text, ' ', cmdline->size);
    size_t name_size = space ? (size_t)(space - text) : cmdline->size;
    struct processes *processes = &im->processes;
    int64_t parent = processes_without_thread(processes, field_i64(&part.ppid));
    int64_t upid = processes_without_thread(processes, field_i64(&part.pid));
    if (!processes_set_parent(processes, upid, parent))
        stats_add(&im->stats, STAT_process_tracker_parent_pid_changed, 1);
    processes_name(processes, upid, strset_add(&im->strings, text, name_size), PROCESS_NAME_SYSTEM);
    processes_at(processes, upid)->cmdline = strset_add(&im->strings, text, cmdline->size);
}

static void thread_read(struct import *im, const struct wire_field *message)
{
    MESSAGE(part, GenericKernelProcessTree_Thread, message);
    struct processes *processes = &im->processes;
    int64_t upid = processes_without_thread(processes, field_i64(&part.pid));
    int64_t utid = processes_thread_of(processes, field_i64(&part.tid), upid);
    struct thread *thread = processes_thread_at(processes, utid);
    thread->has_main = true;
    thread->is_main = field_u64(&part.is_main_thread) != 0;
    thread->is_idle = field_u64(&part.is_idle) != 0;
    processes_name_thread(processes, utid, name_of(im, &part.comm), NAME_PROCESS_TREE);
}

static void tree_sorted(struct import *im, const struct packet *packet)
{
    struct fields each = fields_of(packet->message, PB_GenericKernelProcessTree_processes);
    while (fields_next(&each))
        process_read(im, &each.field);
    each = fields_of(packet->message, PB_GenericKernelProcessTree_threads);
    while (fields_next(&each))
        thread_read(im, &each.field);
}

static void cpu_frequency_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(event, GenericKernelCpuFrequencyEvent, packet->message);
    int32_t cpu = (int32_t)field_i64(&event.cpu);
    struct track_spec spec = {
        .type = "cpu_frequency",
        .counter = true,
        .dimensions = {dimension_int("cpu", cpu)},
        .name = slice_name("cpufreq"),
    };
    counter_push(im, packet->ts, tracks_get(&im->tracks, &spec),
                 (double)field_i64(&event.freq_hz) / 1000, ARG_SET_NONE);
}

const struct importer importer_generic_task_state = {
    .field = PB_TracePacket_generic_kernel_task_state_event,
    .sorted = task_sorted,
    .state_size = sizeof(struct tasks),
    .finish = tasks_finish,
    .done = tasks_done,
};
const struct importer importer_generic_task_rename = {
    .field = PB_TracePacket_generic_kernel_task_rename_event,
    .sorted = rename_sorted,
};
const struct importer importer_generic_process_tree = {
    .field = PB_TracePacket_generic_kernel_process_tree,
    .sorted = tree_sorted,
};
const struct importer importer_generic_cpu_frequency = {
    .field = PB_TracePacket_generic_kernel_cpu_freq_event,
    .sorted = cpu_frequency_sorted,
};
