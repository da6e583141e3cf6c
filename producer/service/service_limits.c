// SPDX-License-Identifier: Apache-2.0
//
// The error for each limit has the limit's name and the numbers. Snapshots are counted separately
// from sessions, so that evidence can be saved even at the maximum number of sessions. The memory
// of snapshots counts until they are destroyed.
//
// Sessions of trusted users and of all others are counted apart, and a trusted user meets no name
// and no semaphore of others: nobody else can keep a session of root's from its start.
#include <errno.h>

#include "producer/service/config/config_check.h"
#include "producer/service/service_private.h"

#define MAX_SESSIONS             15
#define MAX_SESSIONS_PER_UID     5
#define MAX_SOURCES_OF_MEMBER    32  // each takes time of the loop when the session starts and ends
#define MAX_ELEMENTS_OF_MEMBER   512 // of all lists in its config
#define MAX_WAIT_OF_MEMBER       (10 * NSEC_PER_SEC) // a start takes its time at once
#define MAX_WAIT_FOR_SNAPSHOT    NSEC_PER_SEC        // each takes its time at once
#define ATTEMPTS_AT_ONCE         60 // each costs the check of a config and some lines of the log
#define ATTEMPTS_A_MINUTE        30
#define STRANGERS_PAYER          1 // of the only account of its budget
#define LINES_AT_ONCE            20
#define LINES_A_MINUTE           20
#define MAX_BUFFER_BYTES_PER_UID ((uint64_t)128 << 20)
#define STRANGERS_PART           2 // of max_buffer_bytes: half of it, for all users not trusted
#define STRANGERS_LINES_AT_ONCE  60
#define STRANGERS_LINES_A_MINUTE 60

struct service_limits service_default_limits(void)
{
    return (struct service_limits){
        .max_sessions = MAX_SESSIONS,
        .max_sessions_per_uid = MAX_SESSIONS_PER_UID,
        .max_buffer_bytes = config_machine_memory_bytes() / 4,
        .max_buffer_bytes_per_uid = MAX_BUFFER_BYTES_PER_UID,
    };
}

struct use {
    size_t n, n_of_payer; // sessions, or snapshots
    uint64_t bytes, bytes_of_payer;
};

// Counts what the user shares the limits with: the sessions of all trusted users, or those of all
// others.
static struct use count_use(const struct service *service, uid_t uid, uint64_t payer, bool clones)
{
    struct use use = {0};
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        uint64_t bytes = session_buffer_bytes(member->session);
        if (service_trusts(member->uid) != service_trusts(uid))
            continue;
        use.bytes += bytes;
        use.n += member->is_clone == clones;
        if (member->payer != payer)
            continue;
        use.bytes_of_payer += bytes;
        use.n_of_payer += member->is_clone == clones;
    }
    return use;
}

static uint64_t config_buffer_bytes(const Pb__TraceConfig *config)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < config->n_buffers; i++)
        sum += (uint64_t)config->buffers[i]->size_kb * 1024;
    return sum;
}

static int check_session_limits(const struct service *service, uid_t uid, const struct use *use,
                                const char *kind, struct err *err)
{
    const struct service_limits *limits = &service->limits;
    if (limits->max_sessions && use->n >= limits->max_sessions)
        return err_set(err, -EMFILE,
                       "max_sessions: there are %zu %s already, no more than %" PRIu32
                       " are allowed",
                       use->n, kind, limits->max_sessions);
    if (uid != 0 && limits->max_sessions_per_uid && use->n_of_payer >= limits->max_sessions_per_uid)
        return err_set(err, -EMFILE,
                       "max_sessions_per_uid: user %u has %zu %s already, no more than %" PRIu32
                       " are allowed",
                       (unsigned)uid, use->n_of_payer, kind, limits->max_sessions_per_uid);
    return 0;
}

static int check_buffer_limits(const struct service *service, uid_t uid, const struct use *use,
                               uint64_t bytes, uint64_t override_bytes, struct err *err)
{
    const struct service_limits *limits = &service->limits;
    bool is_trusted = service_trusts(uid);
    uint64_t most = limits->max_buffer_bytes / (is_trusted ? 1 : STRANGERS_PART);
    if (most && use->bytes + bytes > most)
        return err_set(err, -ENOSPC,
                       "max_buffer_bytes: %" PRIu64 " kB more would make %" PRIu64
                       " kB of buffers in all sessions%s, no more than %" PRIu64 " kB are allowed",
                       bytes / 1024, (use->bytes + bytes) / 1024,
                       is_trusted ? "" : " of users other than root", most / 1024);
    uint64_t limit = limits->max_buffer_bytes_per_uid;
    if (uid == 0 || limit == 0)
        return 0;
    if (limit < override_bytes)
        limit = override_bytes;
    if (use->bytes_of_payer + bytes > limit)
        return err_set(err, -ENOSPC,
                       "max_buffer_bytes_per_uid: %" PRIu64 " kB more would make %" PRIu64
                       " kB of buffers for user %u, no more than %" PRIu64 " kB are allowed",
                       bytes / 1024, (use->bytes_of_payer + bytes) / 1024, (unsigned)uid,
                       limit / 1024);
    return 0;
}

