// SPDX-License-Identifier: Apache-2.0
//
// Starts, renames and ends of processes and threads.
#include "converter/import/ftrace/ftrace.h"
#include "protos/fields.h"

#define CLONE_THREAD_FLAG 0x00010000 // of clone(2)

static uint32_t comm_add(struct import *im, const struct wire_field *comm)
{
    return strset_add(&im->strings, field_text(comm), comm->size);
}

static void task_newtask(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(task, TaskNewtaskFtraceEvent, &event->message);
    struct processes *processes = &im->processes;
    uint32_t tid = (uint32_t)field_u64(&task.pid);
    uint32_t comm = comm_add(im, &task.comm);
    if (tid == 0) // idle threads, made at boot
        return;
    int64_t parent, utid;
    if (field_u64(&task.clone_flags) & CLONE_THREAD_FLAG) {
        parent = processes_thread(processes, event->pid);
        utid = processes_start_thread(processes, event->ts, tid, comm, parent);
    } else {
        int64_t upid = processes_start(processes, event->ts, tid, comm);
        parent = processes_thread(processes, event->pid);
        utid = processes_thread(processes, tid);
        processes_set_parent_thread(processes, upid, parent);
    }
    thread_states_new_task(&im->thread_states, event->ts, utid, parent);
}

static void task_rename(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(task, TaskRenameFtraceEvent, &event->message);
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&task.pid));
    processes_rename(&im->processes, utid, comm_add(im, &task.newcomm), NAME_FTRACE);
}

// Ends a task when the kernel frees the task. sched_process_exit is earlier: the process may then
// be a zombie, and its other threads may still run.
static void sched_process_free(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(task, SchedProcessFreeFtraceEvent, &event->message);
    processes_end_thread(&im->processes, event->ts, (uint32_t)field_u64(&task.pid));
}

static const struct ftrace_form forms[] = {
    {"task_newtask", FORM_CALL(task_newtask)},
    {"task_rename", FORM_CALL(task_rename)},
    {"sched_process_free", FORM_CALL(sched_process_free)},
    {0},
};

const struct ftrace_subject ftrace_task = {.forms = forms};
