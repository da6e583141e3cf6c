// SPDX-License-Identifier: Apache-2.0
//
// Whoever is told of an event may call back into the service, also to destroy the very session that
// the event is about. That session's own code is still on the stack then. So a session that is
// destroyed leaves the list, and with it all limits and names, at once, but its memory is released
// in a round of the loop of its own (the graveyard).
//
// All checks come before anything is made: a request that is refused leaves no file, no buffer and
// no session behind.
#include "producer/service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/service/config_check.h"
#include "producer/trace/trace_file.h"

#define MAX_SESSIONS             15
#define MAX_SESSIONS_PER_UID     5
#define MAX_BUFFER_BYTES_PER_UID ((uint64_t)128 << 20)
#define KEY_MAX                  255
#define QUOTED_MAX               68

struct member {
    struct service *service; // borrowed
    uint64_t id;
    struct session *session;                 // owned
    const struct service_consumer *consumer; // borrowed; NULL while detached
    char *consumer_name;                     // owned
    char *detach_key;                        // owned; NULL: not detached
    uid_t uid;
    bool is_clone;
    bool announces; // events reach the consumer: service_enable() is over the point of no return
    nsec_t started_realtime;
};

VEC_DEFINE(member_vec, struct member *);

struct service {
    struct service_env env;
    struct service_limits limits;
    struct member_vec members;   // in the order of their ids
    struct member_vec graveyard; // gone, to be freed when nobody is inside them
    struct loop_timer *reaper;   // owned; NULL without a loop
    uint64_t last_id;
};

static nsec_t boot_now(const struct service *service)
{
    return clock_read(service->env.session.clock, CLOCK_BOOTTIME);
}

static struct member *find(const struct service *service, uint64_t id)
{
    for (size_t i = 0; i < service->members.n; i++)
        if (service->members.items[i]->id == id)
            return service->members.items[i];
    return NULL;
}

static int no_session(struct err *err, uint64_t id)
{
    return err_set(err, -ESRCH, "session %" PRIu64 ": there is none", id);
}

static const char *quoted(const char *text, char ret[QUOTED_MAX])
{
    return str_printable(ret, QUOTED_MAX, text, strlen(text));
}

static const char *session_name(const struct member *member)
{
    const char *name = session_get_config(member->session)->unique_session_name;
    return name ? name : "";
}

// Whether the session still takes part: it records or will.
static bool is_live(const struct member *member)
{
    return !member->is_clone && session_get_state(member->session) != SESSION_DONE;
}

// Members.

static struct member *member_free(struct member *member)
{
    if (!member)
        return NULL;
    session_free(member->session);
    free(member->consumer_name);
    free(member->detach_key);
    free(member);
    return NULL;
}

DEFINE_CLEANUP(member_freep, struct member, member_free);

static void notify(struct member *member, enum service_event event, int result, const char *text,
                   const struct service_trigger_hit *trigger)
{
    const struct service_consumer *consumer = member->consumer;
    if (consumer && consumer->notify && member->announces)
        consumer->notify(consumer->userdata, member->id, event, result, text, trigger);
}

static void session_ended(void *userdata, struct session *session)
{
    struct err err = {0};
    int result = session_result(session, &err);
    notify(userdata, SERVICE_EVENT_ENDED, result, err.text, NULL);
}

static void reap(struct service *service)
{
    for (size_t i = 0; i < service->graveyard.n; i++)
        member_free(service->graveyard.items[i]);
    member_vec_clear(&service->graveyard);
}

static void reaper_fired(void *userdata, nsec_t due, uint64_t n_due)
{
    (void)due;
    (void)n_due;
    reap(userdata);
}

static void bury(struct service *service, struct member *member)
{
    size_t i = 0;
    while (service->members.items[i] != member)
        i++;
    memmove(&service->members.items[i], &service->members.items[i + 1],
            (service->members.n - i - 1) * sizeof(service->members.items[0]));
    service->members.n--;
    member->announces = false;
    session_abort(member->session);
    member_vec_push(&service->graveyard, member); // room was reserved with the member
    if (service->reaper)
        loop_set_timer(service->reaper, boot_now(service), 0);
}

static int insert(struct service *service, struct member *member)
{
    size_t n = service->members.n + service->graveyard.n + 1;
    int r = member_vec_reserve(&service->graveyard, n);
    if (r == 0)
        r = member_vec_push(&service->members, member);
    return r;
}

