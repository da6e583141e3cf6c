// SPDX-License-Identifier: Apache-2.0
//
// All sessions of one process, their limits, and their triggers. The service does not know sockets:
// the IPC endpoint, the armed configs and the watch for memory pressure call it in the same way.
// Clock, loop and state directory come from the caller. One thread.
//
// A session belongs to a consumer (an IPC connection, an armed config). The sessions of a consumer
// that disconnects are removed, except detached sessions. Callers name sessions by id, never by
// pointer. An unknown id gives -ESRCH.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "producer/service/config/config.h"
#include "producer/service/session/session.h"
#include "producer/sources/requester.h"
#include "protos/ipc/tracing_service_state.pb-c.h"
#include "protos/trace/trace_stats.pb-c.h"

// Limits; 0: no limit. Each limit has an error text with its name.
struct service_limits {
    // All sessions that are not snapshots; default 15. Snapshots have a second limit of this
    // number.
    uint32_t max_sessions;
    // Sessions of each user other than root; default 5. Snapshots are counted apart here, too.
    uint32_t max_sessions_per_uid;
    // All buffers of all sessions; default: a quarter of the machine's memory.
    uint64_t max_buffer_bytes;
    // Buffers of each user other than root; default 128 MiB. guardrail_overrides raises the limit.
    uint64_t max_buffer_bytes_per_uid;
};

struct service_limits service_default_limits(void);

struct service_env {
    struct session_env session;   // loop, clock, log, roots and classes; callbacks are ignored
    struct service_limits limits; // service_default_limits() unless configured
    struct disk *disk; // borrowed; writes `durable` files; NULL: the service writes them itself
    // Borrowed: the folder for state that survives a restart (the times of triggers). NULL: none.
    const char *state_dir;
    // A number in [0, 1) for skip_probability. NULL: the kernel's random numbers.
    double (*random)(void *userdata);
    void *random_userdata;
};

struct service;

int service_new(const struct service_env *env, struct service **ret, struct err *err);
struct service *service_free(struct service *service); // ends all sessions

// Requests sessions and receives their events (session.h).
struct service_consumer {
    uid_t uid;
    uint64_t payer; // whose limits count (payer.h)
    pid_t pid;
    const char *name;           // for messages: "perfetto[123]", "armed/mm_events.cfg"; borrowed
    struct requester requester; // limits what the recording may show; all zero: no limit
    // May be called inside any service_*() call for the session. The session exists during the
    // call.
    void (*notify)(void *userdata, uint64_t session_id, enum service_event event, int result,
                   const char *text, const struct service_trigger_hit *trigger);
    // The file has no room, because of `why`. Returns true if the file has more room now.
    bool (*make_room)(void *userdata, uint64_t session_id, int why);
    // Makes a second file, which may replace the first. The service owns *ret_fd. See session.h.
    int (*next_file)(void *userdata, uint64_t session_id, int *ret_fd);
    void *userdata;
};

struct service_request {
    const struct config *config; // checked by config_check(); copied
    // The file for write_into_file, or for all data at the end. Owned, also on failure. -1: no
    // file; the consumer reads the buffers (or config.output_path is created).
    int output_fd;
    bool start; // false: deferred_start; service_start() follows
    // Recorded data reach the file soon, even without write_into_file, and the disk at the end. A
    // full disk does not end the session.
    bool durable;
};

// Returns 0 if the user may request one more session now, or -EDQUOT with text. Must be called
// before the config is parsed.
int service_may_ask(struct service *service, const struct service_consumer *consumer,
                    struct err *err);
// Returns 0 if the config is small enough for the user, or a negative errno with text. Must be
// called before the config is checked.
int service_check_size(const Pb__TraceConfig *config, const struct service_consumer *consumer,
                       struct err *err);
// Returns the log for lines about a config of the user and about its recording. Valid as long as
// the service.
const struct log *service_log_of(const struct service *service,
                                 const struct service_consumer *consumer);
// Returns whether a log line about this user's actions may be written now.
bool service_may_log(struct service *service, const struct service_consumer *consumer);

// Makes a session. Triggers, duration and timeouts count from its start. *ret_session_id is set
// before the first event, and therefore even if the start fails. Returns 0 or a negative errno with
// text: -EEXIST if a session with this unique_session_name lives; -EMFILE or -ENOSPC for a limit;
// others as session_new().
int service_enable(struct service *service, const struct service_consumer *consumer,
                   const struct service_request *request, uint64_t *ret_session_id,
                   struct err *err);
int service_start(struct service *service, uint64_t session_id, struct err *err);
// Changes the config of a running session. As in Perfetto, only the filters by producer name may
// change. Data sources that the new filters admit are started now. Any other change returns -EINVAL
// and has no effect.
int service_change_config(struct service *service, uint64_t session_id,
                          const Pb__TraceConfig *config, struct err *err);
int service_flush(struct service *service, uint64_t session_id, struct err *err);
// Calls session_dump() for all sessions.
void service_dump_all(struct service *service);
// Stops the recording. SERVICE_EVENT_ENDED follows, at once or when the file is written.
int service_disable(struct service *service, uint64_t session_id, struct err *err);
// Stops all sessions. Afterwards service_enable() fails with -ESHUTDOWN. Returns the number of
// sessions that are still writing, without sessions that wait for room.
size_t service_disable_all(struct service *service);
// For use after service_disable_all(). Returns the number of ended sessions that their consumers
// have neither read nor freed. A consumer without any action for `patience` does not count.
size_t service_count_unread(const struct service *service, nsec_t patience);
// Removes a session without notice. Its recorded data for a regular file are still written.
int service_destroy(struct service *service, uint64_t session_id);
// Removes a session and writes nothing.
void service_give_up(struct service *service, uint64_t session_id);
// Frees the name of a stopped session that waits for room, so that the name does not block the next
// session.
void service_free_name(struct service *service, uint64_t session_id);
// For an ended session that has no file: writes all its data into `fd` (owned, also on failure).
// SERVICE_EVENT_ENDED follows once more.
int service_write_late(struct service *service, uint64_t session_id, int fd, struct err *err);
// Returns the approximate number of recorded bytes that are not written.
uint64_t service_unwritten_bytes(const struct service *service, uint64_t session_id);
// Removes all sessions of this consumer (compared by pointer), except detached sessions.
void service_consumer_gone(struct service *service, const struct service_consumer *consumer);

