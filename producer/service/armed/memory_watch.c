// SPDX-License-Identifier: Apache-2.0
//
// The groups:
//
//     background  kswapd is woken, pages are moved, a cgroup reclaims at its limit. All three are
//                 normal on some machines.
//     stalls      a task must reclaim before its allocation succeeds; tasks wait for memory (PSI)
//     kills       the OOM killer has chosen a victim, of the machine or of a cgroup
//
// Each group has a separate tracefs instance, because a resting group switches its instance off.
// Reclaim in cgroups is watched by its event, on cgroups v1 and v2 alike: the pressure files of
// cgroups are many, come and go, and exist only in v2. /proc/pressure/memory counts stalls in
// cgroups, too.
#include "producer/service/armed/memory_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/vec.h"
#include "producer/sources/ftrace/tracefs.h"

const char *const memory_watch_default_events[] = {
    "vmscan/mm_vmscan_kswapd_wake",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_begin",
    "compaction/mm_compaction_begin",
    "oom/mark_victim",
    NULL,
};

const char *const memory_watch_default_psi[] = {KMEM_WATCH_PSI_DEFAULT, NULL};

enum group_index { BACKGROUND, STALLS, KILLS, N_GROUPS };

struct group {
    struct memory_watch *watch; // borrowed
    const char *trigger;
    const char *events[KMEM_WATCH_EVENTS_MAX + 1]; // borrowed, NULL-terminated
    size_t n_events;
    struct kmem_watch *kmem; // owned; NULL: nothing to watch
};

struct memory_watch {
    struct memory_watch_options options;
    struct group groups[N_GROUPS];
};

DEFINE_CLEANUP(watch_freep, struct memory_watch, memory_watch_free);

static enum group_index group_of(const char *event)
{
    if (str_starts_with(event, "oom/"))
        return KILLS;
    return strstr(event, "direct_reclaim") ? STALLS : BACKGROUND;
}

static void group_hit(void *userdata, const struct kmem_watch_hit *hit)
{
    struct group *group = userdata;
    struct memory_watch *watch = group->watch;
    watch->options.hit(watch->options.userdata, group->trigger, hit);
    nsec_t until = nsec_now(CLOCK_BOOTTIME) + watch->options.rest;
    for (size_t i = 0; i < N_GROUPS; i++) {
        struct group *other = &watch->groups[i];
        if (other != group && other->kmem && str_eq(other->trigger, group->trigger))
            kmem_watch_rest_until(other->kmem, until);
    }
}

static int start_group(struct group *group, bool has_psi, struct err *err)
{
    const struct memory_watch_options *o = &group->watch->options;
    struct kmem_watch_options options = {
        .loop = o->loop,
        .log = o->log,
        .roots = o->roots,
        .events = group->events,
        .psi = has_psi ? o->psi : NULL,
        .is_default = o->events_are_default && (!has_psi || o->psi_is_default),
        .rest = o->rest,
        .rest_max = o->rest_max,
        .hit = group_hit,
        .userdata = group,
    };
    if (!group->n_events && (!has_psi || !o->psi[0]))
        return 0;
    return kmem_watch_new(&options, &group->kmem, err);
}

// If a group cannot be watched, the log says so, and the other groups are watched.
int memory_watch_new(const struct memory_watch_options *options, struct memory_watch **ret,
                     struct err *err)
{
    CLEANUP(watch_freep) struct memory_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return err_errno(err, -ENOMEM, "watch");
    watch->options = *options;
    for (size_t i = 0; i < N_GROUPS; i++) {
        watch->groups[i].watch = watch;
        watch->groups[i].trigger = i == KILLS ? MEMORY_WATCH_OOM_TRIGGER : MEMORY_WATCH_TRIGGER;
    }
    for (const char *const *event = options->events; *event; event++) {
        struct group *group = &watch->groups[group_of(*event)];
        if (group->n_events < KMEM_WATCH_EVENTS_MAX)
            group->events[group->n_events++] = *event;
    }
    struct err why[N_GROUPS] = {0};
    int results[N_GROUPS], r = 0;
    bool any = false;
    for (size_t i = 0; i < N_GROUPS; i++) {
        results[i] = start_group(&watch->groups[i], i == STALLS, &why[i]);
        any |= watch->groups[i].kmem != NULL;
        r = r == 0 ? results[i] : r;
        if (results[i] < 0 && !err->text[0])
            *err = why[i];
    }
    for (size_t i = 0; i < N_GROUPS && any; i++)
        if (results[i] < 0)
            log_warning(options->log, "some signs of %s are not watched: %s",
                        watch->groups[i].trigger, why[i].text);
    if (any)
        *ret = STEAL(watch);
    return any ? 0 : r;
}

struct memory_watch *memory_watch_free(struct memory_watch *watch)
{
    if (!watch)
        return NULL;
    for (size_t i = 0; i < N_GROUPS; i++)
        kmem_watch_free(watch->groups[i].kmem);
    free(watch);
    return NULL;
}

// -- names --

VEC_DEFINE(name_vec, const char *);

// Lists the events of the kernel: turns "group:name" lines into "group/name", and cuts the text
// into them.
static int list_events(const char *tracefs, struct strbuf *text, struct name_vec *ret)
{
    int r = tracefs_read_at(text, "%s/available_events", tracefs);
    char *state = NULL;
    if (r < 0 || !text->text)
        return r;
    for (char *line = strtok_r(text->text, "\n", &state); line;
         line = strtok_r(NULL, "\n", &state)) {
        char *colon = strchr(line, ':');
        if (colon)
            *colon = '/';
        if (colon && (r = name_vec_push(ret, line)) < 0)
            return r;
    }
    return 0;
}

// Returns the nearest name: by the whole name, or by the event's name in any group.
static const char *nearest(const struct name_vec *known, const char *event)
{
    const char *found = str_nearest(event, known->items, known->n);
    const char *slash = strchr(event, '/');
    for (size_t i = 0; !found && slash && i < known->n; i++)
        if (str_eq(strchr(known->items[i], '/'), slash))
            found = known->items[i];
    return found;
}

int memory_watch_check_events(const struct source_roots *roots, const char *const *events,
                              struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    CLEANUP(name_vec_done) struct name_vec known = {0};
    if (!roots->tracefs || list_events(roots->tracefs, &text, &known) < 0 || known.n == 0)
        return 0;
    for (; *events; events++) {
        bool found = false;
        for (size_t i = 0; i < known.n && !found; i++)
            found = str_eq(known.items[i], *events);
        if (found)
            continue;
        err_set(err, -EINVAL, "\"%s\": this kernel has no such event", *events);
        const char *near = nearest(&known, *events);
        return near ? err_hint(err, -EINVAL, "did you mean \"%s\"?", near)
                    : err_hint(err, -EINVAL, "%s/available_events lists them", roots->tracefs);
    }
    return 0;
}
