// SPDX-License-Identifier: Apache-2.0
//
// Which events a config means on this kernel, and the plans to encode them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/err.h"
#include "common/log.h"
#include "common/map.h"
#include "common/vec.h"
#include "producer/sources/ftrace/compact_sched.h"
#include "producer/sources/ftrace/event_compile.h"
#include "protos/config/ftrace_config.pb-c.h"

#define EVENT_GROUP_KPROBE    "perfetto_kprobes"
#define EVENT_GROUP_KRETPROBE "perfetto_kretprobes"

struct chosen_event {
    const char *group, *name; // owned by the set
    uint16_t id;
};

VEC_DEFINE(chosen_events, struct chosen_event);

struct event_set {
    struct event_plan **plans; // owned, with the plans; by the kernel's id; NULL: not chosen
    size_t n_plans;
    struct chosen_events chosen;
    struct strset unknown; // as "group/name" or as the config has them
    struct strset failed;
    bool has_compact; // sched_switch is chosen and its format is known
    struct compact_format compact;
    uint16_t print_id, print_text; // ftrace/print and its text's offset; 0: not chosen
    size_t long_size;              // of the kernel
    struct arena arena;
};

// Everything but kprobes, which must be created first. `root` is the mounted tracefs. Names that
// the kernel does not have are told once each, with the nearest that it has. 0 or -ENOMEM; the set
// may come out empty.
int event_set_build(const char *root, const Pb__FtraceConfig *config, size_t long_size,
                    const struct log *log, struct event_set *ret, struct err *err);

// Adds one event. -ENOENT: the kernel does not have it; -EINVAL: its format makes no sense.
int event_set_add(struct event_set *set, const char *root, const char *group, const char *name,
                  enum event_plan_style style, struct err *err);

bool event_set_has(const struct event_set *set, const char *group, const char *name);
void event_set_done(struct event_set *set);

// How unknown events are to be written: the config's choice, or described, which is the default.
enum event_plan_style event_set_generic_style(const Pb__FtraceConfig *config);
