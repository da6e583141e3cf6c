// SPDX-License-Identifier: Apache-2.0
//
// Shared by session.c (life), session_machine.c (events and their times), session_clone.c
// (snapshots) and session_journal.c. No other file includes this header.
#pragma once

#include "producer/service/service_packets.h"
#include "producer/service/session/session.h"
#include "producer/service/session/session_buffers.h"
#include "producer/service/session/session_journal.h"
#include "producer/service/session/session_output.h"
#include "producer/service/session/session_reader.h"
#include "producer/service/session/source_set.h"

#define PENDING_CLONES_MAX 16

// Period of the journal, and its write-outs per statistics packet.
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
    EVENT_FILE_ENDED, // the file is full, or a write has failed
};

// Deadlines, in the order of events that are due at the same time.
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
    nsec_t awake;  // earliest time by CLOCK_MONOTONIC, which stands still in suspend; 0: none
};

struct pending_clone {
    struct service_trigger_hit hit; // its strings are owned
    struct deadline due;
};

struct session_journal {
    struct service_packets packets; // the twin of the session's packets
    bool begun;
    unsigned n_tails;              // completed write-outs
    uint64_t passed_over;          // packets that the rings had dropped when the file began
    bool buffer_replaced;          // since the file began
    nsec_t second_due;             // no second file before this time
    struct trace_file *previous;   // owned: complete until the present file is complete; NULL: none
    struct packet_cursor *cursors; // owned: positions of `previous`
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
    bool overflow_told;                    // the log says already that `clones` is full
    const struct service_trigger_hit *hit; // borrowed, inside session_trigger()
    bool triggered;                        // the awaited trigger has come

    struct session_buffers buffers;
    struct source_set sources;
    struct service_packets packets;
    struct session_reader reader;
    struct packet_buffer_stats *buffer_stats; // owned; scratch space of put_tail()
    uint64_t *writer_losses;                  // owned; scratch space of put_tail()
    struct session_output output;
    struct session_journal *journal; // owned; NULL: none
    nsec_t synced_at;                // boot time
    uint64_t bytes_taken;            // written part of the recorded data, at the last complete
                                     // write-out
    nsec_t room_delay;               // until the next attempt to write; 0: no lack of room
    bool is_clone; // buffer_stats then belong to the original, at the time of the clone

    nsec_t started_at, stopped_at; // boot time
    bool all_started_told;
    uint64_t flushes, failed_flushes;
    bool final_flush_done;
    bool file_full;
    int result;
    struct err err; // text for `result`
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

static inline void session_tell(struct session *session, enum service_event event, int result,
                                const struct service_trigger_hit *trigger)
{
    if (session->env.told)
        session->env.told(session->env.userdata, session, event, result, trigger);
}

// The state machine.
void session_event(struct session *session, enum session_event event);
bool session_event_matters(const struct session *session, enum session_event event);
int session_make_timer(struct session *session, struct err *err);
void session_arm_timer(struct session *session); // called after every event from outside

bool session_has_trace(const struct session *session);
int session_start_sources(struct session *session, struct err *err);
// Tells once that all data sources have begun, if that is so.
void session_tell_all_started(void *session);
// Stops sources whose time is over, and sets the next time.
void session_stop_due_sources(struct session *session);

// The steps of session_new(). The bytes go into the trace; the session owns the message that is
// unpacked from the bytes.
int session_copy_config(struct session *session, const uint8_t *bytes, size_t size,
                        struct err *err);
int session_make_scratch(struct session *session, struct err *err);
int session_connect_parts(struct session *session, struct err *err);

void session_update_buffer_stats(struct session *session);
