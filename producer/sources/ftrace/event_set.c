// SPDX-License-Identifier: Apache-2.0
//
// Events are looked up by their folder, which takes one read each. The list of all events is read
// only for names without a group, for patterns, and to suggest a name for an unknown one.
//
// With sched_switch in the set, scheduling events are written in columns unless the config forbids
// columns. Perfetto writes columns, too; readers know both forms.
#include "producer/sources/ftrace/event_set.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/memory.h"
#include "common/str.h"
#include "producer/sources/ftrace/atrace_categories.h"
#include "producer/sources/ftrace/tracefs.h"

#define UNKNOWN_TOLD 16 // names that are told, with the nearest name

struct known_event {
    const char *group, *name;
    bool is_added; // by a pattern
};

VEC_DEFINE(known_events, struct known_event);

struct builder {
    struct event_set *set;
    const char *root;
    const Pb__FtraceConfig *config;
    const struct log *log;
    struct known_events known; // texts in the set's arena
    bool known_read;
    bool throttled; // rss_stat is replaced by its throttled variant
    bool quiet;     // missing events were not requested by name
    size_t n_unknown;
};

// Returns the style of events that are not in the generated table.
static enum event_plan_style generic_style(const Pb__FtraceConfig *config)
{
    return config->has_denser_generic_event_encoding && !config->denser_generic_event_encoding
               ? EVENT_PLAN_GENERIC
               : EVENT_PLAN_DESCRIBED;
}

// -- all events of the kernel --

static int add_known(struct builder *builder, const char *group, const char *name)
{
    struct known_event event = {
        .group = arena_strndup(&builder->set->arena, group, strlen(group)),
        .name = arena_strndup(&builder->set->arena, name, strlen(name)),
    };
    return event.group && event.name ? known_events_push(&builder->known, event) : -ENOMEM;
}

// Lists the events of a group, or of all groups if `group` is NULL.
static int list_events(struct builder *builder, const char *group)
{
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "%s/events/%s", builder->root, group ? group : "") < 0)
        return -ENOMEM;
    DIR *dir CLEANUP(closedirp) = opendir(path);
    const struct dirent *entry;
    int r = 0;
    while (dir && r == 0 && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
            r = group ? add_known(builder, group, entry->d_name)
                      : list_events(builder, entry->d_name);
    return r;
}

static int list_all(struct builder *builder)
{
    if (builder->known_read)
        return 0;
    builder->known_read = true;
    return list_events(builder, NULL);
}

// -- one event --

static int note(struct strset *names, const char *group, const char *name)
{
    CLEANUP(freep) char *text = NULL;
    int size = group ? asprintf(&text, "%s/%s", group, name) : asprintf(&text, "%s", name);
    if (size < 0)
        return -ENOMEM;
    return strset_add(names, text, (size_t)size) == STRSET_NONE ? -ENOMEM : 0;
}

static int grow_plans(struct event_set *set, uint16_t id)
{
    if (id < set->n_plans)
        return 0;
    size_t n = id + 1u;
    struct event_plan **plans = realloc(set->plans, n * sizeof(struct event_plan *));
    if (!plans)
        return -ENOMEM;
    for (size_t i = set->n_plans; i < n; i++)
        plans[i] = NULL;
    set->plans = plans;
    set->n_plans = n;
    return 0;
}

static void note_specials(struct event_set *set, const char *group,
                          const struct event_format *format)
{
    const struct format_field *text = event_format_field(format, "buf");
    if (str_eq(group, "ftrace") && str_eq(format->name, "print") && text) {
        set->print_id = format->id;
        set->print_text = text->offset;
    }
}

static int read_format(const char *root, const char *group, const char *name,
                       struct event_format *ret, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    int r = tracefs_read_at(&text, "%s/events/%s/%s/format", root, group, name);
    if (r < 0)
        return err_errno(err, r, "event %s/%s", group, name);
    r = event_format_parse(text.text, text.size, ret, err);
    return r < 0 ? err_prefix(err, r, "%s/%s", group, name) : 0;
}

