// SPDX-License-Identifier: Apache-2.0
//
// The events that a config selects on this kernel, and the plans to encode them.
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

// The places of the fields in the kernel's sched_process_exit. `comm` is the name of the task that
// exits.
struct exit_format {
    uint16_t id; // the kernel's; 0: the event is not switched on
    uint16_t pid, comm, comm_size;
};

// The place of the pid in sched_process_free. The name of the task is not read.
struct free_format {
    uint16_t id, pid;
};

struct event_set {
    struct event_plan **plans; // owned, with the plans; by the kernel's id; NULL: not selected
    size_t n_plans;
    struct chosen_events chosen;
    struct strset unknown; // as "group/name", or as written in the config
    struct strset failed;
    bool has_compact; // sched_switch is selected and its format is known
    struct compact_format compact;
    struct exit_format exits;
    struct free_format frees;
    uint16_t print_id;   // id of ftrace/print; 0: not selected
    uint16_t print_text; // offset of its text
    size_t long_size;    // of the kernel
    struct arena arena;
};

// Builds the set without kprobes, which do not exist yet. `root` is the mounted tracefs. Logs each
// name that the kernel does not have, with the nearest known name. Returns 0 or -ENOMEM. The set
// may be empty.
int event_set_build(const char *root, const Pb__FtraceConfig *config, size_t long_size,
                    const struct log *log, struct event_set *ret, struct err *err);

// Adds one event. Returns 0 or a negative errno: -ENOENT if the kernel does not have it, -EINVAL if
// its format is malformed.
int event_set_add(struct event_set *set, const char *root, const char *group, const char *name,
                  enum event_plan_style style, struct err *err);

// Adds sched_process_exit for the names of tasks that end, and sched_process_free for the end of
// their ids. The reader publishes these events. An event that the config selects, too, is recorded
// and not published.
// Returns 0 or a negative errno, as event_set_add(). Without sched_process_free the rest works.
int event_set_add_ends(struct event_set *set, const char *root, struct err *err);

bool event_set_has(const struct event_set *set, const char *group, const char *name);
// Returns whether the events with this id of the kernel are recorded.
bool event_set_records(const struct event_set *set, uint16_t id);
void event_set_done(struct event_set *set);
