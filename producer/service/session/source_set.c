// SPDX-License-Identifier: Apache-2.0
//
// Classes are walked in table order and, within a class, in the order of the config. A source that
// listens to others (process names: to the pids that ftrace sees) starts before them. Sources stop
// in reverse order, so that the listener gets the last pids.
//
// A machine rarely permits everything in a config. Each failure is logged once, the source is left
// out, and the failure is kept as the session's problem until its end: the command that requested
// the source fails, although the trace is kept. A recording is refused only if it would be empty.
#include "producer/service/session/source_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/memory.h"
#include "common/str.h"
#include "producer/foreign/helper.h"
#include "producer/service/config/config.h"
#include "producer/service/session/implicit_names.h"
#include "producer/service/session/session_buffers.h"
#include "producer/service/triggers/name_regex.h"

#define FIRST_SOURCE_SEQUENCE_ID 2
#define START_AHEAD              (NSEC_PER_SEC / 2) // of the share: most sessions start at once
#define NO_TIME_TO_OPEN          "the recordings of its user have taken more than a quarter of a processor"
#define STARTS_LATE              "its user had time for its start"

// The names that a config's filters may use for this program: its own, and the name of Perfetto's
// producer of the same data sources.
static const char *const producer_names[] = {"mmtrace", "perfetto.traced_probes"};
#define N_PRODUCER_NAMES ELEMENTS(producer_names)
static bool filters_match(const Pb__TraceConfig__DataSource *entry)
{
    if (entry->n_producer_name_filter == 0 && entry->n_producer_name_regex_filter == 0)
        return true;
    for (size_t name = 0; name < N_PRODUCER_NAMES; name++) {
        for (size_t i = 0; i < entry->n_producer_name_filter; i++)
            if (str_eq(entry->producer_name_filter[i], producer_names[name]))
                return true;
        for (size_t i = 0; i < entry->n_producer_name_regex_filter; i++)
            if (name_regex_matches(entry->producer_name_regex_filter[i], producer_names[name]))
                return true;
    }
    return false;
}

// Returns whether a source with this target must keep the names of ended tasks. A ring drops a name
// when it has passed the task's end; then the ring has no more events about the task. This does not
// hold for events in another buffer, or for a ring that keeps its first packets.
static bool keeps_ended(const Pb__TraceConfig *config, uint32_t buffer)
{
    bool elsewhere = false;
    for (size_t i = 0; i < config->n_data_sources; i++) {
        const Pb__DataSourceConfig *source = config->data_sources[i]->config;
        uint32_t target;
        if (source && source->name && str_eq(source->name, "linux.ftrace") &&
            config_target_buffer(config, source, &target) == 0 && target != buffer)
            elsewhere = true;
    }
    return elsewhere || session_buffer_keeps_first(config, buffer);
}

// Returns whether the share of sessions has time for one more source. The first source needs none.
// `n_before` counts failures, too.
static bool has_time_ahead(const struct source_set *set, size_t n_before)
{
    return n_before == 0 ||
           loop_share_is_left(set->sessions, nsec_now(CLOCK_BOOTTIME) + START_AHEAD);
}

static int open_slot(struct source_set *set, const struct source_set_env *env,
                     const struct source_class *class, const Pb__TraceConfig *config,
                     const Pb__DataSourceConfig *source_config, struct err *err)
{
    struct source_slot *slot = &set->slots[set->n];
    *slot = (struct source_slot){.class = class, .config = source_config, .stop_due = NSEC_MAX};
    slot->implicit = source_config == &implicit_names_config;
    slot->buffer = (uint32_t)config->n_buffers;
    int r = slot->implicit ? 0 : config_target_buffer(config, source_config, &slot->buffer);
    if (r < 0)
        return err_set(err, r, "its target buffer does not exist");
    if (!has_time_ahead(set, set->n_tried))
        return err_set(err, -ETIMEDOUT, NO_TIME_TO_OPEN);
    slot->writer =
        packet_writer_over(env->buffers[slot->buffer], FIRST_SOURCE_SEQUENCE_ID + (uint32_t)set->n);
    struct source_env source_env = {
        .loop = env->loop,
        .writer = &slot->writer,
        .log = env->log,
        .roots = env->roots,
        .pids = &set->pids,
        .helper = set->helper,
        .requester = env->requester,
        .shares = set->shares,
        .keeps_ended = keeps_ended(config, slot->buffer),
        .names_ended = wants_names_of_ended(config),
    };
    nsec_t began = loop_share_begin(set->sessions);
    set->n_tried += !slot->implicit;
    r = class->open(&source_env, source_config, &slot->source, err);
    loop_share_spend_since(set->sessions, began);
    if (r < 0)
        return r;
    set->n++;
    set->n_implicit += slot->implicit;
    return 0;
}

