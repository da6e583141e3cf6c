// SPDX-License-Identifier: Apache-2.0
//
// One tracing session: its buffers, data sources, duration or triggers, and its file, if any. Any
// number of sessions can exist at a time. Clock and loop come from the caller.
//
// The life of a session: session_new (config checked, sources open) -> session_arm or session_start
// -> recording, until the duration or a trigger's delay is over, session_stop(), or a full file ->
// the rest is written in slices -> `ended`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "common/nsec.h"
#include "producer/ground/loop.h"
#include "producer/service/config/config.h"
#include "producer/service/service_packets.h"
#include "producer/service/session/clock_set.h"
#include "producer/service/session/session_settings.h"
#include "producer/sources/source.h"
#include "producer/trace/packet_buffer.h"
#include "protos/trace/trace_stats.pb-c.h"

struct session;
struct trace_file;

enum session_state {
    SESSION_CONFIGURED = 1 << 0, // sources are open; nothing runs
    SESSION_ARMED = 1 << 1,      // START_TRACING waits for a trigger; nothing runs
    SESSION_STARTED = 1 << 2,    // sources write
    SESSION_TRIGGERED = 1 << 3,  // sources write, and the awaited trigger has come
    SESSION_STOPPING = 1 << 4,   // sources have stopped; the buffers' content goes into the file
    SESSION_DONE = 1 << 5,
};

#define SESSION_RECORDING (SESSION_STARTED | SESSION_TRIGGERED)

enum service_event {
    SERVICE_EVENT_STARTED, // the first data sources have started; `trigger` is the cause, or NULL
    SERVICE_EVENT_ALL_STARTED, // each data source has started or is left out; once
    SERVICE_EVENT_ENDED, // no more data will come; the file is complete. `result` and `err` tell
                         // how the session ended
    SERVICE_EVENT_CLONE_TRIGGERED, // the delay of a CLONE_SNAPSHOT trigger (`trigger`) is over:
                                   // clone now
    // For durable sessions:
    SERVICE_EVENT_WRITING, // the first data go into the file, or the file has room again
    SERVICE_EVENT_NO_ROOM, // because of `result`; the session tries again after a while, and loses
                           // data only if its buffers are full
    SERVICE_EVENT_FILE_REPLACED, // the file of next_file() has all data
    SERVICE_EVENT_FILE_KEPT,     // the file of next_file() is dropped
};

// All members are borrowed and must outlive the session.
struct session_env {
    // NULL: the owner calls session_run_due() itself.
    struct loop *loop;
    const struct clock_reader *clock;
    const struct log *log;
    const struct source_roots *roots;
    const struct source_class *const *classes; // NULL-terminated, in starting order

    const struct requester *requester; // NULL: root
    struct source_shares *shares;      // of the requester; NULL: no limit
    const char *title;                 // prefix of log lines; NULL: the program has one session

    // Triggers cannot be fired: trigger_config has no effect, and the session is a plain session.
    bool ignore_triggers;
    const char *required_source; // the session fails without this source; NULL: any source is
                                 // enough

    // Receives all events except the end. This and the following callbacks may be NULL.
    void (*told)(void *userdata, struct session *session, enum service_event event, int result,
                 const struct service_trigger_hit *trigger);
    // The file has no room. Returns true if it has room now.
    bool (*make_room)(void *userdata, struct session *session, int why);
    // Makes a second file, into which the journal is written again. When the second file has all
    // data, it replaces the first (SERVICE_EVENT_FILE_REPLACED), or it is dropped (..._KEPT).
    int (*next_file)(void *userdata, struct session *session, struct trace_file **ret);
    // Called once, when SESSION_DONE is reached. The session must not be freed inside a callback.
    void (*ended)(void *userdata, struct session *session);
    void *userdata;
};

// Makes a session. `config` is copied. Returns 0 or a negative errno with text. On failure nothing
// is left behind.
int session_new(const struct session_env *env, const struct config *config, struct session **ret,
                struct err *err);
// Frees the session and stops running sources. Takes NULL. Returns NULL.
struct session *session_free(struct session *session);

const struct session_settings *session_get_settings(const struct session *session);

// Gives the session its file, before session_start(). The session owns the file from here on.
// Without a file, packets stay in the buffers.
void session_set_file(struct session *session, struct trace_file *file);

// Keeps the recording in the buffers, and also writes it into the file during the recording
// (session_journal.c). Must be called after session_set_file(), for sessions without
// write_into_file.
int session_keep_journal(struct session *session, struct err *err);

// START_TRACING: waits for the triggers and for trigger_timeout_ms from here on.
int session_arm(struct session *session, struct err *err);

// Starts recording. An armed session no longer waits.
int session_start(struct session *session, struct err *err);

// Returns the session's own config, in which only the filters by producer name may be changed.
// session_filters_changed() then opens the data sources that the new filters admit, and starts them
// if the session records. Sources that the new filters exclude continue.
Pb__TraceConfig *session_get_filters(struct session *session);
void session_filters_changed(struct session *session);

// Delivers a trigger of the config; the caller has applied its rules. Returns true if the trigger
// started the session, will stop it, or ordered a snapshot. A later trigger only leaves its packet.
bool session_trigger(struct session *session, const struct service_trigger_hit *hit);

