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
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/service/config_check.h"
#include "producer/service/trigger_history.h"
#include "producer/service/trigger_rules.h"
#include "producer/trace/trace_file.h"

#define MAX_SESSIONS             15
#define MAX_SESSIONS_PER_UID     5
#define MAX_BUFFER_BYTES_PER_UID ((uint64_t)128 << 20)
#define KEY_MAX                  255
#define QUOTED_MAX               68
#define OWN_TRIGGERS_PRODUCER    "perfetto_cmd_producer"

struct member {
    struct service *service; // borrowed
    uint64_t id;
    struct session *session;                 // owned
    const struct service_consumer *consumer; // borrowed; NULL while detached
    char *consumer_name;                     // owned
    char *detach_key;                        // owned; NULL: not detached
    const char *created; // borrowed from the config: the output_path that was made; NULL: none
    uid_t uid;
    bool is_clone;
    struct trigger_rules rules;
    uint32_t n_triggers; // heard
    char *last_trigger;  // owned; NULL: none
    nsec_t last_trigger_at;
    bool ended_told; // the consumer knows that the session has ended
    bool announces;  // events reach the consumer: service_enable() is over the point of no return
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
    struct trigger_history history;
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

// The one behind `id`, for walks during which sessions come and go.
static struct member *next_member(const struct service *service, uint64_t id)
{
    for (size_t i = 0; i < service->members.n; i++)
        if (service->members.items[i]->id > id)
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
    trigger_rules_done(&member->rules);
    session_free(member->session);
    free(member->last_trigger);
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

static void session_started(void *userdata, struct session *session)
{
    struct member *member = userdata;
    (void)session;
    member->started_realtime = clock_read(member->service->env.session.clock, CLOCK_REALTIME);
    notify(member, SERVICE_EVENT_STARTED, 0, "", NULL);
}

static void clone_due(void *userdata, struct session *session,
                      const struct service_trigger_hit *hit)
{
    (void)session;
    notify(userdata, SERVICE_EVENT_CLONE_TRIGGERED, 0, "", hit);
}

static void tell_end(struct member *member)
{
    struct err err = {0};
    int result = session_result(member->session, &err);
    member->ended_told = member->consumer && member->announces;
    notify(member, SERVICE_EVENT_ENDED, result, err.text, NULL);
}

// A file that the config names is the service's own, so an empty one is not left behind.
static void remove_empty_file(const struct member *member)
{
    struct stat st;
    const char *path = member->created;
    if (path && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        unlink(path);
}

static void session_ended(void *userdata, struct session *session)
{
    struct member *member = userdata;
    if (session_result(session, NULL) != 0)
        remove_empty_file(member);
    tell_end(member);
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

// History.

static struct trigger_now trigger_now(const struct service *service)
{
    return (struct trigger_now){
        .boot = boot_now(service),
        .real = clock_read(service->env.session.clock, CLOCK_REALTIME),
    };
}

static void load_history(struct service *service)
{
    struct err err = {0};
    if (service->env.state_dir && trigger_history_load(&service->history, service->env.state_dir,
                                                       trigger_now(service), &err) < 0)
        log_warning(service->env.session.log, "max_per_24_h begins anew: %s", err.text);
}

static void save_history(struct service *service)
{
    struct err err = {0};
    if (service->env.state_dir && trigger_history_save(&service->history, service->env.state_dir,
                                                       trigger_now(service), &err) < 0)
        log_warning(service->env.session.log, "max_per_24_h will not survive a restart: %s",
                    err.text);
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
    load_history(service);
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
    trigger_history_done(&service->history);
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
    member->created = by_path ? path : NULL;
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
    env.ignore_triggers = false;
    env.started = session_started;
    env.clone_due = clone_due;
    env.ended = session_ended;
    env.userdata = member;
    return env;
}

// The triggers that the config wants fired when it starts. They come from where Perfetto's client
// would send them.
static void fire_own_triggers(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    size_t n = member ? session_get_config(member->session)->n_activate_triggers : 0;
    // Firing may end the session, so it is looked up each time.
    for (size_t i = 0; i < n && (member = find(service, session_id)); i++)
        service_activate_trigger(service, session_get_config(member->session)->activate_triggers[i],
                                 OWN_TRIGGERS_PRODUCER, member->uid);
}

static int start(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    int r = session_start(member->session, err);
    if (r == 0)
        fire_own_triggers(service, session_id);
    return r;
}

// START_TRACING hears its triggers from here on, also where the start is deferred.
static int begin(struct service *service, struct member *member, bool start_now, struct err *err)
{
    if (session_get_settings(member->session)->mode == SESSION_MODE_START)
        return session_arm(member->session, err);
    return start_now ? start(service, member->id, err) : 0;
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
        r = trigger_rules_make(session_get_config(member->session), &member->rules, err);
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
    r = begin(service, inserted, request->start, err);
    if (r < 0)
        service_destroy(service, *ret_session_id);
    return r;
}

int service_start(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    return member ? start(service, session_id, err) : no_session(err, session_id);
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
    if (session_get_state(member->session) != SESSION_DONE)
        session_stop(member->session);
    else if (!member->ended_told)
        tell_end(member);
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

// Triggers.

static double random_share(const struct service *service)
{
    if (service->env.random)
        return service->env.random(service->env.random_userdata);
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
        random = (uint32_t)clock_read(service->env.session.clock, CLOCK_MONOTONIC);
    return random / 4294967296.0;
}

static void remember_trigger(struct member *member, const struct service_trigger_hit *hit)
{
    char *name = strdup(hit->name);
    member->n_triggers++;
    member->last_trigger_at = hit->time;
    if (!name)
        return;
    free(member->last_trigger);
    member->last_trigger = name;
}

struct activation {
    struct service_trigger_hit hit;
    size_t n_before; // in the last 24 hours
    int n_acted;     // sessions
    bool limited;    // a session that heard it has a limit
};

static bool hears_triggers(const struct member *member)
{
    enum session_state state = session_get_state(member->session);
    return !member->is_clone && (state & (SESSION_ARMED | SESSION_RECORDING));
}

static void activate_member(struct service *service, struct member *member,
                            struct activation *activation)
{
    struct service_trigger_hit hit = activation->hit;
    const Pb__TraceConfig__TriggerConfig__Trigger *trigger;
    if (!hears_triggers(member))
        return;
    if (trigger_rules_judge(&member->rules, hit.name, hit.producer_name, random_share(service),
                            activation->n_before, &trigger) != TRIGGER_HEARD)
        return;
    activation->limited |= trigger->max_per_24_h > 0;
    hit.stop_delay_ms = trigger->stop_delay_ms;
    remember_trigger(member, &hit);
    activation->n_acted += session_trigger(member->session, &hit);
}

int service_activate_trigger(struct service *service, const char *name, const char *producer_name,
                             uid_t producer_uid)
{
    struct trigger_now now = trigger_now(service);
    struct activation activation = {
        .hit = {.name = name,
                .producer_name = producer_name ? producer_name : "",
                .producer_uid = producer_uid,
                .time = now.boot},
        .n_before = trigger_history_count(&service->history, name, now),
    };
    struct member *member;
    for (uint64_t id = 0, last = service->last_id;
         (member = next_member(service, id)) && member->id <= last;) {
        id = member->id;
        activate_member(service, member, &activation);
    }
    // The sessions come first: they are in a hurry, the file is not.
    if (activation.limited && trigger_history_add(&service->history, name, now) == 0)
        save_history(service);
    return activation.n_acted;
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
    struct member *member;
    for (uint64_t id = 0; (member = next_member(service, id));) {
        id = member->id;
        if (session_next_due(member->session) <= now)
            session_run_due(member->session);
    }
    reap(service);
}
