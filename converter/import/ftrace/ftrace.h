// SPDX-License-Identifier: Apache-2.0
//
// ftrace events. Each becomes a row (see rows.h); what else an event
// means (a slice, a counter, a new process) is up to its handler. A new handler is one row in the
// table of its file; a new file one row in ftrace.c.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/decode/message.h"
#include "converter/import/import.h"
#include "protos/ftrace_table.h"

struct ftrace_event {
    int64_t ts;
    uint32_t cpu;
    uint32_t pid; // that the event happened in; the kernel's pid, that is a tid
    const struct ftrace_event_type *type;
    struct wire_field message; // the event's own message
    const struct generation *state;
};

struct ftrace_handler {
    const char *event; // NULL ends a table
    void (*handle)(struct import *im, const struct ftrace_event *event);
    bool before_row; // handled before its row of ftrace_event is written, not behind it
};

struct ftrace; // the state, owned by struct import

int ftrace_init(struct import *im);
int ftrace_handle(struct import *im, const struct ftrace_record *record);

// All packets were seen in file order: from here on events come.
int ftrace_begin(struct import *im);
struct ftrace *ftrace_free(struct ftrace *ftrace);

// A GenericEventDescriptor: what an event that the schema does not know is made of.
int ftrace_describe(struct import *im, const struct wire_field *descriptor);

// The name behind the number of an interned kernel symbol; no text if there is none.
struct slice_name ftrace_symbol(const struct ftrace_event *event, uint64_t iid);

// The event with this number, if the schema knows it.
const struct ftrace_event_type *ftrace_type(const struct import *im, uint32_t number);

// Writes a row of an event; `args` in the order of its fields. The row is valid until the next one.
struct cell *ftrace_event_write(struct import *im, int64_t ts, uint32_t cpu, int64_t utid,
                                const struct ftrace_event_type *type, const struct arg *args,
                                size_t n_args);

// The compact forms of scheduling events. `row_only`: nothing follows from them but their row.
void ftrace_compact_switch(struct import *im, const struct ftrace_record *record, bool row_only);
void ftrace_compact_waking(struct import *im, const struct ftrace_record *record, bool row_only);

// The value of the message's field called `name`; absent fields are all zero.
struct wire_field ftrace_field(const struct ftrace_event *event, const char *name);

// The same as the number or text that the schema says it is; 0 or empty where it is absent or of
// another wire type.
int64_t ftrace_int(const struct ftrace_event *event, const char *name);
struct slice_name ftrace_text(const struct ftrace_event *event, const char *name);
bool ftrace_has(const struct ftrace_event *event, const char *name);

// A text that is made up and outlives its packet.
__attribute__((format(printf, 2, 3))) struct slice_name ftrace_name(struct import *im,
                                                                    const char *format, ...);

// The name of the kernel function behind an interned symbol; where there is none, its number.
struct slice_name ftrace_function(struct import *im, const struct ftrace_event *event,
                                  const char *field);

// The track of slices of a thread, or of the thread that the event happened in.
uint32_t ftrace_thread_track(struct import *im, int64_t utid);
uint32_t ftrace_own_track(struct import *im, const struct ftrace_event *event);

// An arrow between slices; none where one of them is not there.
void ftrace_flow(struct import *im, int64_t from, int64_t to);

// The thread writes into trace_marker: its write(2) ends here.
void ftrace_end_write(struct import *im, const struct ftrace_event *event);

struct binder; // the state of binder's handlers, owned by struct import; NULL: none yet
struct binder *binder_free(struct binder *binder);

struct drm; // the same of those of direct rendering
struct drm *drm_free(struct drm *drm);
