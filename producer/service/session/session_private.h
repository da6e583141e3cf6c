// SPDX-License-Identifier: Apache-2.0
//
// What session.c (life), session_machine.c (what happens, and when) and session_clone.c (snapshots)
// share. Nobody else includes this.
#pragma once

#include "producer/service/service_packets.h"
#include "producer/service/session/session.h"
#include "producer/service/session/session_buffers.h"
#include "producer/service/session/session_journal.h"
#include "producer/service/session/session_output.h"
#include "producer/service/session/session_reader.h"
#include "producer/service/session/source_set.h"

#define PENDING_CLONES_MAX 16

// How often a journal is written, and the statistics with it.
#define JOURNAL_PERIOD           NSEC_PER_SEC
#define JOURNAL_WRITES_PER_STATS 10

enum session_event {
    EVENT_ARM,
    EVENT_START,
    EVENT_TRIGGER,
    EVENT_DELAY_OVER, // stop_delay_ms
    EVENT_CLONE_DUE,
    EVENT_TIMEOUT, // trigger_timeout_ms
    EVENT_STOP,
    EVENT_ABORT,
    EVENT_DURATION_OVER,
    EVENT_SOURCE_OVER,
    EVENT_FLUSH_DUE,
    EVENT_CLEAR_DUE,
    EVENT_SNAPSHOT_DUE,
    EVENT_WRITE_DUE,
    EVENT_SLICE_DUE,
    EVENT_WRITTEN,
    EVENT_FILE_ENDED, // full, or it failed
};

// The order is that in which they come when several are due at once.
enum due {
    DUE_CLONE,
    DUE_DELAY,
    DUE_TIMEOUT,
    DUE_DURATION,
    DUE_SOURCE,
    DUE_CLEAR,
    DUE_SNAPSHOT,
    DUE_FLUSH,
    DUE_WRITE,
    DUE_SLICE,
    N_DUE,
};

struct deadline {
    nsec_t at;     // boot time; NSEC_MAX: not set
    nsec_t period; // 0: once
    nsec_t awake;  // CLOCK_MONOTONIC, which stands still in suspend: not before this; 0: none
};

struct pending_clone {
    struct service_trigger_hit hit; // its strings are owned
    struct deadline due;
};

struct session_journal {
    struct service_packets packets; // the twin of the session's
    bool begun;
    unsigned n_tails;              // write-outs that ended
    uint64_t passed_over;          // by the rings, when the file began
    bool buffer_replaced;          // since the file began
    nsec_t second_due;             // not before
    struct trace_file *previous;   // owned: complete until the file at hand is; NULL: none
    struct packet_cursor *cursors; // owned: where `previous` stands
};

struct session {
    struct session_env env;
    struct session_settings settings;
    Pb__TraceConfig *config; // owned
    uint8_t *config_bytes;   // owned
    size_t config_size;

    enum session_state state;
    struct deadline deadlines[N_DUE];
    struct loop_timer *timer; // owned

    struct pending_clone clones[PENDING_CLONES_MAX];
    size_t n_clones;
    bool overflow_told;                    // that `clones` is full
    const struct service_trigger_hit *hit; // borrowed, inside session_trigger()
    bool triggered;                        // the trigger that was waited for has come

    struct session_buffers buffers;
    struct source_set sources;
    struct service_packets packets;
    struct session_reader reader;
    struct packet_buffer_stats *buffer_stats; // owned, scratch for put_tail()
    uint64_t *writer_losses;                  // owned, likewise
    struct session_output output;
    struct session_journal *journal; // owned; NULL: none
    nsec_t synced_at;                // boot time
    uint64_t bytes_taken;            // of what was recorded, when all was written
    nsec_t room_delay;               // until the next attempt to write; 0: there is room
    bool is_clone;                   // then buffer_stats are those of the original, at the time

    nsec_t started_at, stopped_at; // boot time
    uint64_t flushes;
    bool final_flush_done;
    bool file_full;
    int result;
    struct err err; // of result
};

static inline nsec_t boot_now(const struct session *session)
{
    return clock_read(session->env.clock, CLOCK_BOOTTIME);
}

static inline void set_due(struct session *session, enum due due, nsec_t at, nsec_t period)
{
    session->deadlines[due] = (struct deadline){.at = at, .period = period};
}

static inline void clear_due(struct session *session)
{
    for (size_t i = 0; i < N_DUE; i++)
        set_due(session, i, NSEC_MAX, 0);
}

// The machine.
void session_event(struct session *session, enum session_event event);
bool session_event_matters(const struct session *session, enum session_event event);
int session_make_timer(struct session *session, struct err *err);
void session_arm_timer(struct session *session); // after every event from outside

bool session_has_trace(const struct session *session);
int session_start_sources(struct session *session, struct err *err);
// Those whose time is over; sets when the next one is due.
void session_stop_due_sources(struct session *session);

// The steps of making one. The bytes go into the trace; what is unpacked from them is the session's
// own.
int session_copy_config(struct session *session, const uint8_t *bytes, size_t size,
                        struct err *err);
int session_make_scratch(struct session *session, struct err *err);
void session_connect_parts(struct session *session);

void session_update_buffer_stats(struct session *session);
