// SPDX-License-Identifier: Apache-2.0
//
// All sessions of one process, what limits them, and what triggers them. Knows nothing of sockets:
// the IPC endpoint, the armed directory and the kernel's memory pressure call it as equals; time,
// loop and state directory come from outside. One thread.
//
// A session belongs to a consumer (an IPC connection, the armed directory). A consumer that goes
// away takes its sessions along, except those that it detached. Sessions are named by id, never by
// pointer: an id that is gone is -ESRCH.
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

// Each has an error text that names it. 0: no limit.
struct service_limits {
    uint32_t max_sessions;         // in all; default 15, and as many snapshots
    uint32_t max_sessions_per_uid; // of one user other than root; default 5
    uint64_t
        max_buffer_bytes; // all buffers of all sessions; default a quarter of the machine's memory
    uint64_t max_buffer_bytes_per_uid; // of one user other than root; default 128 MiB, lifted by
                                       // guardrail_overrides
};

struct service_limits service_default_limits(void);

struct service_env {
    struct session_env session;   // loop, clock, log, roots, classes; its callbacks are not used
    struct service_limits limits; // service_default_limits() unless configured
    struct disk *disk;            // borrowed; what writes `durable` files. NULL: the service itself
    // Where what must survive a restart is kept (when which trigger fired); NULL: nowhere.
    // Borrowed.
    const char *state_dir;
    // A number in [0, 1) for skip_probability; NULL: a good random one.
    double (*random)(void *userdata);
    void *random_userdata;
};

struct service;

int service_new(const struct service_env *env, struct service **ret, struct err *err);
struct service *service_free(struct service *service); // ends all sessions

enum service_event {
    SERVICE_EVENT_STARTED, // all data sources have started; by `trigger`, or NULL
    SERVICE_EVENT_ENDED, // no more data will come; with a file: it is complete. `result` and `err`
                         // say how
    SERVICE_EVENT_CLONE_TRIGGERED, // a CLONE_SNAPSHOT trigger's delay is over: clone now (`trigger`
                                   // says which)
    // For durable sessions:
    SERVICE_EVENT_WRITING, // the first of it goes into the file, or there is room for it again
    SERVICE_EVENT_NO_ROOM, // `result` says why; it is tried again after a while
    SERVICE_EVENT_FILE_REPLACED, // all is in the file that next_file() made
    SERVICE_EVENT_FILE_KEPT,     // the file that next_file() made is given up
};

// Who asks for sessions and hears of them.
struct service_consumer {
    uid_t uid;
    pid_t pid;
    const char *name;           // for people: "perfetto[123]", "armed/mm_events.cfg"; borrowed
    struct requester requester; // what the recording may show; all zero: everything
    // May be called from inside any service_*() call that is about the session. The session is
    // still there.
    void (*notify)(void *userdata, uint64_t session_id, enum service_event event, int result,
                   const char *text, const struct service_trigger_hit *trigger);
    // For durable sessions. NULL: none.
    // There is no room for the file (`why`): true if there is more now.
    bool (*make_room)(void *userdata, uint64_t session_id, int why);
    // A second file, which may take the place of the first; the service owns *ret_fd. session.h.
    int (*next_file)(void *userdata, uint64_t session_id, int *ret_fd);
    void *userdata;
};

struct service_request {
    const struct config *config; // checked by config_check(); copied
    // Where write_into_file writes, or where everything goes at the end; owned, also on failure.
    // -1: none, the consumer reads the buffers (or config.output_path is created).
    int output_fd;
    bool start; // false: deferred_start, service_start() comes later
    // What is recorded is in the file soon after, also without write_into_file, and on the disk in
    // the end; that there is no room for it is not the end.
    bool durable;
};

// Whether the user may ask for one more session now: before the config is looked at. -EDQUOT with
// text.
int service_may_ask(struct service *service, uid_t uid, struct err *err);
// Whether a line about what this user does may go into the log now.
bool service_may_log(struct service *service, uid_t uid);

// Makes a session. Triggers, duration and timeouts count from its start. -EEXIST: a session with
// this unique_session_name lives; -EMFILE, -ENOSPC: a limit; others as session_new(). `err` says
// which and what to do.
int service_enable(struct service *service, const struct service_consumer *consumer,
                   const struct service_request *request, uint64_t *ret_session_id,
                   struct err *err);
int service_start(struct service *service, uint64_t session_id, struct err *err);
// Only what Perfetto lets a consumer change in a running session: the filters by producer name.
// Data sources that they let in now are started. Other changes are -EINVAL, and nothing happens.
int service_change_config(struct service *service, uint64_t session_id,
                          const Pb__TraceConfig *config, struct err *err);
int service_flush(struct service *service, uint64_t session_id, struct err *err);
// session_dump() of all sessions.
void service_dump_all(struct service *service);
// Stops recording. SERVICE_EVENT_ENDED follows, at once or when the file is written.
int service_disable(struct service *service, uint64_t session_id, struct err *err);
// The same for all sessions, from now on: service_enable() fails with -ESHUTDOWN. How many are
// still writing,
// without those that wait for room.
size_t service_disable_all(struct service *service);
// After service_disable_all(): how many sessions have ended and wait for their consumers to read
// them or to let them go. A consumer that does nothing for `patience` is not waited for any more.
size_t service_count_unread(const struct service *service, nsec_t patience);
// The session is gone after this, without notice. What it has recorded for a regular file is still
// written there.
int service_destroy(struct service *service, uint64_t session_id);
// The same without anything being written.
void service_give_up(struct service *service, uint64_t session_id);
// A session that has stopped and waits for room does not stand in the way of the next one: its name
// is free.
void service_free_name(struct service *service, uint64_t session_id);
// For a session that has ended without a file: everything goes into `fd` (owned, also on failure).
// SERVICE_EVENT_ENDED follows once more.
int service_write_late(struct service *service, uint64_t session_id, int fd, struct err *err);
// What a session has recorded and not written, roughly.
uint64_t service_unwritten_bytes(const struct service *service, uint64_t session_id);
// All sessions of this consumer (compared by pointer) that are not detached.
void service_consumer_gone(struct service *service, const struct service_consumer *consumer);

