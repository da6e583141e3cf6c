// SPDX-License-Identifier: Apache-2.0
//
// What interrupts do, as slices of the processor, and kernel work that runs on a thread.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

static uint32_t cpu_track(struct import *im, const char *type, const char *title, uint32_t cpu)
{
    struct slice_name name = ftrace_name(im, "%s %u", title, cpu);
    struct track_spec spec = {
        .type = type,
        .dimensions = {dimension_int("cpu", cpu)},
        .name = name.text,
        .name_size = name.size,
    };
    return tracks_get(&im->tracks, &spec);
}

static uint32_t irq_track(struct import *im, const struct ftrace_event *event)
{
    return cpu_track(im, "cpu_irq", "Irq Cpu", event->cpu);
}

static void irq_begin(struct import *im, const struct ftrace_event *event, uint32_t track,
                      struct slice_name name)
{
    struct slice_spec spec = {
        .ts = event->ts, .track = track, .category = slice_name("irq"), .name = name};
    slice_begin(&im->slices, &spec);
}

static void irq_end(struct import *im, const struct ftrace_event *event, uint32_t track,
                    const struct arg *arg)
{
    struct slice_spec spec = {
        .ts = event->ts,
        .track = track,
        .category = slice_name("irq"),
        .args = arg,
        .n_args = arg != NULL,
    };
    slice_end(&im->slices, &spec);
}

static void irq_handler_entry(struct import *im, const struct ftrace_event *event)
{
    struct slice_name irq = ftrace_text(event, "name");
    irq_begin(im, event, irq_track(im, event),
              ftrace_name(im, "IRQ (%.*s)", (int)(irq.size < 256 ? irq.size : 256), irq.text));
}

static void irq_handler_exit(struct import *im, const struct ftrace_event *event)
{
    bool handled = ftrace_int(event, "ret") == 1;
    struct arg arg = arg_text("ret", handled ? "handled" : "unhandled", handled ? 7 : 9);
    irq_end(im, event, irq_track(im, event), &arg);
}

static void local_timer_entry(struct import *im, const struct ftrace_event *event)
{
    irq_begin(im, event, irq_track(im, event), slice_name("IRQ (LocalTimer)"));
}

static void local_timer_exit(struct import *im, const struct ftrace_event *event)
{
    irq_end(im, event, irq_track(im, event), NULL);
}

static void softirq_entry(struct import *im, const struct ftrace_event *event)
{
    static const char *const actions[] = {
        "HI",           "TIMER",   "NET_TX", "NET_RX",  "BLOCK",
        "BLOCK_IOPOLL", "TASKLET", "SCHED",  "HRTIMER", "RCU",
    };
    uint64_t vec = (uint64_t)ftrace_int(event, "vec");
    if (vec < ELEMENTS(actions))
        irq_begin(im, event, cpu_track(im, "cpu_softirq", "SoftIrq Cpu", event->cpu),
                  slice_name(actions[vec]));
}

static void softirq_exit(struct import *im, const struct ftrace_event *event)
{
    struct arg arg = arg_int("vec", ftrace_int(event, "vec"));
    irq_end(im, event, cpu_track(im, "cpu_softirq", "SoftIrq Cpu", event->cpu), &arg);
}

static void hrtimer_expire_entry(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {
        .ts = event->ts,
        .track = cpu_track(im, "cpu_hrtimer", "Hrtimer Cpu", event->cpu),
        .category = slice_name("hrtimer"),
        .name = ftrace_function(im, event, "function"),
    };
    slice_begin(&im->slices, &spec);
}

static void hrtimer_expire_exit(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {
        .ts = event->ts,
        .track = cpu_track(im, "cpu_hrtimer", "Hrtimer Cpu", event->cpu),
        .category = slice_name("hrtimer"),
    };
    slice_end(&im->slices, &spec);
}

static void napi_entry(struct import *im, const struct ftrace_event *event)
{
    struct arg arg = arg_int("len", ftrace_int(event, "len"));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = cpu_track(im, "cpu_napi_gro", "Napi Gro Cpu", event->cpu),
        .category = slice_name("napi_gro"),
        .name = ftrace_text(event, "name"),
        .args = &arg,
        .n_args = 1,
    };
    slice_begin(&im->slices, &spec);
}

static void napi_exit(struct import *im, const struct ftrace_event *event)
{
    struct arg arg = arg_int("ret", ftrace_int(event, "ret"));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = cpu_track(im, "cpu_napi_gro", "Napi Gro Cpu", event->cpu),
        .category = slice_name("napi_gro"),
        .args = &arg,
        .n_args = 1,
    };
    slice_end(&im->slices, &spec);
}

static void workqueue_start(struct import *im, const struct ftrace_event *event)
{
    struct arg arg = arg_int("cpu", event->cpu);
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_own_track(im, event),
        .category = slice_name("workqueue"),
        .name = ftrace_function(im, event, "function"),
        .args = &arg,
        .n_args = 1,
    };
    slice_begin(&im->slices, &spec);
}