// Life.

int service_new(const struct service_env *env, struct service **ret, struct err *err)
{
    struct service *service = calloc(1, sizeof(*service));
    if (!service)
        return err_errno(err, -ENOMEM, "service");
    service->env = *env;
    service->limits = env->limits;
    if (env->session.loop) {
        int r =
            loop_add_timer(env->session.loop, NSEC_MAX, 0, reaper_fired, service, &service->reaper);
        if (r < 0) {
            service_free(service);
            return err_errno(err, r, "event loop");
        }
    }
    *ret = service;
    return 0;
}

struct service *service_free(struct service *service)
{
    if (!service)
        return NULL;
    while (service->members.n > 0)
        bury(service, service->members.items[service->members.n - 1]);
    reap(service);
    member_vec_done(&service->members);
    member_vec_done(&service->graveyard);
    if (service->reaper)
        loop_remove_timer(service->reaper);
    free(service);
    return NULL;
}

struct service_limits service_default_limits(void)
{
    return (struct service_limits){
        .max_sessions = MAX_SESSIONS,
        .max_sessions_per_uid = MAX_SESSIONS_PER_UID,
        .max_buffer_bytes = config_machine_memory_bytes() / 4,
        .max_buffer_bytes_per_uid = MAX_BUFFER_BYTES_PER_UID,
    };
}

// Limits.

struct use {
    size_t sessions, sessions_of_uid;
    uint64_t bytes, bytes_of_uid;
};

static struct use count_use(const struct service *service, uid_t uid)
{
    struct use use = {.sessions = service->members.n};
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        uint64_t bytes = session_buffer_bytes(member->session);
        use.bytes += bytes;
        if (member->uid != uid)
            continue;
        use.sessions_of_uid++;
        use.bytes_of_uid += bytes;
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
                                struct err *err)
{
    const struct service_limits *limits = &service->limits;
    if (limits->max_sessions && use->sessions >= limits->max_sessions)
        return err_set(err, -EMFILE,
                       "max_sessions: there are %zu sessions already, no more than "
                       "%" PRIu32 " are allowed",
                       use->sessions, limits->max_sessions);
    if (uid != 0 && limits->max_sessions_per_uid &&
        use->sessions_of_uid >= limits->max_sessions_per_uid)
        return err_set(err, -EMFILE,
                       "max_sessions_per_uid: user %u has %zu sessions already, no more than "
                       "%" PRIu32 " are allowed",
                       (unsigned)uid, use->sessions_of_uid, limits->max_sessions_per_uid);
    return 0;
}

static int check_buffer_limits(const struct service *service, uid_t uid, const struct use *use,
                               uint64_t bytes, uint64_t override_bytes, struct err *err)
{
    const struct service_limits *limits = &service->limits;
    if (limits->max_buffer_bytes && use->bytes + bytes > limits->max_buffer_bytes)
        return err_set(err, -ENOSPC,
                       "max_buffer_bytes: %" PRIu64 " kB more would make %" PRIu64
                       " kB of buffers in all sessions, no more than %" PRIu64 " kB are allowed",
                       bytes / 1024, (use->bytes + bytes) / 1024, limits->max_buffer_bytes / 1024);
    uint64_t limit = limits->max_buffer_bytes_per_uid;
    if (uid == 0 || limit == 0)
        return 0;
    if (limit < override_bytes)
        limit = override_bytes;
    if (use->bytes_of_uid + bytes > limit)
        return err_set(err, -ENOSPC,
                       "max_buffer_bytes_per_uid: %" PRIu64 " kB more would make %" PRIu64
                       " kB of buffers for user %u, no more than %" PRIu64 " kB are allowed",
                       bytes / 1024, (use->bytes_of_uid + bytes) / 1024, (unsigned)uid,
                       limit / 1024);
    return 0;
}

static uint64_t override_bytes(const Pb__TraceConfig *config)
{
    return config->guardrail_overrides
               ? (uint64_t)config->guardrail_overrides->max_tracing_buffer_size_kb * 1024
               : 0;
}

