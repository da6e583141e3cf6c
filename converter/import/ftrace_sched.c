// SPDX-License-Identifier: Apache-2.0
//
// Scheduling: why a thread was blocked.
#include "converter/import/ftrace.h"

enum { BLOCKED_PID = 1, BLOCKED_CALLER = 2, BLOCKED_IO_WAIT = 3 };

static void sched_blocked_reason(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(reason, BLOCKED_IO_WAIT, &event->message);
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&reason[BLOCKED_PID]));
    struct slice_name function = ftrace_symbol(event, field_u64(&reason[BLOCKED_CALLER]));
    thread_states_blocked(&im->thread_states, utid, field_u64(&reason[BLOCKED_IO_WAIT]) != 0,
                          function.text, function.size);
}

const struct ftrace_handler ftrace_sched_handlers[] = {
    {"sched_blocked_reason", sched_blocked_reason},
    {0},
};
