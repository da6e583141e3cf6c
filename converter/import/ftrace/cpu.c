// SPDX-License-Identifier: Apache-2.0
//
// Interrupts as slices of the CPU, and kernel work that runs on a thread.
#include "converter/import/ftrace/ftrace.h"

#define OF_CPU(a_type, a_track) .type = (a_type), .key = "cpu=@cpu", .track = a_track " {@cpu}"
#define IRQ                     OF_CPU("cpu_irq", "Irq Cpu"), .category = "irq"
#define SOFTIRQ                 OF_CPU("cpu_softirq", "SoftIrq Cpu"), .category = "irq"
#define HRTIMER                 OF_CPU("cpu_hrtimer", "Hrtimer Cpu"), .category = "hrtimer"
#define NAPI                    OF_CPU("cpu_napi_gro", "Napi Gro Cpu"), .category = "napi_gro"
#define HOTPLUG                 .type = "cpu_hotplug", .key = "cpu", .track = "CPU Hotplug {cpu}"
#define HOTPLUG_ENTER                                                                              \
    FORM_BEGIN, HOTPLUG, .category = "cpu", .name = "cpuhp({idx})",                                \
                         .args = "action_cpu=@cpu, cpuhp_idx=idx"
// The idle threads share tid 0, so the calls of idle threads are slices of the CPU.
#define IDLE_CALL                                                                                  \
    .when = "@pid=0", .type = "cpu_funcgraph", .key = "cpu=@cpu",                                  \
    .track = "swapper{@cpu} -funcgraph", .name = "{func:f}"
#define CALL                                                                                       \
    .when = "@pid", .type = "thread_funcgraph", .key = "utid=@pid:thread", .track = "Funcgraph",   \
    .name = "{func:f}"

static const struct ftrace_form forms[] = {
    {"irq_handler_entry", FORM_BEGIN, IRQ, .name = "IRQ ({name})"},
    {"irq_handler_exit", FORM_END, IRQ, .args = "ret=ret?unhandled,handled;unhandled"},
    {"local_timer_entry", FORM_BEGIN, IRQ, .name = "IRQ (LocalTimer)"},
    {"local_timer_exit", FORM_END, IRQ},
    {"softirq_entry", FORM_BEGIN, SOFTIRQ, .when = "vec<10",
     .name = "{vec?HI,TIMER,NET_TX,NET_RX,BLOCK,BLOCK_IOPOLL,TASKLET,SCHED,HRTIMER,RCU}"},
    {"softirq_exit", FORM_END, SOFTIRQ, .args = "vec:i"},
    {"hrtimer_expire_entry", FORM_BEGIN, HRTIMER, .name = "{function:f}"},
    {"hrtimer_expire_exit", FORM_END, HRTIMER},
    {"napi_gro_receive_entry", FORM_BEGIN, NAPI, .name = "{name}", .args = "len:i"},
    {"napi_gro_receive_exit", FORM_END, NAPI, .args = "ret"},
    {"workqueue_execute_start", FORM_BEGIN, .category = "workqueue", .name = "{function:f}",
     .args = "cpu=@cpu:i"},
    {"workqueue_execute_end", FORM_END, .category = "workqueue"},
    {"funcgraph_entry", FORM_BEGIN, IDLE_CALL},
    {"", FORM_BEGIN, CALL},
    {"funcgraph_exit", FORM_END, IDLE_CALL},
    {"", FORM_END, CALL},
    {"kprobe_event", FORM_BEGIN, .when = "type=1", .name = "{name}"},
    {"", FORM_END, .when = "type=2", .name = "{name}"},
    {"", FORM_MOMENT, .when = "type=3", .name = "{name}"},
    {"cpuhp_enter", HOTPLUG_ENTER},
    {"cpuhp_multi_enter", HOTPLUG_ENTER},
    {"cpuhp_exit", FORM_END, HOTPLUG},
    {"signal_generate", FORM_MOMENT, .key = "pid", .name = "signal_generate",
     .args = "signal.sig=sig"},
    {"signal_deliver", FORM_MOMENT, .name = "signal_deliver", .args = "signal.sig=sig"},
    {0},
};

const struct ftrace_subject ftrace_cpu = {.forms = forms};
