// SPDX-License-Identifier: Apache-2.0
//
// A trigger goes to every session with a trigger of its name; each session applies its own rules.
// The history belongs to the name, over all sessions, and a trigger counts once for any number of
// sessions. The history is kept only if a session has a limit, so that frequent triggers without a
// limit cost no file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "producer/service/service_private.h"
#include "producer/service/triggers/name_regex.h"

// The producer name of triggers that a config fires, as in Perfetto's client.
#define OWN_TRIGGERS_PRODUCER "perfetto_cmd_producer"

// Limits of a user who is not trusted; all of these users together have twice as many. Each trigger
// may cost a snapshot of all buffers, and its size on the disk.
#define TRIGGERS_AT_ONCE  10
#define TRIGGERS_A_MINUTE 2
#define REFUSALS_PERIOD   (60 * NSEC_PER_SEC)
#define STRANGERS_PREFIX  "\1others: "
#define NAME_ROOM         512

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

// Runs in the disk thread. If the service has no disk thread, runs in the caller's thread.
static void write_history(struct disk_job *job)
{
    struct service *service = job->owner;
    service->history_result = trigger_history_write(service->env.state_dir, &service->history_text);
}

static void history_written(struct disk_job *job)
{
    struct service *service = job->owner;
    if (service->history_result < 0)
        log_warning(service->env.session.log,
                    "max_per_24_h will not survive a restart: %s/trigger_history: %s",
                    service->env.state_dir, strerror(-service->history_result));
    if (service->history_changed)
        service_save_history(service);
}

void service_save_history(struct service *service)
{
    struct disk_job *job = &service->history_job;
    if (!service->env.state_dir)
        return;
    service->history_changed = job->busy;
    if (job->busy ||
        trigger_history_text(&service->history, trigger_now(service), &service->history_text) < 0)
        return;
    job->work = write_history;
    job->done = history_written;
    job->owner = service;
    if (service->env.disk) {
        disk_run(service->env.disk, job);
        return;
    }
    write_history(job);
    history_written(job);
}

void service_free_history(struct service *service)
{
    if (service->env.disk)
        disk_wait(service->env.disk, &service->history_job);
    if (service->history_changed) {
        service->env.disk = NULL; // the last change must not be lost
        service_save_history(service);
    }
    strbuf_done(&service->history_text);
    trigger_history_done(&service->history);
    budget_done(&service->trigger_budget);
    budget_done(&service->session_budget);
    budget_done(&service->log_budget);
    budget_done(&service->strangers_log_budget);
}

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
    member->heard_trusted |= service_trusts(hit->producer_uid);
    member->last_trigger_at = hit->time;
    if (!name)
        return;
    free(member->last_trigger);
    member->last_trigger = name;
}

