// SPDX-License-Identifier: Apache-2.0
//
// One tracing session: buffers, data sources, a duration, and, where it has one, the file that it
// is written into. Any number of them live side by side; time and loop come from outside.
//
// Life: session_new (config checked, sources open) -> session_start -> recording, until its
// duration is over, session_stop(), or a full file -> the rest is written in slices -> `ended`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/service/clock_set.h"
#include "producer/service/config.h"
#include "producer/service/loop.h"
#include "producer/service/session_settings.h"
#include "producer/sources/source.h"

struct session;
struct trace_file;

enum session_state {
    SESSION_CONFIGURED, // sources are open, nothing runs
    SESSION_STARTED,    // sources write
    SESSION_STOPPING,   // sources have stopped, what is in the buffers goes into the file
    SESSION_DONE,
};

// Borrowed, as everything in it; outlives the session.
struct session_env {
    // NULL: nobody sleeps for the session, its owner calls session_run_due().
    struct loop *loop;
    const struct clock_reader *clock;
    const struct log *log;
    const struct source_roots *roots;
    const struct source_class *const *classes; // NULL-terminated, in starting order

    const char *required_source; // without which the session fails; NULL: any is enough

    // Called once, when SESSION_DONE is reached. The session must not be freed inside the call. May
    // be NULL.
    void (*ended)(void *userdata, struct session *session);
    void *userdata;
};

// `config` is copied. On failure nothing is left behind.
int session_new(const struct session_env *env, const struct config *config, struct session **ret,
                struct err *err);
struct session *session_free(struct session *session); // stops what runs; takes NULL, returns NULL

const struct session_settings *session_get_settings(const struct session *session);

// Gives the session the file that it writes to, before session_start(). The session owns it from
// here. Without a file the packets stay in the buffers.
void session_set_file(struct session *session, struct trace_file *file);

int session_start(struct session *session, struct err *err);

// Stops recording; `ended` follows when everything is written. Nothing happens where it has
// stopped already.
void session_stop(struct session *session);

// Ends at once: what is not in the file yet is not written. The file stays readable.
void session_abort(struct session *session);

enum session_state session_get_state(const struct session *session);

// 0, or why recording or writing ended badly; `err` gets the text.
int session_result(const struct session *session, struct err *err);

struct session_counts {
    nsec_t elapsed;               // since the start, until the stop
    uint64_t events;              // what the sources count in
    uint64_t events_lost;         // by the kernel, or refused by a full buffer
    uint64_t packets_overwritten; // by rings
    uint64_t packets_discarded;   // by full buffers
    uint64_t bytes;               // recorded into the buffers
    uint64_t file_bytes;          // written to the file
    bool file_full;               // max_file_size_bytes ended the session
};

void session_get_counts(const struct session *session, struct session_counts *ret);

// For owners without a loop: when the session wants to be called, NSEC_MAX for never, and the call.
nsec_t session_next_due(const struct session *session);
void session_run_due(struct session *session);
