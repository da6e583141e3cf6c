// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the service: service.c (life and end of sessions), service_limits.c
// (limits per user and in all), service_shares.c (time of the loop), service_triggers.c,
// service_clone.c, service_change.c and service_state.c (the state for clients). Besides these
// files, only tests include this header.
#pragma once

#include <inttypes.h>
#include <string.h>

#include "common/str.h"
#include "common/vec.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/service/service.h"
#include "producer/service/session/source_set.h"
#include "producer/service/triggers/trigger_history.h"
#include "producer/service/triggers/trigger_rules.h"
#include "producer/trace/disk.h"

#define QUOTED_MAX 68
#define OWED_MAX   16

// The time of the loop for the sessions of one payer.
struct payer_share {
    struct source_shares time;
    struct loop_share matching; // of producers' names with the expressions of triggers
    uint64_t payer;
    size_t n_members;
};

VEC_DEFINE(payer_share_vec, struct payer_share *);

struct member {
    struct service *service; // borrowed
    uint64_t id;
    struct session *session;                 // owned
    const struct service_consumer *consumer; // borrowed; NULL while detached
    char *consumer_name;                     // owned
    char *detach_key;                        // owned; NULL: not detached
    const char *created; // borrowed from the config: the output_path that was created; NULL: none
    uid_t uid;
    uint64_t payer;
    struct requester requester;
    struct payer_share *share; // borrowed; NULL: no limit
    bool is_clone;
    bool is_nameless;      // unique_session_name is free again
    bool is_leaving;       // destroyed, but data are still written to the file
    uint32_t n_triggers;   // number of received triggers
    nsec_t owed[OWED_MAX]; // times of the last triggers of trusted users that ordered snapshots
    size_t n_owed;         // all together
    bool heard_trusted;    // a trigger came from a trusted user
    char *last_trigger;    // owned; NULL: none
    nsec_t last_trigger_at;
    bool ended_told; // the consumer knows that the session has ended
    bool announces;  // events reach the consumer: service_enable() can no longer fail
    nsec_t started_realtime;
    nsec_t moved_at; // last action of the consumer on the session while the service ends
};

VEC_DEFINE(member_vec, struct member *);

struct service {
    struct service_env env;
    struct service_limits limits;
    struct member_vec members;     // in the order of their ids
    struct member_vec graveyard;   // removed; freed when no call uses them
    struct payer_share_vec shares; // owned
    struct loop_timer *reaper;     // owned; NULL without a loop
    uint64_t last_id;
    bool ending;                  // makes no more sessions
    struct budget log_budget;     // log lines of users who are not trusted
    struct budget session_budget; // requests for sessions of users who are not trusted
    struct budget trigger_budget; // triggers of users who are not trusted
    struct budget strangers_log_budget;
    struct log strangers_log; // of the sessions of users who are not trusted
    uint64_t n_unlogged;      // lines that the budget has refused since the last line
    nsec_t refusal_told;      // boot time of the last log line about a refused trigger; 0:
                              // never
    struct trigger_history history;
    struct disk_job history_job; // writes history_text
    struct strbuf history_text;
    bool history_changed; // the history changed since history_text was made
    int history_result;
    size_t (*list_folders)(void *userdata, struct service_trace_folder *ret, size_t n);
    void *list_folders_userdata;
};

static inline nsec_t boot_now(const struct service *service)
{
    return clock_read(service->env.session.clock, CLOCK_BOOTTIME);
}

// Returns the member, or NULL if the session does not exist or was destroyed.
static inline struct member *find(const struct service *service, uint64_t id)
{
    for (size_t i = 0; i < service->members.n; i++)
        if (service->members.items[i]->id == id)
            return service->members.items[i]->is_leaving ? NULL : service->members.items[i];
    return NULL;
}

// Returns the member after `id`, for walks during which sessions come and go.
static inline struct member *next_member(const struct service *service, uint64_t id)
{
    for (size_t i = 0; i < service->members.n; i++)
        if (service->members.items[i]->id > id)
            return service->members.items[i];
    return NULL;
}

static inline int no_session(struct err *err, uint64_t id)
{
    return err_set(err, -ESRCH, "session %" PRIu64 " does not exist", id);
}

static inline const char *quoted(const char *text, char ret[QUOTED_MAX])
{
    return str_printable(ret, QUOTED_MAX, text, strlen(text));
}

static inline const char *session_name(const struct member *member)
{
    const char *name = session_get_config(member->session)->unique_session_name;
    return name ? name : "";
}

// Returns the session with this unique_session_name, or NULL. If a trusted user and another user
// have a session of this name, the one of the user's own kind is found.
static inline struct member *find_named(const struct service *service, const char *name, uid_t uid)
{
    struct member *found = NULL;
    for (size_t i = 0; i < service->members.n; i++) {
        struct member *member = service->members.items[i];
        if (member->is_clone || member->is_leaving || member->is_nameless ||
            !str_eq(session_name(member), name))
            continue;
        if (service_trusts(member->uid) == service_trusts(uid))
            return member;
        found = member;
    }
    return found;
}

// Returns whether the session still records or will record.
static inline bool is_live(const struct member *member)
{
    return !member->is_clone && !member->is_nameless &&
           session_get_state(member->session) != SESSION_DONE;
}

// service.c

// Makes an empty member of `consumer`, not yet in the list.
int member_new(struct service *service, const struct service_consumer *consumer,
               struct member **ret, struct err *err);
struct member *member_free(struct member *member);
// Gives the member an id and adds it to the service, which then owns the member.
int member_insert(struct service *service, struct member *member, struct err *err);

// service_limits.c

// Checks all limits, names and semaphores that apply to a new session.
int service_check_request(const struct service *service, const Pb__TraceConfig *config,
                          const struct service_consumer *consumer, struct err *err);
// Returns -EBUSY, with a reason, if the payer of a snapshot has used up its shares. The limit for a
// snapshot that a trusted user has ordered is higher.
int service_check_clone_time(const struct service *service, const struct member *clone,
                             bool is_owed, struct err *err);
// Checks the limits for the snapshot `clone` of `config` with `bytes` of buffers.
int service_check_clone(const struct service *service, const Pb__TraceConfig *config,
                        const struct member *clone, uint64_t bytes, struct err *err);

// service_shares.c

// Returns the share of the payer, which may be new, or NULL if memory ran out.
struct payer_share *service_share_of(struct service *service, uint64_t payer);
// Returns the time until the payer has time in both shares again.
nsec_t service_share_wait(const struct service *service, uint64_t payer);
void service_free_shares(struct service *service);

// service_triggers.c

void service_init_limits(struct service *service);
void service_init_triggers(struct service *service);
void service_save_history(struct service *service);
void service_free_history(struct service *service);
// Returns whether triggers may still affect the session.
bool service_hears_triggers(const struct member *member);
// Fires the config's activate_triggers at the start.
void service_fire_own_triggers(struct service *service, uint64_t session_id);