// A detached session lives on under `key` until one of the same user attaches it, or it ends.
int service_detach(struct service *service, uint64_t session_id, const char *key, struct err *err);
int service_attach(struct service *service, const struct service_consumer *consumer,
                   const char *key, uint64_t *ret_session_id, struct err *err);

// What the session was made from (borrowed, NULL: no such session), and how far it is
// (SESSION_DONE: no such session).
const Pb__TraceConfig *service_session_config(const struct service *service, uint64_t session_id);
enum session_state service_session_state(const struct service *service, uint64_t session_id);

// One read-out of the buffers, packet by packet (session_reader.h); read packets are gone from the
// session.
int service_read_begin(struct service *service, uint64_t session_id, struct err *err);
bool service_read_peek(struct service *service, uint64_t session_id, struct packet_view *ret);
void service_read_advance(struct service *service, uint64_t session_id);

struct service_clone_request {
    // Which session: by id, or by unique_session_name, or (both empty) the one with the highest
    // bugreport_score > 0.
    uint64_t session_id;
    const char *unique_session_name;
    bool for_bugreport; // the packet and event for it are written
    // What a session with write_into_file has written so far goes in here, and the rest behind it:
    // such a session cannot be cloned without. With `into_file`, that of any other session, too.
    // Taken over (and -1 afterwards) if it is used. NULL: none.
    int *output_fd;
    bool into_file;
    const struct service_trigger_hit *trigger; // NULL: not by a trigger
};

struct service_clone_result {
    uint64_t session_id; // a finished session of `consumer` with a copy of the buffers, to be read
                         // and destroyed
    int64_t uuid_msb, uuid_lsb;
    // All goes into output_fd, a little at a time, and nothing is to be read. SERVICE_EVENT_ENDED
    // comes when it is there.
    bool into_file;
};

// Copies what is in the buffers of a session at this moment (after a flush) into a new, finished
// session. The original goes on (transfer_on_clone and clear_before_clone as the config says).
// -ENOENT: no such session.
int service_clone(struct service *service, const struct service_consumer *consumer,
                  const struct service_clone_request *request, struct service_clone_result *ret,
                  struct err *err);

// What became of a trigger. `sessions` are those that live and have one of this name for this
// producer. The others are parts of them: those that it started, stopped or snapshot, and those
// whose max_per_24_h or skip_probability held it back. The rest had been triggered before.
struct service_trigger_result {
    uint32_t sessions, acted, held_back;
};

// Whether what this user wants has no limits: root, and the user of this process.
bool service_trusts(uid_t uid);

// Whether all triggers that the session heard came from users who are not trusted.
bool service_session_is_strangers(const struct service *service, uint64_t session_id);

// A trigger has happened. Users who are not trusted have so many triggers a minute, each and
// together; what is beyond is held back in all sessions. A config's max_per_24_h holds for trusted
// users alone, and once more for all together: nobody else uses it up for them.
struct service_trigger_result service_activate_trigger(struct service *service, const char *name,
                                                       const char *producer_name,
                                                       uid_t producer_uid);

// New messages; free with pb__..._free_unpacked(). NULL: no memory. The state has the sessions of
// all users: who shows it to others than root leaves out those whose consumer_uid is not theirs.
Pb__TraceStats *service_get_stats(struct service *service, uint64_t session_id);
Pb__TracingServiceState__SessionDetails *service_get_details(struct service *service,
                                                             uint64_t session_id);
Pb__TracingServiceState *service_query_state(struct service *service, bool sessions_only);

// A folder with finished traces, of which the service tells its clients. Borrowed.
struct service_trace_folder {
    const char *path;        // as it is from this process
    const char *stem;        // they are called STEM-TIME.pftrace; NULL: all *.pftrace in it
    int32_t bugreport_score; // of the config that makes them
};

// `list` fills in up to `n` folders and returns how many; it is asked at each query of the state.
void service_set_trace_folders(struct service *service,
                               size_t (*list)(void *userdata, struct service_trace_folder *ret,
                                              size_t n),
                               void *userdata);

// What `mmtrace status` shows beyond service_query_state(), per session.
struct service_session_info {
    uint64_t id;
    const char *name, *state, *consumer; // borrowed until the next call
    uid_t uid;
    int32_t bugreport_score;
    const char *bugreport_filename; // NULL: none
    bool detached;
    struct session_counts counts;
    uint64_t buffer_bytes;
    uint32_t n_triggers;      // received
    const char *last_trigger; // NULL: none
    nsec_t last_trigger_at;   // boot time
    nsec_t next_due;          // when it ends or times out; NSEC_MAX: never
};
// Fills at most `n` of *ret, returns how many sessions there are.
size_t service_list(struct service *service, struct service_session_info *ret, size_t n);

// For owners without a loop (env.session.loop is NULL): when the service wants to be called,
// NSEC_MAX for never, and the call.
nsec_t service_next_due(const struct service *service);
void service_run_due(struct service *service);