// Opens the implicit source. Without it, the session still records its config. Returns 0 or
// -ENOMEM.
static int open_implicit(struct source_set *set, const struct source_set_env *env,
                         const struct source_class *class, const Pb__TraceConfig *config)
{
    struct err err = {0};
    if (!wants_implicit_names(config) || !source_class_is(class, implicit_names_config.name))
        return 0;
    int r = open_slot(set, env, class, config, &implicit_names_config, &err);
    if (r < 0 && r != -ENOMEM)
        log_debug(set->log, "tasks are not named: %s", err.text);
    return r == -ENOMEM ? r : 0;
}

// Logs a failure that affects one of several sources. The failure of a single source, and a lack of
// memory, are reported as the session's own failure.
static void leave_out(struct source_set *set, const char *name, const struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    size_t used = strlen(set->left_out);
    strbuf_addf(&text, "%s is not recorded: %s", name, err->text);
    if (err->hint[0])
        strbuf_addf(&text, " (%s)", err->hint);
    if (text.failed)
        return;
    log_warning(set->log, "%s%s", set->title, text.text);
    if (!strstr(set->left_out, text.text)) // changed filters may cause another attempt
        snprintf(set->left_out + used, sizeof(set->left_out) - used, "%s%s", used > 0 ? "; " : "",
                 text.text);
}

static int forward_single(struct err *err, int r, const char *name, const struct err *source_err)
{
    if (err)
        *err = *source_err;
    return err_prefix(err, r, "%s", name);
}

static bool is_required(const struct source_set *set, const struct source_class *class)
{
    return set->required && source_class_is(class, set->required);
}

static bool wants(const Pb__TraceConfig__DataSource *entry, const struct source_class *class)
{
    return entry->config && entry->config->name && source_class_is(class, entry->config->name) &&
           filters_match(entry);
}

static size_t count_wanted(const struct source_set_env *env, const Pb__TraceConfig *config)
{
    size_t n = 0;
    for (const struct source_class *const *class = env->classes; *class; class ++)
        for (size_t i = 0; i < config->n_data_sources; i++)
            n += wants(config->data_sources[i], *class);
    return n;
}

static void packet_lost(void *userdata, uint32_t sequence_id, const uint8_t *data, size_t size)
{
    struct source_set *set = userdata;
    size_t i = sequence_id - FIRST_SOURCE_SEQUENCE_ID;
    if (i < set->n && set->slots[i].running && set->slots[i].class->lost)
        set->slots[i].class->lost(set->slots[i].source, data, size);
}