static void workqueue_end(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {
        .ts = event->ts, .track = ftrace_own_track(im, event), .category = slice_name("workqueue")};
    slice_end(&im->slices, &spec);
}

// The idle threads share one tid, so their calls are the processor's.
static uint32_t funcgraph_track(struct import *im, const struct ftrace_event *event)
{
    if (!event->pid) {
        struct slice_name name = ftrace_name(im, "swapper%u -funcgraph", event->cpu);
        struct track_spec spec = {
            .type = "cpu_funcgraph",
            .dimensions = {dimension_int("cpu", event->cpu)},
            .name = name.text,
            .name_size = name.size,
        };
        return tracks_get(&im->tracks, &spec);
    }
    struct track_spec spec = {
        .type = "thread_funcgraph",
        .dimensions = {dimension_int("utid", processes_thread(&im->processes, event->pid))},
        .name = "Funcgraph",
        .name_size = 9,
    };
    return tracks_get(&im->tracks, &spec);
}

static void funcgraph_entry(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {.ts = event->ts,
                              .track = funcgraph_track(im, event),
                              .name = ftrace_function(im, event, "func")};
    slice_begin(&im->slices, &spec);
}

static void funcgraph_exit(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {.ts = event->ts,
                              .track = funcgraph_track(im, event),
                              .name = ftrace_function(im, event, "func")};
    slice_end(&im->slices, &spec);
}

static void kprobe_event(struct import *im, const struct ftrace_event *event)
{
    enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3 };
    struct slice_spec spec = {
        .ts = event->ts, .track = ftrace_own_track(im, event), .name = ftrace_text(event, "name")};
    switch (ftrace_int(event, "type")) {
    case TYPE_BEGIN:
        slice_begin(&im->slices, &spec);
        break;
    case TYPE_END:
        slice_end(&im->slices, &spec);
        break;
    case TYPE_INSTANT:
        slice_add(&im->slices, &spec);
        break;
    default:
        break;
    }
}

static uint32_t hotplug_track(struct import *im, const struct ftrace_event *event)
{
    return cpu_track(im, "cpu_hotplug", "CPU Hotplug", (uint32_t)ftrace_int(event, "cpu"));
}

static void cpuhp_enter(struct import *im, const struct ftrace_event *event)
{
    int64_t index = ftrace_int(event, "idx");
    struct arg args[] = {arg_uint("action_cpu", event->cpu), arg_int("cpuhp_idx", index)};
    struct slice_spec spec = {
        .ts = event->ts,
        .track = hotplug_track(im, event),
        .category = slice_name("cpu"),
        .name = ftrace_name(im, "cpuhp(%d)", (int)index),
        .args = args,
        .n_args = 2,
    };
    slice_begin(&im->slices, &spec);
}

static void cpuhp_exit(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {.ts = event->ts, .track = hotplug_track(im, event)};
    slice_end(&im->slices, &spec);
}

static void signal_write(struct import *im, const struct ftrace_event *event, uint32_t tid,
                         const char *name)
{
    struct arg arg = arg_int("signal.sig", ftrace_int(event, "sig"));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_thread_track(im, processes_thread(&im->processes, tid)),
        .name = slice_name(name),
        .args = &arg,
        .n_args = 1,
    };
    slice_add(&im->slices, &spec);
}

static void signal_generate(struct import *im, const struct ftrace_event *event)
{
    signal_write(im, event, (uint32_t)ftrace_int(event, "pid"), "signal_generate");
}

static void signal_deliver(struct import *im, const struct ftrace_event *event)
{
    signal_write(im, event, event->pid, "signal_deliver");
}

const struct ftrace_handler ftrace_cpu_handlers[] = {
    {"irq_handler_entry", irq_handler_entry, false},
    {"irq_handler_exit", irq_handler_exit, false},
    {"local_timer_entry", local_timer_entry, false},
    {"local_timer_exit", local_timer_exit, false},
    {"softirq_entry", softirq_entry, false},
    {"softirq_exit", softirq_exit, false},
    {"hrtimer_expire_entry", hrtimer_expire_entry, false},
    {"hrtimer_expire_exit", hrtimer_expire_exit, false},
    {"napi_gro_receive_entry", napi_entry, false},
    {"napi_gro_receive_exit", napi_exit, false},
    {"workqueue_execute_start", workqueue_start, false},
    {"workqueue_execute_end", workqueue_end, false},
    {"funcgraph_entry", funcgraph_entry, false},
    {"funcgraph_exit", funcgraph_exit, false},
    {"kprobe_event", kprobe_event, false},
    {"cpuhp_enter", cpuhp_enter, false},
    {"cpuhp_multi_enter", cpuhp_enter, false},
    {"cpuhp_exit", cpuhp_exit, false},
    {"signal_generate", signal_generate, false},
    {"signal_deliver", signal_deliver, false},
    {0},
};