static int add_chosen(struct event_set *set, const char *group, const struct event_format *format)
{
    struct chosen_event chosen = {
        .group = arena_strndup(&set->arena, group, strlen(group)),
        .name = arena_strndup(&set->arena, format->name, strlen(format->name)),
        .id = format->id,
    };
    return chosen.group && chosen.name ? chosen_events_push(&set->chosen, chosen) : -ENOMEM;
}

static int add_plan(struct event_set *set, const char *group, const struct event_format *format,
                    enum event_plan_style style, struct err *err)
{
    int r = grow_plans(set, format->id);
    if (r < 0 || set->plans[format->id])
        return r;
    const struct ftrace_event_type *type = NULL;
    if (style == EVENT_PLAN_TYPED)
        type = ftrace_event_type_by_kernel_name(group, format->name);
    r = event_plan_compile(format, group, style, type, set->long_size, &set->plans[format->id],
                           err);
    if (r < 0)
        return r;
    note_specials(set, group, format);
    return add_chosen(set, group, format);
}

static bool is_event_name(const char *name)
{
    return *name && !strchr(name, '/') && name[0] != '.';
}

int event_set_add(struct event_set *set, const char *root, const char *group, const char *name,
                  enum event_plan_style style, struct err *err)
{
    if (!is_event_name(group) || !is_event_name(name))
        return err_set(err, -ENOENT, "event %s/%s: not a name", group, name);
    struct event_format format;
    int r = read_format(root, group, name, &format, err);
    if (r < 0)
        return r == -ENOTDIR ? -ENOENT : r;
    r = add_plan(set, group, &format, style, err);
    event_format_done(&format);
    return r;
}

// Switches the event on without a plan for it.
static int add_unrecorded(struct event_set *set, const struct event_format *format)
{
    return event_set_has(set, "sched", format->name) ? 0 : add_chosen(set, "sched", format);
}

static int add_exits(struct event_set *set, const struct event_format *format, struct err *err)
{
    const struct format_field *pid = event_format_field(format, "pid");
    const struct format_field *comm = event_format_field(format, "comm");
    if (!pid || pid->size != sizeof(int32_t) || !comm || !comm->size || !str_eq(comm->type, "char"))
        return err_set(err, -EINVAL, "sched/sched_process_exit: unexpected fields");
    set->exits = (struct exit_format){format->id, pid->offset, comm->offset, comm->size};
    return add_unrecorded(set, format);
}

static int add_frees(struct event_set *set, const struct event_format *format, struct err *err)
{
    const struct format_field *pid = event_format_field(format, "pid");
    if (!pid || pid->size != sizeof(int32_t))
        return err_set(err, -EINVAL, "sched/sched_process_free: unexpected fields");
    set->frees = (struct free_format){format->id, pid->offset};
    return add_unrecorded(set, format);
}

static int add_end(struct event_set *set, const char *root, const char *name,
                   int (*add)(struct event_set *, const struct event_format *, struct err *),
                   struct err *err)
{
    struct event_format format;
    int r = read_format(root, "sched", name, &format, err);
    if (r < 0)
        return r;
    r = add(set, &format, err);
    event_format_done(&format);
    return r;
}

int event_set_add_ends(struct event_set *set, const char *root, struct err *err)
{
    int r = add_end(set, root, "sched_process_exit", add_exits, err);
    if (r < 0)
        return r;
    r = add_end(set, root, "sched_process_free", add_frees, err);
    return r == -ENOMEM ? r : 0;
}

bool event_set_records(const struct event_set *set, uint16_t id)
{
    return id < set->n_plans && set->plans[id];
}

bool event_set_has(const struct event_set *set, const char *group, const char *name)
{
    vec_foreach(&set->chosen, event)
        if (str_eq(event->group, group) && str_eq(event->name, name))
            return true;
    return false;
}

// -- the config --

