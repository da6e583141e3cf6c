// SPDX-License-Identifier: Apache-2.0
//
// See metadata.h.
#include "converter/import/metadata.h"

#include <errno.h>
#include <string.h>

#include "common/str.h"

#define FACTS_MAX 65536 // further facts are ignored

// Prefixes of facts about the whole trace, and about a machine. Other facts are about a machine's
// part of this trace.
static const char *const of_trace[] = {
    "android_profile_",
    "benchmark_",
    "range_of_interest_",
    "statsd_triggering_subscription_id",
    "trace_config_pbtxt",
    "trace_size_bytes",
    "trace_time_clock_id",
    "trace_trigger",
    "trace_type",
    "trace_uuid",
    "ui_state",
    "unique_session_name",
    NULL,
};
static const char *const of_machine[] = {
    "android_", "system_", "timezone_off_mins", "tracing_service_version", NULL,
};

// Facts that may have several values, although Perfetto gives these facts a single value.
static const char *const of_chrome[] = {"cr-", NULL};

static bool has_prefix_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strncmp(name, *list, strlen(*list)) == 0)
            return true;
    return false;
}

static uint64_t fact_key(const struct metadata *metadata, uint32_t name_id, const char *name)
{
    uint32_t machine = has_prefix_of(name, of_trace) ? 0 : metadata->machine;
    return (uint64_t)name_id << 32 | machine;
}

static struct fact *fact_find(const struct metadata *metadata, const char *name)
{
    uint32_t name_id = strset_find(&metadata->names, name, strlen(name));
    if (name_id == STRSET_NONE)
        return NULL;
    const uint64_t *at = map64_find(&metadata->index, fact_key(metadata, name_id, name));
    return at ? &metadata->facts.items[*at] : NULL;
}

static void fact_add(struct metadata *metadata, const struct fact *fact)
{
    uint32_t name_id = strset_add(&metadata->names, fact->name, strlen(fact->name));
    bool is_new;
    if (name_id == STRSET_NONE || fact_vec_push(&metadata->facts, *fact) < 0 ||
        !map64_get_or_add(&metadata->index, fact_key(metadata, name_id, fact->name),
                          metadata->facts.n - 1, &is_new))
        failure_note(metadata->failure, -ENOMEM);
}

static void fact_put(struct metadata *metadata, struct fact fact)
{
    if (fact.text) {
        fact.text = arena_strndup(&metadata->arena, fact.text, fact.size);
        if (!fact.text)
            failure_note(metadata->failure, -ENOMEM);
    }
    fact.machine = has_prefix_of(fact.name, of_trace) ? 0 : metadata->machine;
    struct fact *old = fact.multi ? NULL : fact_find(metadata, fact.name);
    if (old)
        *old = fact;
    else if (metadata->facts.n < FACTS_MAX)
        fact_add(metadata, &fact);
}

void metadata_set_int(struct metadata *metadata, const char *name, int64_t value)
{
    fact_put(metadata, (struct fact){.name = name, .number = value});
}

void metadata_set_text(struct metadata *metadata, const char *name, struct text text)
{
    fact_put(metadata,
             (struct fact){.name = name, .text = text.at ? text.at : "", .size = text.size});
}

void metadata_add_int(struct metadata *metadata, const char *name, int64_t value)
{
    fact_put(metadata, (struct fact){.name = name, .number = value, .multi = true});
}

void metadata_add_text(struct metadata *metadata, const char *name, struct text text)
{
    fact_put(metadata,
             (struct fact){
                 .name = name, .text = text.at ? text.at : "", .size = text.size, .multi = true});
}

void metadata_made(struct metadata *metadata, const char *name)
{
    struct fact *fact = fact_find(metadata, name);
    if (fact)
        fact->is_made = true;
}

bool metadata_get_int(const struct metadata *metadata, const char *name, int64_t *ret)
{
    const struct fact *fact = fact_find(metadata, name);
    if (!fact || fact->text)
        return false;
    *ret = fact->number;
    return true;
}

const char *metadata_get_text(const struct metadata *metadata, const char *name)
{
    const struct fact *fact = fact_find(metadata, name);
    return fact && !fact->is_made ? fact->text : NULL;
}

bool metadata_has(const struct metadata *metadata, const char *name)
{
    return fact_find(metadata, name) != NULL;
}

const char *metadata_name(struct metadata *metadata, const char *prefix, const void *bytes,
                          size_t size)
{
    size_t n = strlen(prefix);
    char *name = arena_alloc(&metadata->arena, n + size + 1);
    if (!name) {
        failure_note(metadata->failure, -ENOMEM);
        return prefix;
    }
    memcpy(name, prefix, n);
    if (size)
        memcpy(name + n, bytes, size);
    return name;
}

void metadata_write(const struct metadata *metadata, struct database *db)
{
    vec_foreach(&metadata->facts, fact) {
        struct cell *row = database_row(db, TABLE_metadata, NULL);
        cell_text(row, COL_metadata_name, fact->name);
        cell_text(row, COL_metadata_key_type,
                  fact->multi && !has_prefix_of(fact->name, of_chrome) ? "multi" : "single");
        if (fact->text)
            cell_bytes(row, COL_metadata_str_value, fact->text, fact->size);
        else
            cell_int(row, COL_metadata_int_value, fact->number);
        if (fact->is_made)
            continue;
        bool is_of_trace = has_prefix_of(fact->name, of_trace);
        if (!is_of_trace)
            cell_int(row, COL_metadata_machine_id, fact->machine);
        if (is_of_trace || !has_prefix_of(fact->name, of_machine))
            cell_int(row, COL_metadata_trace_id, 0);
    }
}

void metadata_done(struct metadata *metadata)
{
    fact_vec_done(&metadata->facts);
    strset_done(&metadata->names);
    map64_done(&metadata->index);
    arena_done(&metadata->arena);
    *metadata = (struct metadata){0};
}