bool service_trusts(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

bool service_session_is_strangers(const struct service *service, uint64_t session_id)
{
    const struct member *member = find(service, session_id);
    return member && member->n_triggers > 0 && !member->heard_trusted;
}

void service_init_triggers(struct service *service)
{
    static const struct budget_limits limits = {
        .what = "triggers",
        .each_burst = TRIGGERS_AT_ONCE,
        .each_per_minute = TRIGGERS_A_MINUTE,
        .all_burst = 2 * TRIGGERS_AT_ONCE,
        .all_per_minute = 2 * TRIGGERS_A_MINUTE,
    };
    budget_init(&service->trigger_budget, &limits);
    load_history(service);
}

// Returns whether the user has triggers left. Logs a refusal once per minute.
static bool may_fire(struct service *service, const char *name, uid_t uid, uint64_t payer,
                     nsec_t now)
{
    struct err err = {0};
    char printable[QUOTED_MAX];
    if (service_trusts(uid) || budget_take(&service->trigger_budget, payer, 1, now, &err) == 0)
        return true;
    if (service->refusal_told && now - service->refusal_told < REFUSALS_PERIOD)
        return false;
    service->refusal_told = now;
    log_warning(service->env.session.log, "trigger \"%s\" of user %u is held back: %s",
                quoted(name, printable), (unsigned)uid, err.text);
    return false;
}

// Returns the name in the history for users who are not trusted. The triggers of trusted users
// count under the trigger's own name.
static const char *strangers_name(const char *name, char ret[NAME_ROOM])
{
    snprintf(ret, NAME_ROOM, "%s%s", STRANGERS_PREFIX, name);
    return ret;
}

struct activation {
    struct service_trigger_hit hit;
    bool refused;    // the user has fired too many
    size_t n_before; // in the last 24 hours
    struct service_trigger_result result;
    bool limited; // a session that accepted the trigger has a limit
};

bool service_hears_triggers(const struct member *member)
{
    enum session_state state = session_get_state(member->session);
    return !member->is_clone && (state & (SESSION_ARMED | SESSION_RECORDING));
}

// An expression can take as long to match as its author likes, and everybody may fire triggers. So
// an expression costs the time of its author, and a refused trigger is worth no match.
static enum trigger_verdict match(const struct member *member, const struct activation *activation,
                                  const char *pattern)
{
    struct loop_share *share = member->share ? &member->share->matching : NULL;
    if (activation->refused || !loop_share_is_left(share, nsec_now(CLOCK_BOOTTIME)))
        return TRIGGER_TOO_MANY;
    nsec_t began = loop_share_begin(share);
    bool matches = name_regex_matches(pattern, activation->hit.producer_name);
    loop_share_spend_since(share, began);
    return matches ? TRIGGER_HEARD : TRIGGER_UNKNOWN;
}

static enum trigger_verdict judge(struct service *service, const struct member *member,
                                  const struct activation *activation, const trigger_rule *rule)
{
    const char *pattern = trigger_rules_pattern(rule);
    enum trigger_verdict verdict = pattern ? match(member, activation, pattern) : TRIGGER_HEARD;
    if (verdict == TRIGGER_HEARD)
        verdict = trigger_rules_judge(rule, random_share(service), activation->n_before);
    return verdict == TRIGGER_HEARD && activation->refused ? TRIGGER_TOO_MANY : verdict;
}

static void activate_member(struct service *service, struct member *member,
                            struct activation *activation)
{
    struct service_trigger_hit hit = activation->hit;
    if (!service_hears_triggers(member))
        return;
    const trigger_rule *rule = trigger_rules_find(session_get_config(member->session), hit.name);
    enum trigger_verdict verdict =
        rule ? judge(service, member, activation, rule) : TRIGGER_UNKNOWN;
    activation->result.sessions += verdict != TRIGGER_UNKNOWN;
    activation->result.held_back += verdict == TRIGGER_SKIPPED || verdict == TRIGGER_TOO_MANY;
    if (verdict != TRIGGER_HEARD)
        return;
    activation->limited |= rule->max_per_24_h > 0;
    hit.stop_delay_ms = rule->stop_delay_ms;
    remember_trigger(member, &hit);
    activation->result.acted += session_trigger(member->session, &hit);
}

struct service_trigger_result service_activate_trigger(struct service *service, const char *name,
                                                       const char *producer_name,
                                                       uid_t producer_uid, uint64_t payer)
{
    struct trigger_now now = trigger_now(service);
    char room[NAME_ROOM];
    bool trusted = service_trusts(producer_uid);
    const char *strangers = strangers_name(name, room);
    struct activation activation = {
        .hit = {.name = name,
                .producer_name = producer_name ? producer_name : "",
                .producer_uid = producer_uid,
                .time = now.boot},
        .refused = !may_fire(service, name, producer_uid, payer, now.boot),
        .n_before = trigger_history_count(&service->history, name, now),
    };
    if (!trusted)
        activation.n_before += trigger_history_count(&service->history, strangers, now);
    struct member *member;
    for (uint64_t id = 0, last = service->last_id;
         (member = next_member(service, id)) && member->id <= last;) {
        id = member->id;
        activate_member(service, member, &activation);
    }
    // The sessions come first, because they are urgent. The file is not.
    if (activation.limited &&
        trigger_history_add(&service->history, trusted ? name : strangers, now) == 0)
        service_save_history(service);
    return activation.result;
}

void service_fire_own_triggers(struct service *service, uint64_t session_id)
{
    struct member *member = find(service, session_id);
    size_t n = member ? session_get_config(member->session)->n_activate_triggers : 0;
    // A trigger may end the session, so the session is looked up each time.
    for (size_t i = 0; i < n && (member = find(service, session_id)); i++)
        service_activate_trigger(service, session_get_config(member->session)->activate_triggers[i],
                                 OWN_TRIGGERS_PRODUCER, member->uid, member->payer);
}
