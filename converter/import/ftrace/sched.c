// SPDX-License-Identifier: Apache-2.0
//
// Scheduling events, in plain and in compact form. The compact form omits data of the CPU's
// previous switch: the thread that is switched out, and the thread that wakes another. Without a
// previous switch, a compact event is incomplete and left out.
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/process/sched_slices.h"
#include "protos/fields.h"

#define FLAG_HARDIRQ 0x08
#define FLAG_SOFTIRQ 0x10

static void comm_note(struct import *im, int64_t utid, const void *comm, size_t size)
{
    processes_name_thread(&im->processes, utid, strset_add(&im->strings, comm ? comm : "", size),
                          NAME_FTRACE);
}

static void sched_switch_event(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(task, SchedSwitchFtraceEvent, &event->message);
    struct processes *processes = &im->processes;
    struct sched_switch is = {
        .ts = event->ts,
        .cpu = event->cpu,
        .prev_tid = (uint32_t)field_u64(&task.prev_pid),
        .next_tid = (uint32_t)field_u64(&task.next_pid),
        .next_priority = (int32_t)field_u64(&task.next_prio),
        .prev_state = field_i64(&task.prev_state),
    };
    is.next_utid = processes_thread(processes, is.next_tid);
    comm_note(im, is.next_utid, task.next_comm.data, task.next_comm.size);
    is.prev_utid = processes_thread(processes, is.prev_tid);
    comm_note(im, is.prev_utid, task.prev_comm.data, task.prev_comm.size);
    struct sched_cpu *cpu = sched_cpu_get(im, event->cpu);
    if (cpu)
        sched_switch(im, cpu, &is);
}

static void sched_waking_event(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(task, SchedWakingFtraceEvent, &event->message);
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&task.pid));
    comm_note(im, utid, task.comm.data, task.comm.size);
    int64_t waker = processes_thread(&im->processes, event->pid);
    thread_states_wake(&im->thread_states, event->ts, utid, waker, -1);
}

static void sched_blocked_reason(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(reason, SchedBlockedReasonFtraceEvent, &event->message);
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&reason.pid));
    struct slice_name function = ftrace_symbol(event, field_u64(&reason.caller));
    thread_states_blocked(&im->thread_states, utid, field_u64(&reason.io_wait) != 0, function.text,
                          function.size);
}

static struct arg name_arg(struct import *im, const char *key, int64_t utid)
{
    uint32_t name = processes_thread_at(&im->processes, utid)->name;
    return arg_name(key, slice_name_of(&im->strings, name));
}

static void cpu_note(struct sched_cpu *cpu, const struct sched_switch *is)
{
    cpu->last_utid = is->next_utid;
    cpu->last_tid = is->next_tid;
    cpu->last_priority = is->next_priority;
}

void ftrace_compact_switch(struct import *im, const struct bundle_event *record, bool row_only)
{
    struct processes *processes = &im->processes;
    struct sched_cpu *cpu = sched_cpu_get(im, record->cpu);
    if (!cpu)
        return;
    const struct run_record *run = record->run;
    struct sched_comm comm = run->sched_switch.comm;
    struct sched_switch is = {
        .ts = record->ts,
        .cpu = record->cpu,
        .prev_utid = cpu->last_utid,
        .prev_tid = cpu->last_tid,
        .next_tid = (uint32_t)run->sched_switch.next_pid,
        .next_priority = run->sched_switch.next_prio,
        .prev_state = run->sched_switch.prev_state,
    };
    is.next_utid = processes_thread(processes, is.next_tid);
    comm_note(im, is.next_utid, comm.text, comm.size);
    if (cpu->last_utid == UTID_NONE) {
        stats_add(&im->stats, STAT_compact_sched_switch_skipped, 1);
        cpu_note(cpu, &is);
        return;
    }
    struct arg args[] = {
        name_arg(im, "prev_comm", is.prev_utid),     arg_int("prev_pid", is.prev_tid),
        arg_int("prev_prio", cpu->last_priority),    arg_int("prev_state", is.prev_state),
        arg_text("next_comm", comm.text, comm.size), arg_int("next_pid", is.next_tid),
        arg_int("next_prio", is.next_priority),
    };
    ftrace_event_write(im, is.ts, is.cpu, is.prev_utid,
                       ftrace_type(im, PB_FtraceEvent_sched_switch), args, 7);
    if (row_only)
        cpu_note(cpu, &is);
    else
        sched_switch(im, cpu, &is);
}

void ftrace_compact_waking(struct import *im, const struct bundle_event *record, bool row_only)
{
    const struct sched_cpu *cpu = sched_cpu_get(im, record->cpu);
    if (!cpu)
        return;
    const struct run_record *run = record->run;
    int64_t waker = cpu->last_utid;
    if (waker == UTID_NONE) {
        stats_add(&im->stats, STAT_compact_sched_waking_skipped, 1);
        return;
    }
    struct sched_comm comm = run->waking.comm;
    uint32_t tid = (uint32_t)run->waking.pid;
    struct arg args[] = {
        arg_text("comm", comm.text, comm.size),
        arg_int("pid", tid),
        arg_int("prio", run->waking.prio),
        arg_int("target_cpu", run->waking.target_cpu),
    };
    struct cell *row = ftrace_event_write(im, record->ts, record->cpu, waker,
                                          ftrace_type(im, PB_FtraceEvent_sched_waking), args, 4);
    cell_int(row, COL__arg_set_common_flags, run->waking.common_flags);
    if (row_only)
        return;
    bool irq = run->waking.common_flags & (FLAG_HARDIRQ | FLAG_SOFTIRQ);
    thread_states_wake(&im->thread_states, record->ts, processes_thread(&im->processes, tid), waker,
                       irq);
}

static const struct ftrace_form forms[] = {
    {"sched_switch", FORM_CALL(sched_switch_event), .before_row = true},
    {"sched_waking", FORM_CALL(sched_waking_event)},
    {"sched_blocked_reason", FORM_CALL(sched_blocked_reason)},
    {0},
};

const struct ftrace_subject ftrace_sched = {.forms = forms};
