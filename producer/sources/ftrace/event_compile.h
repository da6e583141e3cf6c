// SPDX-License-Identifier: Apache-2.0
//
// Compiles the kernel's description of an event into the plan that encodes the event.
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "producer/sources/ftrace/event_plan.h"
#include "producer/sources/ftrace/format.h"
#include "protos/ftrace_table.h"

enum event_plan_style {
    EVENT_PLAN_TYPED,     // an event of the generated table
    EVENT_PLAN_DESCRIBED, // a field of its own in FtraceEvent, with a descriptor
    EVENT_PLAN_GENERIC,   // GenericFtraceEvent: field names in every event
    EVENT_PLAN_KPROBE,    // KprobeEvent of an instant
    EVENT_PLAN_KPROBE_BEGIN,
    EVENT_PLAN_KPROBE_END,
};

// Compiles a plan. `type` is used for EVENT_PLAN_TYPED only. `long_size` is the size of the
// kernel's long in bytes. Fields that this kernel does not have, and fields whose types do not fit,
// are left out. Free the plan with event_plan_free(). Returns 0 or a negative errno.
int event_plan_compile(const struct event_format *format, const char *group,
                       enum event_plan_style style, const struct ftrace_event_type *type,
                       size_t long_size, struct event_plan **ret, struct err *err);
