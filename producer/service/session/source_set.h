// SPDX-License-Identifier: Apache-2.0
//
// The data sources of one session: opened from its config, each with a sequence of its own into its
// target buffer, and driven together in the order of the table of classes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/ground/loop.h"
#include "producer/sources/source.h"
#include "producer/trace/packet_buffer.h"
#include "producer/trace/packet_writer.h"
#include "protos/config/trace_config.pb-c.h"

struct source_slot {
    const struct source_class *class;
    const Pb__DataSourceConfig *config; // borrowed
    struct source *source;              // owned
    struct packet_writer writer;
    uint32_t buffer;
    nsec_t stop_due; // end of its own trace_duration_ms; NSEC_MAX without one or when it stands
    bool running;
    bool implicit; // not asked for by the config (implicit_names.h)
};

// All zero is an empty set.
struct source_set {
    struct source_slot *slots; // owned; their addresses stay, sources borrow the writers
    size_t n;
    size_t n_implicit; // of the n
    size_t n_running;  // of the others
    struct pid_feed pids;
    struct foreign_helper *helper; // owned; NULL: there is none
    const struct log *log;         // borrowed
    const char *required;          // borrowed
    char title[64];                // of the session, with ": " behind it; "": none
    char left_out[768];            // which of them are left out, why, and the way out; "": none
};

struct source_set_env {
    struct loop *loop;
    const struct log *log;
    const struct source_roots *roots;
    const struct requester *requester;         // NULL: root
    const struct source_class *const *classes; // NULL-terminated, in starting order
    struct packet_buffer **buffers;            // session_buffers_count() of them
    const char *required; // a data source without which nothing is to be recorded; NULL: none
    const char *title;    // of the session, in front of log lines; NULL: the program has only one
};

// Opens all data sources of `config` (borrowed until source_set_done()) that are in the table. One
// that cannot be opened is logged, left out, and the problem that source_set_counts() gives; it is
// an error only if none is left of those that the config asks for, or the required one.
int source_set_open(struct source_set *set, const struct source_set_env *env,
                    const Pb__TraceConfig *config, struct err *err);

// Opens those of the same config that were left out because of its filters, which have changed.
// What fails is left out as above. Returns the number of the first new one.
size_t source_set_open_more(struct source_set *set, const struct source_set_env *env,
                            const Pb__TraceConfig *config);

// Has the sources from number `first` on take from the kernel what their start will need. What
// fails is logged.
void source_set_prepare(struct source_set *set, size_t first);

// Starts what was opened, at the time `now` (boot time). As above: an error only if nothing starts.
int source_set_start(struct source_set *set, nsec_t now, struct err *err);

// Starts those from number `first` on, among others that run. What fails is left out as above.
void source_set_start_more(struct source_set *set, size_t first, nsec_t now);

void source_set_flush(struct source_set *set);
void source_set_dump(struct source_set *set);
void source_set_clear_state(struct source_set *set);
void source_set_stop(struct source_set *set);

// Buffer number `buffer` is this one from here on, empty: sources that write to it begin anew.
void source_set_replace_buffer(struct source_set *set, size_t buffer,
                               struct packet_buffer *replacement);

// Stops those whose own duration is over. The next such time, or NSEC_MAX.
nsec_t source_set_stop_due(struct source_set *set, nsec_t now);

void source_set_counts(const struct source_set *set, struct source_counts *ret);

// Packets into `buffer` that the writers lost.
uint64_t source_set_writer_losses(const struct source_set *set, size_t buffer);

void source_set_done(struct source_set *set);