static uint64_t override_bytes(const Pb__TraceConfig *config)
{
    return config->guardrail_overrides
               ? (uint64_t)config->guardrail_overrides->max_tracing_buffer_size_kb * 1024
               : 0;
}

// Returns -EBUSY if the payer has time again only after `most`.
static int check_wait(const struct service *service, uint64_t payer, uid_t uid, nsec_t most,
                      const char *what, struct err *err)
{
    nsec_t wait = service_share_wait(service, payer);
    return wait <= most
               ? 0
               : err_set(err, -EBUSY,
                         "the recordings of user %u have taken more than a quarter of a "
                         "processor: no %s for %lld s",
                         (unsigned)uid, what, (long long)((wait - most) / NSEC_PER_SEC + 1));
}

// Returns the number of elements of all repeated fields in a message, and in the messages below.
static size_t count_elements(const ProtobufCMessage *message)
{
    size_t n = 0;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const uint8_t *value = (const uint8_t *)message + field->offset;
        bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n_here;
            memcpy(&n_here, (const uint8_t *)message + field->quantifier_offset, sizeof(n_here));
            n += n_here;
            const ProtobufCMessage *const *items = *(void *const *)value;
            for (size_t k = 0; is_message && k < n_here; k++)
                n += count_elements(items[k]);
            continue;
        }
        uint32_t chosen = field->id;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            memcpy(&chosen, (const uint8_t *)message + field->quantifier_offset, sizeof(chosen));
        const ProtobufCMessage *below = is_message ? *(void *const *)value : NULL;
        if (below && chosen == field->id)
            n += count_elements(below);
    }
    return n;
}

int service_check_size(const Pb__TraceConfig *config, const struct service_consumer *consumer,
                       struct err *err)
{
    if (!consumer->requester.is_limited)
        return 0;
    if (config->n_data_sources > MAX_SOURCES_OF_MEMBER)
        return err_set(err, -EMFILE,
                       "data_sources: user %u asks for %zu, no more than %d are allowed",
                       (unsigned)consumer->uid, config->n_data_sources, MAX_SOURCES_OF_MEMBER);
    size_t n = count_elements(&config->base);
    return n <= MAX_ELEMENTS_OF_MEMBER
               ? 0
               : err_set(err, -E2BIG,
                         "the lists in the config of user %u have %zu elements in all, no more "
                         "than %d are allowed",
                         (unsigned)consumer->uid, n, MAX_ELEMENTS_OF_MEMBER);
}

static int check_limits(const struct service *service, const Pb__TraceConfig *config,
                        const struct service_consumer *consumer, struct err *err)
{
    struct use use = count_use(service, consumer->uid, consumer->payer, false);
    int r = check_session_limits(service, consumer->uid, &use, "sessions", err);
    if (r == 0)
        r = check_wait(service, consumer->payer, consumer->uid, MAX_WAIT_OF_MEMBER,
                       "further session", err);
    if (r == 0)
        r = check_buffer_limits(service, consumer->uid, &use, config_buffer_bytes(config),
                                override_bytes(config), err);
    return r;
}

// Returns whether the names and semaphores of a session concern a request of the user.
static bool concerns(const struct member *member, uid_t uid)
{
    return !service_trusts(uid) || service_trusts(member->uid);
}

static int check_name(const struct service *service, const Pb__TraceConfig *config, uid_t uid,
                      struct err *err)
{
    const char *name = config->unique_session_name;
    char printable[QUOTED_MAX];
    const struct member *member = name && *name ? find_named(service, name, uid) : NULL;
    return member && concerns(member, uid)
               ? err_set(err, -EEXIST,
                         "unique_session_name: session %" PRIu64 " is called \"%s\" already",
                         member->id, quoted(name, printable))
               : 0;
}

// The smallest max_other_session_count of all sessions with this semaphore counts.
static int check_semaphore(const struct service *service,
                           const Pb__TraceConfig__SessionSemaphore *semaphore, uid_t uid,
                           struct err *err)
{
    const char *name = semaphore->name ? semaphore->name : "";
    uint64_t limit = semaphore->max_other_session_count, n = 0;
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        const Pb__TraceConfig *config = session_get_config(member->session);
        bool counts = is_live(member) && concerns(member, uid);
        for (size_t k = 0; counts && k < config->n_session_semaphores; k++) {
            const Pb__TraceConfig__SessionSemaphore *other = config->session_semaphores[k];
            if (!str_eq(other->name ? other->name : "", name))
                continue;
            n++;
            if (other->max_other_session_count < limit)
                limit = other->max_other_session_count;
        }
    }
    char printable[QUOTED_MAX];
    if (n > limit)
        return err_set(err, -EBUSY,
                       "session_semaphores: \"%s\" is held by %" PRIu64
                       " sessions, max_other_session_count allows %" PRIu64,
                       quoted(name, printable), n, limit);
    return 0;
}

