// SPDX-License-Identifier: Apache-2.0
//
// One tracing session: buffers, data sources, a duration or triggers, and, where it has one, the
// file that it is written into. Any number of them live side by side; time and loop come from
// outside.
//
// Life: session_new (config checked, sources open) -> session_arm or session_start -> recording,
// until its duration or a trigger's delay is over, session_stop(), or a full file -> the rest is
// written in slices -> `ended`.
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
    SESSION_CONFIGURED = 1 << 0, // sources are open, nothing runs
    SESSION_ARMED = 1 << 1,      // START_TRACING waits for a trigger, nothing runs
    SESSION_STARTED = 1 << 2,    // sources write
    SESSION_TRIGGERED = 1 << 3,  // as before, and the trigger that they were waiting for has come
    SESSION_STOPPING = 1 << 4,   // sources have stopped, what is in the buffers goes into the file
    SESSION_DONE = 1 << 5,
};

#define SESSION_RECORDING (SESSION_STARTED | SESSION_TRIGGERED)

// Borrowed, as everything in it; outlives the session.
struct session_env {
    // NULL: nobody sleeps for the session, its owner calls session_run_due().
    struct loop *loop;
    const struct clock_reader *clock;
    const struct log *log;
    const struct source_roots *roots;
    const struct source_class *const *classes; // NULL-terminated, in starting order

    const struct requester *requester; // NULL: root
    const char *title;                 // in front of log lines; NULL: the program has one session

    // Nobody can fire triggers: a trigger_config has no effect, the session is a plain one.
    bool ignore_triggers;
    const char *required_source; // without which the session fails; NULL: any is enough