static int check_limits(const struct service *service, const Pb__TraceConfig *config, uid_t uid,
                        struct err *err)
{
    struct use use = count_use(service, uid);
    int r = check_session_limits(service, uid, &use, err);
    if (r == 0)
        r = check_buffer_limits(service, uid, &use, config_buffer_bytes(config),
                                override_bytes(config), err);
    return r;
}

static int check_name(const struct service *service, const Pb__TraceConfig *config, struct err *err)
{
    const char *name = config->unique_session_name;
    char printable[QUOTED_MAX];
    if (!name || !*name)
        return 0;
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        if (!member->is_clone && str_eq(session_name(member), name))
            return err_set(err, -EEXIST,
                           "unique_session_name: session %" PRIu64 " is called \"%s\" already",
                           member->id, quoted(name, printable));
    }
    return 0;
}

// The smallest max_other_session_count of all that share the semaphore counts.
static int check_semaphore(const struct service *service,
                           const Pb__TraceConfig__SessionSemaphore *semaphore, struct err *err)
{
    const char *name = semaphore->name ? semaphore->name : "";
    uint64_t limit = semaphore->max_other_session_count, n = 0;
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        const Pb__TraceConfig *config = session_get_config(member->session);
        for (size_t k = 0; is_live(member) && k < config->n_session_semaphores; k++) {
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

static int check_request(const struct service *service, const Pb__TraceConfig *config, uid_t uid,
                         struct err *err)
{
    int r = check_limits(service, config, uid, err);
    if (r == 0)
        r = check_name(service, config, err);
    for (size_t i = 0; r == 0 && i < config->n_session_semaphores; i++)
        r = check_semaphore(service, config->session_semaphores[i], err);
    return r;
}

// Enabling.

static int give_file(struct member *member, int *fd, struct err *err)
{
    const struct session_settings *settings = session_get_settings(member->session);
    const char *path = session_get_config(member->session)->output_path;
    bool by_path = *fd < 0 && settings->write_into_file && path && *path;
    if (by_path) {
        if (member->uid != 0)
            return err_set(err, -EPERM,
                           "output_path: only root may name a file, others pass it "
                           "open");
        int r = trace_file_open(path, true, fd, err);
        if (r < 0)
            return err_prefix(err, r, "output_path");
    }
    if (*fd < 0)
        return settings->write_into_file
                   ? err_set(err, -EINVAL, "write_into_file: there is no file to write into")
                   : 0;
    struct trace_file_options options = {
        .name = by_path ? path : member->consumer_name,
        .max_size_bytes = settings->max_file_bytes,
        .deflate = settings->deflate,
        .sync = settings->sync_after_write,
    };
    struct trace_file *file;
    int r = trace_file_new(*fd, &options, &file, err);
    if (r < 0)
        return r;
    steal_fd(fd);
    session_set_file(member->session, file);
    return 0;
}

static int make_member(struct service *service, const struct service_consumer *consumer,
                       struct member **ret, struct err *err)
{
    CLEANUP(member_freep) struct member *member = calloc(1, sizeof(*member));
    if (!member)
        return err_errno(err, -ENOMEM, "session");
    member->service = service;
    member->consumer = consumer;
    member->uid = consumer->uid;
    member->consumer_name = strdup(consumer->name ? consumer->name : "");
    if (!member->consumer_name)
        return err_errno(err, -ENOMEM, "session");
    *ret = STEAL(member);
    return 0;
}

static struct session_env member_env(struct member *member)
{
    struct session_env env = member->service->env.session;
    env.ended = session_ended;
    env.userdata = member;
    return env;
}

static int start(struct member *member, struct err *err)
{
    int r = session_start(member->session, err);
    if (r < 0)
        return r;
    member->started_realtime = clock_read(member->service->env.session.clock, CLOCK_REALTIME);
    notify(member, SERVICE_EVENT_STARTED, 0, "", NULL);
    return 0;
}

int service_enable(struct service *service, const struct service_consumer *consumer,
                   const struct service_request *request, uint64_t *ret_session_id, struct err *err)
{
    int fd CLEANUP(close_fdp) = request->output_fd;
    CLEANUP(member_freep) struct member *member = NULL;
    int r = check_request(service, request->config->trace, consumer->uid, err);
    if (r == 0)
        r = make_member(service, consumer, &member, err);
    if (r < 0)
        return r;
    struct session_env env = member_env(member);
    r = session_new(&env, request->config, &member->session, err);
    if (r == 0)
        r = give_file(member, &fd, err);
    if (r < 0)
        return r;
    r = insert(service, member);
    if (r < 0)
        return err_errno(err, r, "session");
    struct member *inserted = STEAL(member);
    inserted->id = *ret_session_id = ++service->last_id;
    inserted->announces = true;
    if (request->start)
        r = start(inserted, err);
    if (r < 0)
        bury(service, inserted);
    return r;
}

int service_start(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    return member ? start(member, err) : no_session(err, session_id);
}

int service_flush(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    if (!member)
        return no_session(err, session_id);
    session_flush(member->session);
    return 0;
}

int service_disable(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    if (!member)
        return no_session(err, session_id);
    session_stop(member->session);
    return 0;
}

int service_destroy(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    if (!member)
        return -ESRCH;
    bury(service, member);
    return 0;
}

void service_consumer_gone(struct service *service, const struct service_consumer *consumer)
{
    for (size_t i = service->members.n; i-- > 0;)
        if (service->members.items[i]->consumer == consumer)
            bury(service, service->members.items[i]);
}

// Detaching.

int service_detach(struct service *service, uint64_t session_id, const char *key, struct err *err)
{
    struct member *member = find(service, session_id);
    char printable[QUOTED_MAX];
    if (!member)
        return no_session(err, session_id);
    if (!*key || strlen(key) > KEY_MAX)
        return err_set(err, -EINVAL, "a key to detach under has 1 to %d bytes", KEY_MAX);
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *other = service->members.items[i];
        if (other->detach_key && other->uid == member->uid && str_eq(other->detach_key, key))
            return err_set(err, -EEXIST, "session %" PRIu64 " is detached as \"%s\" already",
                           other->id, quoted(key, printable));
    }
    char *copy = strdup(key);
    if (!copy)
        return err_errno(err, -ENOMEM, "detach");
    free(member->detach_key);
    member->detach_key = copy;
    member->consumer = NULL;
    return 0;
}

int service_attach(struct service *service, const struct service_consumer *consumer,
                   const char *key, uint64_t *ret_session_id, struct err *err)
{
    char printable[QUOTED_MAX];
    for (size_t i = 0; i < service->members.n; i++) {
        struct member *member = service->members.items[i];
        if (!member->detach_key || member->uid != consumer->uid || !str_eq(member->detach_key, key))
            continue;
        char *name = strdup(consumer->name ? consumer->name : "");
        if (!name)
            return err_errno(err, -ENOMEM, "attach");
        free(member->consumer_name);
        free(member->detach_key);
        member->consumer_name = name;
        member->detach_key = NULL;
        member->consumer = consumer;
        *ret_session_id = member->id;
        return 0;
    }
    return err_set(err, -ENOENT, "no session of user %u is detached as \"%s\"",
                   (unsigned)consumer->uid, quoted(key, printable));
}

// Reading.

int service_read_begin(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    if (!member)
        return no_session(err, session_id);
    if (session_get_settings(member->session)->write_into_file && !member->is_clone)
        return err_set(err, -EINVAL, "session %" PRIu64 " writes into a file, which holds it all",
                       session_id);
    session_read_begin(member->session);
    return 0;
}

bool service_read_peek(struct service *service, uint64_t session_id, struct packet_view *ret)
{
    struct member *member = find(service, session_id);
    return member && session_read_peek(member->session, ret);
}

void service_read_advance(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    if (member)
        session_read_advance(member->session);
}

// Time, for owners without a loop.

nsec_t service_next_due(const struct service *service)
{
    nsec_t next = service->graveyard.n > 0 ? boot_now(service) : NSEC_MAX;
    for (size_t i = 0; i < service->members.n; i++) {
        nsec_t due = session_next_due(service->members.items[i]->session);
        if (due < next)
            next = due;
    }
    return next;
}

void service_run_due(struct service *service)
{
    nsec_t now = boot_now(service);
    uint64_t id = 0;
    // By id: what comes due may end or make sessions.
    for (size_t i = 0; i < service->members.n;) {
        struct member *member = service->members.items[i];
        if (member->id <= id) {
            i++;
            continue;
        }
        id = member->id;
        if (session_next_due(member->session) <= now)
            session_run_due(member->session);
        i = 0;
    }
    reap(service);
}
