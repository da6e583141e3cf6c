// SPDX-License-Identifier: Apache-2.0
//
// The data sources of one session. Each source has a separate packet sequence into its target
// buffer. All sources are driven together, in the order of the table of classes.
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
    nsec_t stop_due; // end of the source's trace_duration_ms; NSEC_MAX: none, or not running
    bool running, has_started;
    bool needs_clear; // its buffer was replaced, and the share had no time
    bool implicit;    // not in the config (implicit_names.h)
};

// All zero is an empty set.
struct source_set {
    struct source_slot
        *slots; // owned; the addresses are stable, because sources borrow the writers
    size_t n;
    size_t n_implicit;       // part of n
    size_t n_running;        // without implicit sources
    size_t n_begun;          // sources that were started, or could not be started
    size_t n_cleared;        // sources whose state was cleared, all together
    size_t n_flushed;        // sources that were flushed within the share, all together
    size_t n_tried;          // sources that were opened, or could not be opened
    struct loop_timer *late; // starts and clears the rest when the share has time; NULL: no limit
    struct pid_feed pids;
    struct foreign_helper *helper;          // owned; NULL: none
    struct source_shares *shares;           // borrowed, of the requester; NULL: no limit
    struct loop_share *readings, *sessions; // of `shares`; NULL: no limit
    struct loop *loop;                      // borrowed; NULL: no limit
    const struct log *log;                  // borrowed
    const char *required;                   // borrowed
    void (*rest_begun)(void *userdata);     // of source_set_env
    void *userdata;                         // borrowed, of rest_begun()
    char title[64];                         // title of the session, followed by ": "; "": none
    char left_out[768]; // sources that were left out, with reasons and hints; "": none
};

struct source_set_env {
    struct loop *loop;
    const struct log *log;
    const struct source_roots *roots;
    const struct requester *requester;         // NULL: root
    struct source_shares *shares;              // of the requester; NULL: no limit
    const struct source_class *const *classes; // NULL-terminated, in starting order
    struct packet_buffer **buffers;            // session_buffers_count() of them
    const char *required; // name of a source without which nothing is recorded; NULL: none
    const char *title;    // title of the session, prefix of log lines; NULL: the program has one
                          // session
    // Sources that started late have all begun. May end the session, but not free the set.
    void (*rest_begun)(void *userdata);
    void *userdata;
};

// Opens all data sources of `config` (borrowed until source_set_done()) that are in the table. A
// source that cannot be opened is logged, left out, and reported as the problem of
// source_set_counts(). Returns 0 or a negative errno with text. Fails only if the required source,
// or none of the config's sources, can be opened.
int source_set_open(struct source_set *set, const struct source_set_env *env,
                    const Pb__TraceConfig *config, struct err *err);

// Opens sources of the same config that its old filters had excluded. A source that fails is left
// out as in source_set_open(). Returns the number of the first new source.
size_t source_set_open_more(struct source_set *set, const struct source_set_env *env,
                            const Pb__TraceConfig *config);

// Lets the sources from number `first` on acquire kernel resources for their start. Failures are
// logged.
void source_set_prepare(struct source_set *set, size_t first);

// Starts the open sources at time `now` (boot time). Returns 0 or a negative errno with text. Fails
// only if nothing starts, or if the only or required source fails. If the share of sessions is used
// up and a source runs, the rest starts later, one source after the other. A late source that
// fails, or for which there is no time, is reported as a problem.
int source_set_start(struct source_set *set, nsec_t now, struct err *err);

// Returns whether each source has started or is left out.
static inline bool source_set_is_begun(const struct source_set *set)
{
    return set->n_begun == set->n;
}

// Starts the sources from number `first` on, while others run. A source that fails is logged, left
// out, and reported as a problem.
void source_set_start_more(struct source_set *set, size_t first, nsec_t now);

// Returns whether the source of this config (compared by pointer) was started, even if it has
// stopped since.
bool source_set_has_started(const struct source_set *set, const Pb__DataSourceConfig *config);

// Counts the time in the share of readings, but does not ask whether time is left.
void source_set_flush(struct source_set *set);
// Returns whether the share of readings has time.
bool source_set_has_time(const struct source_set *set);
// Leaves out the rest of the sources if no time is left, and returns false then. The next flush
// begins with them.
bool source_set_flush_in_share(struct source_set *set);
void source_set_dump(struct source_set *set);
void source_set_dump_copy(struct source_set *set); // in a forked copy of the process
// Leaves out sources if no time is left.
void source_set_clear_state(struct source_set *set);
void source_set_stop(struct source_set *set);

// Replaces buffer number `buffer` by an empty buffer. Sources that write to it clear their state,
// some of them later if no time is left.
void source_set_replace_buffer(struct source_set *set, size_t buffer,
                               struct packet_buffer *replacement);

// Stops sources whose own duration is over. Returns the next end of a source, or NSEC_MAX.
nsec_t source_set_stop_due(struct source_set *set, nsec_t now);

void source_set_counts(const struct source_set *set, struct source_counts *ret);

// Returns the number of packets into `buffer` that the writers lost.
uint64_t source_set_writer_losses(const struct source_set *set, size_t buffer);

void source_set_done(struct source_set *set);