    // All sources have started. May be NULL, as those below.
    void (*started)(void *userdata, struct session *session);
    // A CLONE_SNAPSHOT trigger's delay is over.
    void (*clone_due)(void *userdata, struct session *session,
                      const struct service_trigger_hit *hit);
    // There is no room for what is to be written. True: now there is more. False: it is tried again
    // after a while (waits_for_room), and nothing is lost meanwhile but what full buffers lose.
    bool (*make_room)(void *userdata, struct session *session, int why);
    void (*waits_for_room)(void *userdata, struct session *session, int why);
    // A journal is written for the first time, or what waited for room.
    void (*writes)(void *userdata, struct session *session);
    // A journal wants to begin anew in a file of its own. When all is there, the file takes the
    // place of the one before (file_replaced), or is given up (file_kept).
    int (*next_file)(void *userdata, struct session *session, struct trace_file **ret);
    void (*file_replaced)(void *userdata, struct session *session);
    void (*file_kept)(void *userdata, struct session *session);
    // Called once, when SESSION_DONE is reached. The session must not be freed inside any of
    // these calls.
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

// The recording stays in the buffers, and is written into the file as it is made
// (session_journal.c). After session_set_file(), for sessions without write_into_file.
int session_keep_journal(struct session *session, struct err *err);

// START_TRACING begins to wait for its triggers, and for trigger_timeout_ms.
int session_arm(struct session *session, struct err *err);

// Starts recording; an armed session then does not wait any more.
int session_start(struct session *session, struct err *err);

// The config as it is held here, of which only the filters by producer name may be changed; after
// that, the data sources that they let in now are opened, and started where the session records.
// What is left out by them then goes on.
Pb__TraceConfig *session_get_filters(struct session *session);
void session_filters_changed(struct session *session);

// One of the config's triggers has come; whoever calls has applied its rules. True: it has started
// the session, will stop it or has ordered a snapshot. A later one only leaves its packet.
bool session_trigger(struct session *session, const struct service_trigger_hit *hit);

// Stops recording; `ended` follows when everything is written. Nothing happens where it has
// stopped already.
void session_stop(struct session *session);

// Ends at once: what is not in the file yet is not written. The file stays readable.
void session_abort(struct session *session);

// Whether it has recorded what is not in its file yet, and the file is a regular one: writing the
// rest does not wait for anybody.
bool session_has_to_write(const struct session *session);
// There is no room for what it has to write, now.
bool session_waits_for_room(const struct session *session);
// What it has recorded and not written, roughly.
uint64_t session_unwritten_bytes(const struct session *session);
// Stops such a session and writes everything before it returns.
void session_finish(struct session *session);

enum session_state session_get_state(const struct session *session);

const Pb__TraceConfig *session_get_config(const struct session *session);
uint64_t session_buffer_bytes(const struct session *session); // memory set aside for packets

// Brings what the sources hold into the buffers. Only while they write.
void session_flush(struct session *session);

// Has sources that show what they have from time to time only, such as heap profiles, show it now.
void session_dump(struct session *session);

// One read-out of the buffers, as session_reader.h has it. Nothing comes out of a session that
// writes into a file, or whose trigger has not come.
void session_read_begin(struct session *session);
bool session_read_peek(struct session *session, struct packet_view *ret);
void session_read_advance(struct session *session);

// The session that ended leaves no trace, and its file is empty: no trigger came, or the snapshots
// that CLONE_SNAPSHOT ordered are all there is.
#define SESSION_E_NO_TRACE 1

// 0, SESSION_E_NO_TRACE, or why recording or writing ended badly; `err` gets the text.
int session_result(const struct session *session, struct err *err);

// What a snapshot would take at least: asked before anything is done for it.
uint64_t session_clone_bytes(const struct session *session);

// Brings the session into the shape for a snapshot: buffers with clear_before_clone emptied,
// sources flushed. Returns the memory that the snapshot will take.
uint64_t session_prepare_clone(struct session *session);

struct session_clone_options {
    bool for_bugreport;
    const struct service_trigger_hit *trigger; // NULL: not by a trigger
    void *userdata;                            // of the copy's callbacks, which are the original's
};

// A copy of what the session holds, as a session that is done, to be read. It has a UUID of its
// own, of which one half is the original's. Buffers with transfer_on_clone move over; the session
// goes on with empty ones. On failure nothing has changed.
int session_clone(struct session *session, const struct session_clone_options *options,
                  struct session **ret, struct err *err);

// What the session's file holds, after it was given what is held back.
struct session_file {
    int fd;              // borrowed; -1: there is none that is still open
    uint64_t start, end; // of this session's bytes
};

void session_flush_file(struct session *session, struct session_file *ret);

// Lets a session that is done, and had no file, write all that it holds into `file`, as below.
int session_write_late(struct session *session, struct trace_file *file, struct err *err);

// Lets a snapshot write all that it holds into `file`, which it takes over, a slice a round of the
// loop; `ended` follows. What `copy_fd` (owned, -1: nothing) holds, as `copy` says, comes first.
int session_write_clone(struct session *session, struct trace_file *file, int copy_fd,
                        const struct session_file *copy, struct err *err);

// The statistics of the buffers as TraceStats has them; free with
// pb__trace_stats__free_unpacked(). NULL: no memory.
Pb__TraceStats *session_get_stats(struct session *session);

struct session_counts {
    nsec_t elapsed;       // since the start, until the stop
    uint64_t events;      // what the sources count in
    uint64_t events_lost; // by the kernel, by a source, refused by a full buffer, between the two
                          // ends of a ring that keeps both
    uint64_t packets_overwritten; // by rings
    uint64_t packets_discarded;   // by full buffers
    uint64_t bytes;               // recorded into the buffers
    uint64_t file_bytes;          // written to the file
    bool file_full;               // max_file_size_bytes ended the session
    const char *problem; // sources that are left out, or a source's own (source.h); borrowed
};

void session_get_counts(const struct session *session, struct session_counts *ret);

// When the session ends if nothing else happens; NSEC_MAX: not by itself.
nsec_t session_end_due(const struct session *session);

// For owners without a loop: when the session wants to be called, NSEC_MAX for never, and the call.
nsec_t session_next_due(const struct session *session);
void session_run_due(struct session *session);