static int tell_unknown(struct builder *builder, const char *group, const char *name)
{
    if (builder->quiet)
        return 0;
    if (builder->n_unknown++ >= UNKNOWN_TOLD)
        return note(&builder->set->unknown, group, name);
    int r = list_all(builder);
    if (r < 0)
        return r;
    // Searches within the group if there is one of this name, otherwise among all events.
    CLEANUP(freep) const char **names = memory_calloc(builder->known.n + 1, sizeof(*names));
    if (!names)
        return -ENOMEM;
    size_t n = 0;
    for (int pass = group ? 0 : 1; pass < 2 && !n; pass++)
        vec_foreach(&builder->known, event)
            if (pass || (group && str_eq(event->group, group)))
                names[n++] = event->name;
    const char *nearest = str_nearest(name, names, n), *nearest_group = "";
    vec_foreach(&builder->known, event)
        if (nearest && event->name == nearest)
            nearest_group = event->group;
    if (nearest)
        log_warning(builder->log, "ftrace: this kernel has no event %s%s%s, did you mean %s/%s?",
                    group ? group : "", group ? "/" : "", name, nearest_group, nearest);
    else
        log_warning(builder->log, "ftrace: this kernel has no event %s%s%s", group ? group : "",
                    group ? "/" : "", name);
    return note(&builder->set->unknown, group, name);
}

static int add_event(struct builder *builder, const char *group, const char *name)
{
    struct event_set *set = builder->set;
    if (str_eq(group, EVENT_GROUP_KPROBE) || str_eq(group, EVENT_GROUP_KRETPROBE))
        return 0;
    if (builder->throttled && str_eq(group, "kmem") && str_eq(name, "rss_stat")) {
        group = "synthetic";
        name = "rss_stat_throttled";
    }
    enum event_plan_style style = EVENT_PLAN_TYPED;
    if (!ftrace_event_type_by_kernel_name(group, name))
        style = generic_style(builder->config);
    if (style != EVENT_PLAN_TYPED && builder->config->disable_generic_events)
        return note(&set->failed, group, name);
    struct err err = {0};
    int r = event_set_add(set, builder->root, group, name, style, &err);
    if (r == -ENOENT)
        return tell_unknown(builder, group, name);
    if (r < 0 && r != -ENOMEM) {
        log_warning(builder->log, "ftrace: %s", err.text);
        return note(&set->failed, group, name);
    }
    return r;
}

// A config may name an event again and again.
static int add_named(struct builder *builder, const char *group, const char *name)
{
    return event_set_has(builder->set, group, name) ? 0 : add_event(builder, group, name);
}

static int add_pattern(struct builder *builder, const char *group, const char *pattern)
{
    int r = list_all(builder);
    if (r < 0)
        return r;
    size_t n = 0;
    for (size_t i = 0; i < builder->known.n && r == 0; i++) {
        struct known_event *event = &builder->known.items[i];
        // The kernel's own record types are not events that can be switched on. A config requests
        // useful types by name.
        if (str_eq(event->group, "ftrace") && !str_eq(group, "ftrace"))
            continue;
        if (fnmatch(group, event->group, 0) != 0 || fnmatch(pattern, event->name, 0) != 0)
            continue;
        n++;
        if (!event->is_added)
            r = add_event(builder, event->group, event->name);
        event->is_added = true;
    }
    if (r == 0 && !n && !builder->quiet) {
        log_warning(builder->log, "ftrace: no event of this kernel matches %s/%s", group, pattern);
        r = note(&builder->set->unknown, group, pattern);
    }
    return r;
}

static int add_bare_name(struct builder *builder, const char *name)
{
    int r = list_all(builder);
    if (r < 0)
        return r;
    // If several groups have the name, the group in the generated table wins.
    const char *group = NULL;
    vec_foreach(&builder->known, event) {
        if (!str_eq(event->name, name))
            continue;
        if (!group || ftrace_event_type_by_kernel_name(event->group, name))
            group = event->group;
    }
    return group ? add_named(builder, group, name) : tell_unknown(builder, NULL, name);
}

static int add_text(struct builder *builder, const char *text)
{
    const char *slash = strchr(text, '/');
    if (!slash)
        return add_bare_name(builder, text);
    CLEANUP(freep) char *group = strndup(text, (size_t)(slash - text));
    if (!group)
        return -ENOMEM;
    if (strpbrk(text, "*?["))
        return add_pattern(builder, group, slash + 1);
    return add_named(builder, group, slash + 1);
}