// A session with exclusive_prio excludes all sessions without a higher value.
static int check_exclusive(const struct service *service, const Pb__TraceConfig *config, uid_t uid,
                           struct err *err)
{
    if (config->exclusive_prio > 0 && uid != 0)
        return err_set(err, -EPERM, "exclusive_prio: only root may end the sessions of others");
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        uint32_t prio = session_get_config(member->session)->exclusive_prio;
        if (is_live(member) && prio > 0 && prio >= config->exclusive_prio)
            return err_set(err, -EBUSY,
                           "exclusive_prio: session %" PRIu64 " has %" PRIu32
                           " and excludes sessions without a higher value",
                           member->id, prio);
    }
    return 0;
}

// Writes a line about the recordings of users who are not trusted. One account serves all of them,
// because data sources of several users share this log.
static void write_strangers_line(void *userdata, enum log_level level, const char *line)
{
    struct service *service = userdata;
    const struct log *log = service->env.session.log;
    struct err err = {0};
    if (budget_take(&service->strangers_log_budget, STRANGERS_PAYER, 1, boot_now(service), &err) <
        0) {
        service->n_unlogged++;
        return;
    }
    if (service->n_unlogged > 0)
        log_warning(log, "%" PRIu64 " lines about recordings of users other than root are left out",
                    service->n_unlogged);
    service->n_unlogged = 0;
    log_line(log, level, "%s", line);
}

void service_init_limits(struct service *service)
{
    static const struct budget_limits limits = {
        .what = "requests for sessions",
        .each_burst = ATTEMPTS_AT_ONCE,
        .each_per_minute = ATTEMPTS_A_MINUTE,
    };
    static const struct budget_limits lines = {
        .what = "lines of the log",
        .each_burst = LINES_AT_ONCE,
        .each_per_minute = LINES_A_MINUTE,
    };
    static const struct budget_limits strangers_lines = {
        .what = "lines of the log",
        .each_burst = STRANGERS_LINES_AT_ONCE,
        .each_per_minute = STRANGERS_LINES_A_MINUTE,
    };
    budget_init(&service->session_budget, &limits);
    budget_init(&service->log_budget, &lines);
    budget_init(&service->strangers_log_budget, &strangers_lines);
    const struct log *log = service->env.session.log;
    service->strangers_log = (struct log){
        .max_level = log ? log->max_level : LOG_LEVEL_ERROR,
        .write = write_strangers_line,
        .userdata = service,
    };
}

const struct log *service_log_of(const struct service *service,
                                 const struct service_consumer *consumer)
{
    return service_trusts(consumer->uid) ? service->env.session.log : &service->strangers_log;
}

bool service_may_log(struct service *service, const struct service_consumer *consumer)
{
    struct err err = {0};
    return service_trusts(consumer->uid) ||
           budget_take(&service->log_budget, consumer->payer, 1, boot_now(service), &err) == 0;
}

int service_may_ask(struct service *service, const struct service_consumer *consumer,
                    struct err *err)
{
    if (service_trusts(consumer->uid))
        return 0;
    return budget_take(&service->session_budget, consumer->payer, 1, boot_now(service), err);
}

int service_check_request(const struct service *service, const Pb__TraceConfig *config,
                          const struct service_consumer *consumer, struct err *err)
{
    int r = check_limits(service, config, consumer, err);
    if (r == 0)
        r = check_name(service, config, consumer->uid, err);
    if (r == 0)
        r = check_exclusive(service, config, consumer->uid, err);
    for (size_t i = 0; r == 0 && i < config->n_session_semaphores; i++)
        r = check_semaphore(service, config->session_semaphores[i], consumer->uid, err);
    return r;
}

int service_check_clone_time(const struct service *service, const struct member *clone,
                             bool is_owed, struct err *err)
{
    nsec_t most = is_owed ? MAX_WAIT_OF_MEMBER : MAX_WAIT_FOR_SNAPSHOT;
    return clone->share ? check_wait(service, clone->payer, clone->uid, most, "snapshot", err) : 0;
}

int service_check_clone(const struct service *service, const Pb__TraceConfig *config,
                        const struct member *clone, uint64_t bytes, struct err *err)
{
    struct use use = count_use(service, clone->uid, clone->payer, true);
    int r = check_session_limits(service, clone->uid, &use, "snapshots", err);
    return r < 0
               ? r
               : check_buffer_limits(service, clone->uid, &use, bytes, override_bytes(config), err);
}