int source_set_open(struct source_set *set, const struct source_set_env *env,
                    const Pb__TraceConfig *config, struct err *err)
{
    *set = (struct source_set){.log = env->log, .required = env->required};
    set->rest_begun = env->rest_begun;
    set->userdata = env->userdata;
    if (env->shares) {
        set->shares = env->shares;
        set->readings = &env->shares->readings;
        set->sessions = &env->shares->sessions;
        set->loop = env->loop;
    }
    if (env->title)
        snprintf(set->title, sizeof(set->title), "%s: ", env->title);
    set->slots = memory_calloc(config->n_data_sources + 2, sizeof(set->slots[0]));
    if (!set->slots)
        return err_errno(err, -ENOMEM, "data sources");
    if (env->roots->foreign && foreign_helper_new(env->roots->foreign, &set->helper) < 0)
        return err_errno(err, -ENOMEM, "helper");
    size_t n_wanted = count_wanted(env, config);
    if (n_wanted == 0 && config->n_data_sources > 0) {
        err_set(err, -ENOENT, "nothing to record: none of the config's data sources is known");
        return err_hint(err, -ENOENT, "see mmtrace sources");
    }
    for (const struct source_class *const *class = env->classes; *class; class ++) {
        if (open_implicit(set, env, *class, config) < 0)
            return err_errno(err, -ENOMEM, "names of tasks");
        for (size_t i = 0; i < config->n_data_sources; i++) {
            const Pb__TraceConfig__DataSource *entry = config->data_sources[i];
            if (!wants(entry, *class))
                continue;
            struct err source_err = {0};
            int r = open_slot(set, env, *class, config, entry->config, &source_err);
            if (r < 0 && (n_wanted == 1 || r == -ENOMEM || is_required(set, *class)))
                return forward_single(err, r, entry->config->name, &source_err);
            if (r < 0)
                leave_out(set, entry->config->name, &source_err);
        }
    }
    if (set->n == set->n_implicit && n_wanted > 0)
        return err_set(err, -ENODEV, "nothing is left to record");
    return 0;
}

static const struct source_slot *find_slot(const struct source_set *set,
                                           const Pb__DataSourceConfig *config)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->slots[i].config == config)
            return &set->slots[i];
    return NULL;
}

bool source_set_has_started(const struct source_set *set, const Pb__DataSourceConfig *config)
{
    const struct source_slot *slot = find_slot(set, config);
    return slot && slot->has_started;
}

size_t source_set_open_more(struct source_set *set, const struct source_set_env *env,
                            const Pb__TraceConfig *config)
{
    size_t n_before = set->n;
    for (const struct source_class *const *class = env->classes; *class; class ++) {
        for (size_t i = 0; i < config->n_data_sources; i++) {
            const Pb__TraceConfig__DataSource *entry = config->data_sources[i];
            struct err err = {0};
            if (wants(entry, *class) && !find_slot(set, entry->config) &&
                open_slot(set, env, *class, config, entry->config, &err) < 0)
                leave_out(set, entry->config->name, &err);
        }
    }
    return n_before;
}

void source_set_prepare(struct source_set *set, size_t first)
{
    for (size_t i = first; i < set->n && has_time_ahead(set, i - first); i++) {
        struct source_slot *slot = &set->slots[i];
        struct err err = {0};
        nsec_t began = loop_share_begin(set->sessions);
        if (slot->class->prepare && slot->class->prepare(slot->source, &err) < 0)
            log_warning(set->log, "%s is not prepared: %s; it will be tried again",
                        slot->config->name, err.text);
        loop_share_spend_since(set->sessions, began);
    }
}

static void plan_stop(struct source_slot *slot, nsec_t now)
{
    if (slot->config->trace_duration_ms > 0)
        slot->stop_due = now + (nsec_t)slot->config->trace_duration_ms * NSEC_PER_MSEC;
}

static int start_slot(struct source_set *set, struct source_slot *slot, struct err *err)
{
    nsec_t began = loop_share_begin(set->sessions);
    int r = slot->class->start(slot->source, err);
    loop_share_spend_since(set->sessions, began);
    if (r < 0)
        return r;
    slot->running = slot->has_started = true;
    packet_buffer_on_lost(slot->writer.buffer, packet_lost, set);
    set->n_running += !slot->implicit;
    return 0;
}

static void clear_slot(struct source_set *set, struct source_slot *slot)
{
    nsec_t began = loop_share_begin(set->readings);
    slot->needs_clear = false;
    if (slot->running && slot->class->clear_state)
        slot->class->clear_state(slot->source);
    loop_share_spend_since(set->readings, began);
}

// Clears the sources of buffers that were replaced, until the share is used up. Readers drop the
// packets of the others until then.
static void clear_rest(struct source_set *set)
{
    for (size_t i = 0; i < set->n && source_set_has_time(set); i++)
        if (set->slots[i].needs_clear)
            clear_slot(set, &set->slots[i]);
}