// Stops the recording. `ended` follows when all data are written. No effect if the session has
// stopped.
void session_stop(struct session *session);

// Ends the session at once. Data that are not in the file yet are lost. The file stays readable.
void session_abort(struct session *session);

// Returns whether the session has unwritten data for a regular file, so that writing does not wait
// for a reader.
bool session_has_to_write(const struct session *session);
// Returns whether the file has no room for the data.
bool session_waits_for_room(const struct session *session);
// Returns the approximate number of recorded bytes that are not written.
uint64_t session_unwritten_bytes(const struct session *session);
// Stops a session for which session_has_to_write() is true, and writes all data before it returns.
void session_finish(struct session *session);

enum session_state session_get_state(const struct session *session);

const Pb__TraceConfig *session_get_config(const struct session *session);
// Returns whether SERVICE_EVENT_ALL_STARTED was told. A clone has started.
bool session_all_started(const struct session *session);
// Returns whether the source of `config`, a part of session_get_config(), was started. A source
// that was left out is never started.
bool session_source_has_started(const struct session *session, const Pb__DataSourceConfig *config);
uint64_t session_buffer_bytes(const struct session *session); // bytes of memory for packets

// Brings the sources' pending data into the buffers. Only while the sources write. Returns 0, or
// -EBUSY if the requester has used up the time of its shares.
int session_flush(struct session *session);

// Orders sources with rare dumps, for example heap profiles, to dump now.
void session_dump(struct session *session);

// One read-out of the buffers (session_reader.h). A session has no packets if it has a file, or if
// its trigger has not come.
void session_read_begin(struct session *session);
bool session_read_peek(struct session *session, struct packet_view *ret);
void session_read_advance(struct session *session);

// The session ended without a trace, and its file is empty: no trigger came, or snapshots of
// CLONE_SNAPSHOT are the only result.
#define SESSION_E_NO_TRACE 1

// Returns 0, SESSION_E_NO_TRACE, or the negative errno of recording or writing; `err` gets the
// text.
int session_result(const struct session *session, struct err *err);

// Returns the minimum memory of a snapshot in bytes, without any preparation.
uint64_t session_clone_bytes(const struct session *session);

// Prepares the session for a snapshot: empties buffers with clear_before_clone and flushes the
// sources. Returns the memory of the snapshot in bytes.
uint64_t session_prepare_clone(struct session *session);

struct session_clone_options {
    bool for_bugreport;
    const struct service_trigger_hit *trigger; // NULL: no trigger caused the snapshot
    void *userdata; // of the copy's callbacks, which are the callbacks of the original
};

// Copies the session's data into a new session, which is done and can be read. Half of the copy's
// UUID is the original's. Buffers with transfer_on_clone move to the copy, and the session
// continues with empty buffers. On failure nothing changes.
int session_clone(struct session *session, const struct session_clone_options *options,
                  struct session **ret, struct err *err);

// The content of a session's file, after held-back data were written.
struct session_file {
    int fd;              // borrowed; -1: no open file
    uint64_t start, end; // range of this session's bytes
};

void session_flush_file(struct session *session, struct session_file *ret);

// Before and after a fork whose child calls session_save_copy(). The sources write what they have,
// and the child gets the buffers.
void session_begin_copy(struct session *session);
void session_end_copy(struct session *session);

// Writes what was recorded so far into `file`, in a forked copy of the process. The session has no
// file, and is of no use afterwards: the process ends without freeing the session. Takes over
// `file`. Returns 0 or a negative errno with text.
int session_save_copy(struct session *session, struct trace_file *file, struct err *err);

// Writes all data of an ended session without a file into `file`, as session_write_clone() does.
int session_write_late(struct session *session, struct trace_file *file, struct err *err);

// Writes all data of a snapshot into `file`, one slice per round of the loop. Takes over `file`.
// `ended` follows. The range `copy` of `copy_fd` (owned; -1: none) precedes the packets.
int session_write_clone(struct session *session, struct trace_file *file, int copy_fd,
                        const struct session_file *copy, struct err *err);

// Returns the statistics of the buffers (owned by the caller, freed by
// pb__trace_stats__free_unpacked()), or NULL if memory ran out.
Pb__TraceStats *session_get_stats(struct session *session);

struct session_counts {
    nsec_t elapsed;           // from the start until the stop
    uint64_t events;          // in the units of the sources
    uint64_t events_lost;     // lost by the kernel or a source, refused by a full buffer, or lost
                              // between the two ends of a ring that keeps both
    uint64_t readings_missed; // left out, because the next reading was due already
    uint64_t packets_overwritten; // by rings
    uint64_t packets_discarded;   // by full buffers
    uint64_t bytes;               // recorded into the buffers
    uint64_t file_bytes;          // written to the file
    bool file_full;               // max_file_size_bytes ended the session
    const char *problem;          // left-out sources, or a failure of a source (source.h); borrowed
};

void session_get_counts(const struct session *session, struct session_counts *ret);

// Returns the time when the duration, the timeout or a stop delay ends the session, by
// CLOCK_BOOTTIME; NSEC_MAX: never.
nsec_t session_end_due(const struct session *session);

// For owners without a loop: session_next_due() returns the time of the next session_run_due(), by
// CLOCK_BOOTTIME (NSEC_MAX: never).
nsec_t session_next_due(const struct session *session);
void session_run_due(struct session *session);