// Detaches a session. The session continues under `key` until the same user attaches it, or until
// it ends.
int service_detach(struct service *service, uint64_t session_id, const char *key, struct err *err);
int service_attach(struct service *service, const struct service_consumer *consumer,
                   const char *key, uint64_t *ret_session_id, struct err *err);

// service_session_config() returns the config of a session (borrowed), or NULL for an unknown
// session. service_session_state() returns its state, or SESSION_DONE for an unknown session.
const Pb__TraceConfig *service_session_config(const struct service *service, uint64_t session_id);
enum session_state service_session_state(const struct service *service, uint64_t session_id);
// Returns whether each data source has started or is left out. An unknown session has none.
bool service_all_started(const struct service *service, uint64_t session_id);
// Returns whether a data source of service_session_config() was started.
bool service_source_has_started(const struct service *service, uint64_t session_id,
                                const Pb__DataSourceConfig *config);

// One read-out of the buffers, packet by packet (session_reader.h). The session drops packets that
// were read.
int service_read_begin(struct service *service, uint64_t session_id, struct err *err);
bool service_read_peek(struct service *service, uint64_t session_id, struct packet_view *ret);
void service_read_advance(struct service *service, uint64_t session_id);

struct service_clone_request {
    // The session: by id, by unique_session_name, or (if both are empty) by the highest
    // bugreport_score above 0.
    uint64_t session_id;
    const char *unique_session_name;
    bool for_bugreport; // writes the packet and the event of a bugreport
    // Receives the bytes that a session with write_into_file has written so far, then the rest. The
    // snapshot of a session with write_into_file requires this file. With `into_file`, the data of
    // any other session go here, too. The service takes over a file that it uses, and sets
    // *output_fd to -1. NULL: none.
    int *output_fd;
    bool into_file;
    const struct service_trigger_hit *trigger; // NULL: no trigger caused the clone
};

struct service_clone_result {
    uint64_t session_id; // a finished session of `consumer` with a copy of the buffers; the caller
                         // reads and destroys this session
    int64_t uuid_msb, uuid_lsb;
    // The data go into output_fd slice by slice, and must not be read. SERVICE_EVENT_ENDED follows
    // at the end.
    bool into_file;
};

// Copies the present content of a session's buffers into a new, finished session. The caller
// flushes the session before. The original continues; transfer_on_clone and clear_before_clone of
// the config apply. Returns 0 or a negative errno: -ENOENT if the session does not exist.
int service_clone(struct service *service, const struct service_consumer *consumer,
                  const struct service_clone_request *request, struct service_clone_result *ret,
                  struct err *err);

// The effect of a trigger. `sessions` counts live sessions with a trigger of this name for this
// producer. `acted` counts sessions that the trigger started or stopped, or that gave a snapshot.
// `held_back` counts sessions where max_per_24_h, skip_probability or the user's limit stopped the
// trigger, or where its author has no time left to match the producer's name. The other sessions
// had been triggered before. If the trigger is over a limit, the name is not matched, and the
// session counts.
struct service_trigger_result {
    uint32_t sessions, acted, held_back;
};

// Returns whether requests of this user have no limits: true for root and the user of this process.
bool service_trusts(uid_t uid);

// Returns whether all triggers of the session came from users who are not trusted.
bool service_session_is_strangers(const struct service *service, uint64_t session_id);

// Fires a trigger. The number of triggers per minute is limited for each user who is not trusted,
// and for all of them together. Further triggers are held back in all sessions. The limit of
// `payer` (payer.h) counts. A config's max_per_24_h counts trusted users separately, so that other
// users cannot use up the triggers of trusted users.
struct service_trigger_result service_activate_trigger(struct service *service, const char *name,
                                                       const char *producer_name,
                                                       uid_t producer_uid, uint64_t payer);

// Each function returns a new message (owned by the caller, freed by pb__..._free_unpacked()), or
// NULL if memory ran out. The state has the sessions of all users. For users other than root, the
// caller must leave out sessions with another consumer_uid.
Pb__TraceStats *service_get_stats(struct service *service, uint64_t session_id);
Pb__TracingServiceState__SessionDetails *service_get_details(struct service *service,
                                                             uint64_t session_id);
Pb__TracingServiceState *service_query_state(struct service *service, bool sessions_only);

// A folder with finished traces, for the clients of the service. Borrowed.
struct service_trace_folder {
    const char *path;        // in the file system of this process
    const char *stem;        // files are named STEM-TIME.pftrace; NULL: all *.pftrace
    int32_t bugreport_score; // of the config that makes the traces
};

// `list` fills in at most `n` folders and returns their number. The service calls `list` at each
// query of the state.
void service_set_trace_folders(struct service *service,
                               size_t (*list)(void *userdata, struct service_trace_folder *ret,
                                              size_t n),
                               void *userdata);

// For owners without a loop (env.session.loop is NULL): service_next_due() returns the time of the
// next service_run_due(), by CLOCK_BOOTTIME (NSEC_MAX: never).
nsec_t service_next_due(const struct service *service);
void service_run_due(struct service *service);