static bool needs_clear(const struct source_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->slots[i].needs_clear)
            return true;
    return false;
}

// Sets the timer for starts and clears that are left.
static void plan_late(struct source_set *set)
{
    nsec_t due = NSEC_MAX;
    if (!set->late)
        return;
    if (!source_set_is_begun(set))
        due = set->sessions->free_at;
    if (needs_clear(set) && set->readings->free_at < due)
        due = set->readings->free_at;
    loop_set_timer(set->late, due, 0);
}

// Starts the sources that are left, until the share is used up; then a timer goes on. A source
// whose own duration is over by then does not start.
static void start_rest(struct source_set *set)
{
    for (; set->n_begun < set->n; set->n_begun++) {
        struct source_slot *slot = &set->slots[set->n_begun];
        struct err err = {0};
        nsec_t now = nsec_now(CLOCK_BOOTTIME);
        if (set->late && !loop_share_is_left(set->sessions, now))
            break;
        int r = slot->stop_due > now
                    ? start_slot(set, slot, &err)
                    : err_set(&err, -ETIMEDOUT, "its duration was over before " STARTS_LATE);
        if (r < 0)
            leave_out(set, slot->config->name, &err);
    }
    plan_late(set);
}

static void late_is_due(void *userdata)
{
    struct source_set *set = userdata;
    clear_rest(set);
    start_rest(set);
    if (source_set_is_begun(set) && set->rest_begun)
        set->rest_begun(set->userdata);
}

// Without memory for the timer, all sources start at once.
static void make_late(struct source_set *set)
{
    if (set->loop && !set->late)
        (void)loop_add_timer(set->loop, NSEC_MAX, 0, late_is_due, set, &set->late);
}

void source_set_start_more(struct source_set *set, size_t first, nsec_t now)
{
    for (size_t i = first; i < set->n; i++)
        plan_stop(&set->slots[i], now);
    make_late(set);
    start_rest(set);
}

int source_set_start(struct source_set *set, nsec_t now, struct err *err)
{
    for (size_t i = 0; i < set->n; i++)
        plan_stop(&set->slots[i], now);
    make_late(set);
    for (; set->n_begun < set->n; set->n_begun++) {
        if (!has_time_ahead(set, set->n_begun > set->n_implicit))
            break;
        struct source_slot *slot = &set->slots[set->n_begun];
        struct err source_err = {0};
        int r = start_slot(set, slot, &source_err);
        bool single = set->n - set->n_implicit == 1 || is_required(set, slot->class);
        if (r == -ENOMEM || (r < 0 && single && !slot->implicit))
            return forward_single(err, r, slot->config->name, &source_err);
        if (r < 0)
            leave_out(set, slot->config->name, &source_err);
    }
    if (!source_set_is_begun(set))
        start_rest(set);
    else if (set->n_running == 0 && set->n > set->n_implicit)
        return err_set(err, -ENODEV, "nothing is left to record");
    return 0;
}

static void flush_slot(struct source_set *set, struct source_slot *slot)
{
    if (!slot->running || !slot->class->flush)
        return;
    nsec_t began = loop_share_begin(set->readings);
    slot->class->flush(slot->source);
    loop_share_spend_since(set->readings, began);
}

bool source_set_has_time(const struct source_set *set)
{
    return loop_share_is_left(set->readings, nsec_now(CLOCK_BOOTTIME));
}

bool source_set_flush_in_share(struct source_set *set)
{
    for (size_t i = set->n; i-- > 0; set->n_flushed++) {
        if (!source_set_has_time(set))
            return false;
        flush_slot(set, &set->slots[set->n - 1 - set->n_flushed % set->n]);
    }
    return true;
}

void source_set_flush(struct source_set *set)
{
    for (size_t i = set->n; i-- > 0;)
        flush_slot(set, &set->slots[i]);
}

void source_set_dump(struct source_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        nsec_t began = loop_share_begin(set->readings);
        if (set->slots[i].running && set->slots[i].class->dump)
            set->slots[i].class->dump(set->slots[i].source);
        loop_share_spend_since(set->readings, began);
    }
}

