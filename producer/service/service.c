// SPDX-License-Identifier: Apache-2.0
//
// A callback for an event may call the service, and may even destroy the event's session, whose
// code is still on the stack. Therefore a destroyed session leaves the list at once, with all its
// limits and names, but its memory is released in a later round of the loop (the graveyard).
//
// A recording into a regular file survives its consumer: its session stays, without a name and
// without triggers, until everything is written. Pipes are not waited for. A detached session is
// removed at its end, as in Perfetto, because perhaps no client would ever collect it.
//
// All checks precede all changes: a refused request leaves no file, no buffer and no session
// behind.
#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/service/service_private.h"
#include "producer/trace/trace_file.h"

#define KEY_MAX 255

// Members.

// Removes the file that the service created at the config's output_path, if the file is empty.
// Checked once, because the name may later belong to another session.
static void remove_empty_file(struct member *member)
{
    struct stat st;
    const char *path = member->created;
    member->created = NULL;
    if (path && lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        unlink(path);
}

struct member *member_free(struct member *member)
{
    if (!member)
        return NULL;
    remove_empty_file(member);
    session_free(member->session);
    if (member->share)
        member->share->n_members--;
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

static void session_told(void *userdata, struct session *session, enum service_event event,
                         int result, const struct service_trigger_hit *trigger)
{
    struct member *member = userdata;
    (void)session;
    if (event == SERVICE_EVENT_STARTED)
        member->started_realtime = clock_read(member->service->env.session.clock, CLOCK_REALTIME);
    if (event == SERVICE_EVENT_CLONE_TRIGGERED && service_trusts(trigger->producer_uid))
        member->owed[member->n_owed++ % OWED_MAX] = trigger->time;
    notify(member, event, result, result < 0 ? strerror(-result) : "", trigger);
}

// Files of durable sessions.

static bool make_room(void *userdata, struct session *session, int why)
{
    const struct member *member = userdata;
    (void)session;
    return member->consumer && member->consumer->make_room &&
           member->consumer->make_room(member->consumer->userdata, member->id, why);
}

// Makes the file of a session. `path` is NULL if the caller opened the file.
static int make_file(struct member *member, const char *path, bool durable, int *fd,
                     struct trace_file **ret, struct err *err)
{
    const struct session_settings *settings = session_get_settings(member->session);
    struct trace_file_options options = {
        .name = path ? path : member->consumer_name,
        .path = path,
        .max_size_bytes = settings->max_file_bytes,
        .deflate = settings->deflate,
        .sync = settings->sync_after_write,
        .waits_for_room = durable,
        .disk = durable ? member->service->env.disk : NULL,
    };
    int r = trace_file_new(*fd, &options, ret, err);
    if (r == 0)
        steal_fd(fd);
    return r;
}

static int next_file(void *userdata, struct session *session, struct trace_file **ret)
{
    struct member *member = userdata;
    const struct service_consumer *consumer = member->consumer;
    int fd CLEANUP(close_fdp) = -1;
    (void)session;
    int r = consumer && consumer->next_file
                ? consumer->next_file(consumer->userdata, member->id, &fd)
                : -EOPNOTSUPP;
    return r < 0 ? r : make_file(member, NULL, true, &fd, ret, NULL);
}

static void tell_end(struct member *member)
{
    struct err err = {0};
    int result = session_result(member->session, &err);
    member->ended_told = member->consumer && member->announces;
    member->moved_at = boot_now(member->service);
    notify(member, SERVICE_EVENT_ENDED, result, err.text, NULL);
}

// Freed memory of sessions stays with the process if something above this memory is in use.
static void give_memory_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void reap(void *userdata)
{
    struct service *service = userdata;
    if (service->graveyard.n == 0)
        return;
    for (size_t i = 0; i < service->graveyard.n; i++)
        member_free(service->graveyard.items[i]);
    member_vec_clear(&service->graveyard);
    give_memory_back();
}

// Afterwards no events reach the consumer, and the end of the session does not remove the member.
static void silence(struct member *member)
{
    member->announces = member->is_leaving = false;
    free(member->detach_key);
    member->detach_key = NULL;
}

static void bury(struct service *service, struct member *member)
{
    size_t i = 0;
    while (service->members.items[i] != member)
        i++;
    memmove(&service->members.items[i], &service->members.items[i + 1],
            (service->members.n - i - 1) * sizeof(service->members.items[0]));
    service->members.n--;
    silence(member);
    session_abort(member->session);
    member_vec_push(&service->graveyard, member); // room was reserved with the member
    if (service->reaper)
        loop_set_timer(service->reaper, boot_now(service), 0);
}

static void leave(struct service *service, struct member *member)
{
    if (!session_has_to_write(member->session)) {
        bury(service, member);
        return;
    }
    member->is_leaving = true;
    member->consumer = NULL;
    free(member->detach_key);
    member->detach_key = NULL;
    session_stop(member->session);
}

// Logs the end of a session without a consumer.
static void log_end(const struct member *member)
{
    struct err err = {0};
    char key[QUOTED_MAX];
    if (session_result(member->session, &err) < 0)
        log_warning(member->service->env.session.log, "session \"%s\", detached: %s",
                    quoted(member->detach_key, key), err.text);
}

static void session_ended(void *userdata, struct session *session)
{
    struct member *member = userdata;
    (void)session;
    remove_empty_file(member);
    if (member->detach_key)
        log_end(member);
    if (member->is_leaving || member->detach_key)
        bury(member->service, member);
    else
        tell_end(member);
}

int member_insert(struct service *service, struct member *member, struct err *err)
{
    size_t n = service->members.n + service->graveyard.n + 1;
    int r = member_vec_reserve(&service->graveyard, n);
    if (r == 0)
        r = member_vec_push(&service->members, member);
    if (r < 0)
        return err_errno(err, r, "session");
    member->id = ++service->last_id;
    member->announces = true;
    return 0;
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
        int r = loop_add_timer(env->session.loop, NSEC_MAX, 0, reap, service, &service->reaper);
        if (r < 0) {
            service_free(service);
            return err_errno(err, r, "event loop");
        }
    }
    service_init_limits(service);
    service_init_triggers(service);
    *ret = service;
    return 0;
}

struct service *service_free(struct service *service)
{
    if (!service)
        return NULL;
    while (service->members.n > 0) {
        struct member *member = service->members.items[service->members.n - 1];
        silence(member);
        if (session_has_to_write(member->session))
            session_finish(member->session);
        bury(service, member);
    }
    reap(service);
    member_vec_done(&service->members);
    member_vec_done(&service->graveyard);
    service_free_shares(service);
    service_free_history(service);
    loop_remove_timer(service->reaper);
    free(service);
    return NULL;
}

// Enabling.

static int give_file(struct member *member, int *fd, bool durable, struct err *err)
{
    const struct session_settings *settings = session_get_settings(member->session);
    const char *path = session_get_config(member->session)->output_path;
    bool by_path = *fd < 0 && settings->write_into_file && path && *path;
    if (by_path) {
        if (member->uid != 0)
            return err_set(err, -EPERM,
                           "output_path: only root may name a file, others pass an "
                           "open descriptor");
        int r = trace_file_open(path, true, fd, err);
        if (r < 0)
            return err_prefix(err, r, "output_path");
    }
    if (*fd < 0)
        return settings->write_into_file
                   ? err_set(err, -EINVAL, "write_into_file: there is no file to write into")
                   : 0;
    struct trace_file *file;
    int r = make_file(member, by_path ? path : NULL, durable, fd, &file, err);
    if (r < 0)
        return r;
    session_set_file(member->session, file);
    member->created = by_path ? path : NULL;
    return durable && !settings->write_into_file ? session_keep_journal(member->session, err) : 0;
}

int member_new(struct service *service, const struct service_consumer *consumer,
               struct member **ret, struct err *err)
{
    CLEANUP(member_freep) struct member *member = calloc(1, sizeof(*member));
    if (!member)
        return err_errno(err, -ENOMEM, "session");
    member->service = service;
    member->consumer = consumer;
    member->uid = consumer->uid;
    member->payer = consumer->payer;
    member->requester = consumer->requester;
    member->requester.payer = consumer->payer;
    if (member->requester.is_limited) {
        member->share = service_share_of(service, member->payer);
        if (!member->share)
            return err_errno(err, -ENOMEM, "session");
        member->share->n_members++;
    }
    member->consumer_name = strdup(consumer->name ? consumer->name : "");
    if (!member->consumer_name)
        return err_errno(err, -ENOMEM, "session");
    *ret = STEAL(member);
    return 0;
}

static struct session_env member_env(struct member *member)
{
    struct session_env env = member->service->env.session;
    env.log = service_log_of(member->service, member->consumer);
    env.ignore_triggers = false;
    env.requester = &member->requester;
    env.shares = member->share ? &member->share->time : NULL;
    env.title = member->consumer_name;
    env.told = session_told;
    env.ended = session_ended;
    env.make_room = make_room;
    env.next_file = next_file;
    env.userdata = member;
    return env;
}

static int start(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    int r = session_start(member->session, err);
    if (r == 0)
        service_fire_own_triggers(service, session_id);
    return r;
}

// Begins the session. START_TRACING waits for its triggers from here on, even if the start is
// deferred.
static int begin(struct service *service, struct member *member, bool start_now, struct err *err)
{
    if (session_get_settings(member->session)->mode == SESSION_MODE_START)
        return session_arm(member->session, err);
    return start_now ? start(service, member->id, err) : 0;
}

static void end_others(struct service *service, uint64_t session_id)
{
    struct member *member;
    for (uint64_t id = 0; (member = next_member(service, id)) && member->id < session_id;) {
        id = member->id;
        if (is_live(member))
            session_stop(member->session);
    }
}

int service_enable(struct service *service, const struct service_consumer *consumer,
                   const struct service_request *request, uint64_t *ret_session_id, struct err *err)
{
    int fd CLEANUP(close_fdp) = request->output_fd;
    CLEANUP(member_freep) struct member *member = NULL;
    if (service->ending)
        return err_set(err, -ESHUTDOWN, "the tracing service ends");
    int r = service_check_request(service, request->config->trace, consumer, err);
    if (r == 0)
        r = member_new(service, consumer, &member, err);
    if (r < 0)
        return r;
    struct session_env env = member_env(member);
    r = session_new(&env, request->config, &member->session, err);
    if (r == 0)
        r = trigger_rules_check(session_get_config(member->session), err);
    if (r == 0)
        r = give_file(member, &fd, request->durable, err);
    if (r < 0)
        return r;
    r = member_insert(service, member, err);
    if (r < 0)
        return r;
    struct member *inserted = STEAL(member);
    *ret_session_id = inserted->id;
    if (request->config->trace->exclusive_prio > 0)
        end_others(service, inserted->id);
    // A callback for another session's end may have ended this session, too.
    inserted = find(service, *ret_session_id);
    r = inserted ? begin(service, inserted, request->start, err) : 0;
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
    int r = session_flush(member->session);
    return r < 0 ? err_set(err, r,
                           "not flushed: the recordings of user %u take more than a quarter of a "
                           "processor (lengthen the periods of their data sources)",
                           (unsigned)member->uid)
                 : 0;
}

void service_dump_all(struct service *service)
{
    struct member *member;
    for (uint64_t id = 0; (member = next_member(service, id)); id = member->id)
        session_dump(member->session);
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

size_t service_disable_all(struct service *service)
{
    struct member *member;
    size_t n_writing = 0;
    nsec_t now = boot_now(service);
    for (size_t i = 0; !service->ending && i < service->members.n; i++)
        service->members.items[i]->moved_at = now;
    service->ending = true;
    // Walks by id, because the end of one session may remove others.
    for (uint64_t id = 0; (member = next_member(service, id));) {
        id = member->id;
        if (!member->is_clone && session_get_state(member->session) != SESSION_DONE)
            session_stop(member->session);
        member = find(service, id);
        n_writing += member && session_get_state(member->session) == SESSION_STOPPING &&
                     !session_waits_for_room(member->session);
    }
    return n_writing;
}

size_t service_count_unread(const struct service *service, nsec_t patience)
{
    size_t n = 0;
    for (size_t i = 0; i < service->members.n; i++) {
        const struct member *member = service->members.items[i];
        n += member->consumer && session_get_state(member->session) == SESSION_DONE &&
             boot_now(service) - member->moved_at < patience;
    }
    return n;
}

int service_destroy(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    if (!member)
        return -ESRCH;
    leave(service, member);
    return 0;
}

void service_give_up(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    if (member)
        bury(service, member);
}

void service_free_name(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    if (member)
        member->is_nameless = true;
}

int service_write_late(struct service *service, uint64_t session_id, int fd, struct err *err)
{
    int owned CLEANUP(close_fdp) = fd;
    struct member *member = find(service, session_id);
    struct trace_file *file;
    if (!member)
        return no_session(err, session_id);
    int r = make_file(member, NULL, true, &owned, &file, err);
    return r < 0 ? r : session_write_late(member->session, file, err);
}

uint64_t service_unwritten_bytes(const struct service *service, uint64_t session_id)
{
    const struct member *member = find(service, session_id);
    return member ? session_unwritten_bytes(member->session) : 0;
}

void service_consumer_gone(struct service *service, const struct service_consumer *consumer)
{
    struct member *member;
    for (uint64_t id = 0; (member = next_member(service, id));) {
        id = member->id;
        if (member->consumer == consumer)
            leave(service, member);
    }
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
    if (!member->is_clone && session_get_state(member->session) == SESSION_DONE)
        bury(service, member);
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

const Pb__TraceConfig *service_session_config(const struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    return member ? session_get_config(member->session) : NULL;
}

bool service_all_started(const struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    return member && session_all_started(member->session);
}

bool service_source_has_started(const struct service *service, uint64_t session_id,
                                const Pb__DataSourceConfig *config)
{
    struct member *member = find(service, session_id);
    return member && session_source_has_started(member->session, config);
}

enum session_state service_session_state(const struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    return member ? session_get_state(member->session) : SESSION_DONE;
}

// Reading.

int service_read_begin(struct service *service, uint64_t session_id, struct err *err)
{
    struct member *member = find(service, session_id);
    if (!member)
        return no_session(err, session_id);
    if (session_get_settings(member->session)->write_into_file && !member->is_clone)
        return err_set(err, -EINVAL,
                       "session %" PRIu64 " writes into a file, which has the whole trace",
                       session_id);
    member->moved_at = boot_now(service);
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
    if (!member)
        return;
    if (service->ending)
        member->moved_at = boot_now(service);
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