static int add_category(struct builder *builder, const char *category)
{
    const char *events = atrace_category_events(category);
    int r = 0;
    builder->quiet = true;
    while (events && *events && r == 0) {
        size_t size = strcspn(events, " ");
        CLEANUP(freep) char *event = strndup(events, size);
        r = event ? add_text(builder, event) : -ENOMEM;
        events += size + strspn(events + size, " ");
    }
    builder->quiet = false;
    return r;
}

static bool wants_markers(const Pb__FtraceConfig *config)
{
    return config->n_atrace_categories || config->n_atrace_apps;
}

static bool has_throttled_rss_stat(const char *root)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    return tracefs_read_at(&text, "%s/events/synthetic/rss_stat_throttled/format", root) == 0;
}

static int add_all(struct builder *builder)
{
    const Pb__FtraceConfig *config = builder->config;
    int r = 0;
    if (config->throttle_rss_stat) {
        builder->throttled = has_throttled_rss_stat(builder->root);
        if (!builder->throttled)
            log_warning(builder->log, "ftrace: throttle_rss_stat: this kernel has no synthetic "
                                      "event rss_stat_throttled, every rss_stat is recorded");
    }
    for (size_t i = 0; i < config->n_ftrace_events && r == 0; i++)
        r = add_text(builder, config->ftrace_events[i]);
    for (size_t i = 0; i < config->n_atrace_categories && r == 0; i++)
        if (!config->atrace_userspace_only)
            r = add_category(builder, config->atrace_categories[i]);
    if (r == 0 && wants_markers(config))
        r = add_event(builder, "ftrace", "print");
    if (r == 0 && config->n_syscall_events) {
        r = add_event(builder, "raw_syscalls", "sys_enter");
        if (r == 0)
            r = add_event(builder, "raw_syscalls", "sys_exit");
    }
    if (r == 0 && config->enable_function_graph) {
        r = add_event(builder, "ftrace", "funcgraph_entry");
        if (r == 0)
            r = add_event(builder, "ftrace", "funcgraph_exit");
    }
    return r;
}

static void choose_compact(struct builder *builder)
{
    struct event_set *set = builder->set;
    const Pb__FtraceConfig__CompactSchedConfig *compact = builder->config->compact_sched;
    if (!event_set_has(set, "sched", "sched_switch") ||
        (compact && compact->has_enabled && !compact->enabled))
        return;
    struct event_format switched, waking;
    if (read_format(builder->root, "sched", "sched_switch", &switched, NULL) < 0)
        return;
    bool has_waking = event_set_has(set, "sched", "sched_waking") &&
                      read_format(builder->root, "sched", "sched_waking", &waking, NULL) == 0;
    set->has_compact = compact_format_of(&switched, has_waking ? &waking : NULL, &set->compact);
    if (!set->has_compact)
        note(&set->failed, "perfetto", "compact_sched (unexpected sched event format)");
    event_format_done(&switched);
    if (has_waking)
        event_format_done(&waking);
}

int event_set_build(const char *root, const Pb__FtraceConfig *config, size_t long_size,
                    const struct log *log, struct event_set *ret, struct err *err)
{
    struct event_set set = {.long_size = long_size};
    struct builder builder = {.set = &set, .root = root, .config = config, .log = log};
    int r = add_all(&builder);
    known_events_done(&builder.known);
    if (r < 0) {
        event_set_done(&set);
        return err_errno(err, r, "ftrace events");
    }
    if (builder.n_unknown > UNKNOWN_TOLD)
        log_warning(log, "ftrace: this kernel lacks %zu more events",
                    builder.n_unknown - UNKNOWN_TOLD);
    choose_compact(&builder);
    *ret = set;
    return 0;
}

void event_set_done(struct event_set *set)
{
    for (size_t i = 0; i < set->n_plans; i++)
        event_plan_free(set->plans[i]);
    free(set->plans);
    chosen_events_done(&set->chosen);
    strset_done(&set->unknown);
    strset_done(&set->failed);
    arena_done(&set->arena);
    *set = (struct event_set){0};
}