void source_set_dump_copy(struct source_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->slots[i].running && set->slots[i].class->dump_copy)
            set->slots[i].class->dump_copy(set->slots[i].source);
}

// Begins with another source each time, so that each has its turn if the share is small. A clear
// does not follow at once on a start that took long.
void source_set_clear_state(struct source_set *set)
{
    memset(set->pids.recent, 0, sizeof(set->pids.recent));
    for (size_t i = 0; i < set->n && source_set_has_time(set) &&
                       loop_share_is_left(set->sessions, nsec_now(CLOCK_BOOTTIME));
         i++, set->n_cleared++)
        clear_slot(set, &set->slots[set->n_cleared % set->n]);
}

void source_set_replace_buffer(struct source_set *set, size_t buffer,
                               struct packet_buffer *replacement)
{
    memset(set->pids.recent, 0, sizeof(set->pids.recent));
    for (size_t i = 0; i < set->n; i++) {
        struct source_slot *slot = &set->slots[i];
        if (slot->buffer != buffer)
            continue;
        slot->writer.buffer = replacement;
        packet_buffer_on_lost(replacement, packet_lost, set);
        slot->needs_clear = true;
    }
    clear_rest(set);
    plan_late(set);
}

static void stop_slot(struct source_set *set, struct source_slot *slot)
{
    if (!slot->running)
        return;
    nsec_t began = loop_share_begin(set->sessions);
    slot->class->stop(slot->source);
    loop_share_spend_since(set->sessions, began);
    slot->running = false;
    slot->stop_due = NSEC_MAX;
    set->n_running -= !slot->implicit;
}

// Reports the sources that were to start later.
static void leave_out_rest(struct source_set *set)
{
    struct err err = {0};
    if (source_set_is_begun(set) || set->n_begun == 0)
        return;
    err_set(&err, -ETIMEDOUT,
            "the recording was over before " STARTS_LATE "; the same holds for %zu more",
            set->n - set->n_begun - 1);
    leave_out(set, set->slots[set->n_begun].config->name, &err);
}

void source_set_stop(struct source_set *set)
{
    leave_out_rest(set);
    set->late = loop_remove_timer(set->late);
    set->n_begun = set->n;
    for (size_t i = set->n; i-- > 0;)
        stop_slot(set, &set->slots[i]);
}

nsec_t source_set_stop_due(struct source_set *set, nsec_t now)
{
    nsec_t next = NSEC_MAX;
    for (size_t i = set->n; i-- > 0;) {
        struct source_slot *slot = &set->slots[i];
        if (slot->stop_due <= now) {
            flush_slot(set, slot);
            stop_slot(set, slot);
        } else if (slot->stop_due < next) {
            next = slot->stop_due;
        }
    }
    return next;
}

void source_set_counts(const struct source_set *set, struct source_counts *ret)
{
    *ret = (struct source_counts){.problem = set->left_out[0] ? set->left_out : NULL};
    for (size_t i = 0; i < set->n; i++) {
        struct source_counts counts = {0};
        if (set->slots[i].class->counts && !set->slots[i].implicit)
            set->slots[i].class->counts(set->slots[i].source, &counts);
        ret->events += counts.events;
        ret->events_lost += counts.events_lost;
        ret->readings_missed += counts.readings_missed;
        if (!ret->problem)
            ret->problem = counts.problem;
    }
}

uint64_t source_set_writer_losses(const struct source_set *set, size_t buffer)
{
    uint64_t losses = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->slots[i].buffer == buffer)
            losses += set->slots[i].writer.packets_dropped;
    return losses;
}

void source_set_done(struct source_set *set)
{
    source_set_stop(set);
    nsec_t began = loop_share_begin(set->sessions);
    for (size_t i = set->n; i-- > 0;)
        set->slots[i].source = set->slots[i].class->close(set->slots[i].source);
    loop_share_spend_since(set->sessions, began);
    set->helper = foreign_helper_free(set->helper);
    free(set->slots);
    *set = (struct source_set){0};
}
