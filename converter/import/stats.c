// SPDX-License-Identifier: Apache-2.0
//
// See stats.h.
#include "converter/import/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/vec.h"

struct stat_def {
    const char *name, *severity, *source, *description;
    bool indexed;
};

#define STAT_DEF(stat, at_index, how_bad, from, text)                                              \
    [STAT_##stat] = {.name = #stat,                                                                \
                     .severity = (how_bad),                                                        \
                     .source = (from),                                                             \
                     .description = "" text,                                                       \
                     .indexed = (at_index)},
static const struct stat_def stat_defs[N_STATS] = {STAT_LIST(STAT_DEF)};

static uint64_t stat_key(uint32_t machine, enum stat stat, uint32_t index)
{
    return (uint64_t)machine << 48 | (uint64_t)stat << 32 | index;
}

void stats_enter_machine(struct stats *stats, uint32_t machine)
{
    int r = 0;
    while (r == 0 && stats->single.n <= machine)
        r = single_stats_vec_push(&stats->single, (struct single_stats){0});
    if (r == 0)
        stats->machine = machine;
    failure_note(stats->failure, r);
}

// Returns true if the stat belongs to no machine, as in Perfetto.
static bool is_of_all_traces(enum stat stat)
{
    return stat == STAT_invalid_clock_snapshots || stat == STAT_parse_trace_duration_ns ||
           stat == STAT_deobfuscate_location_parse_error ||
           stat == STAT_trace_sorter_negative_timestamp_dropped ||
           strncmp(stat_defs[stat].name, "heap_graph_", strlen("heap_graph_")) == 0;
}

static int64_t *single_at(const struct stats *stats, enum stat stat)
{
    uint32_t machine = is_of_all_traces(stat) ? 0 : stats->machine;
    return &stats->single.items[machine].values[stat];
}

int64_t stats_get(const struct stats *stats, enum stat stat)
{
    return *single_at(stats, stat);
}

void stats_set(struct stats *stats, enum stat stat, int64_t value)
{
    *single_at(stats, stat) = value;
}

void stats_add(struct stats *stats, enum stat stat, int64_t value)
{
    int64_t *single = single_at(stats, stat);
    *single = (int64_t)((uint64_t)*single + (uint64_t)value);
}

void stats_set_at(struct stats *stats, enum stat stat, uint32_t index, int64_t value)
{
    failure_note(stats->failure, map64_set(&stats->indexed, stat_key(stats->machine, stat, index),
                                           (uint64_t)value));
}

void stats_add_at(struct stats *stats, enum stat stat, uint32_t index, int64_t value)
{
    int64_t before = 0;
    stats_get_at(stats, stat, index, &before);
    stats_set_at(stats, stat, index, (int64_t)((uint64_t)before + (uint64_t)value));
}

bool stats_get_at(const struct stats *stats, enum stat stat, uint32_t index, int64_t *ret)
{
    const uint64_t *value = map64_find(&stats->indexed, stat_key(stats->machine, stat, index));
    if (value)
        *ret = (int64_t)*value;
    return value != NULL;
}

bool stats_any(const struct stats *stats, bool (*wanted)(const struct stat_name *stat))
{
    bool is_wanted[N_STATS], found = false;
    for (enum stat stat = 0; stat < N_STATS; stat++) {
        const struct stat_def *def = &stat_defs[stat];
        is_wanted[stat] = wanted(&(struct stat_name){def->name, def->severity});
        found |= is_wanted[stat] && *single_at(stats, stat) > 0;
    }
    size_t cursor = 0;
    const struct map64_slot *slot;
    while (!found && (slot = map64_next(&stats->indexed, &cursor)))
        found = slot->key >> 48 == stats->machine && is_wanted[slot->key >> 32 & UINT16_MAX] &&
                (int64_t)slot->value > 0;
    return found;
}

static void stat_write(struct database *db, uint32_t machine, enum stat stat, const uint32_t *index,
                       int64_t value)
{
    const struct stat_def *def = &stat_defs[stat];
    struct cell *row = database_row(db, TABLE_stats, NULL);
    cell_text(row, COL_stats_name, def->name);
    cell_int(row, COL_stats_key, stat);
    if (index)
        cell_int(row, COL_stats_idx, *index);
    cell_text(row, COL_stats_severity, def->severity);
    cell_text(row, COL_stats_source, def->source);
    cell_int(row, COL_stats_value, value);
    cell_text(row, COL_stats_description, def->description);
    if (is_of_all_traces(stat))
        return;
    cell_int(row, COL_stats_machine_id, machine);
    cell_int(row, COL_stats_trace_id, 0);
}

// Writes the rows of a machine. *next: the first indexed stat that is not yet written.
static void machine_write(const struct stats *stats, struct database *db, uint32_t machine,
                          const struct map64_slot *slots, size_t *next)
{
    for (enum stat stat = 0; stat < N_STATS; stat++) {
        if (!stat_defs[stat].indexed && (!machine || !is_of_all_traces(stat)))
            stat_write(db, machine, stat, NULL, stats->single.items[machine].values[stat]);
        for (; *next < stats->indexed.n; ++*next) {
            const struct map64_slot *slot = &slots[*next];
            uint32_t index = (uint32_t)slot->key;
            if (slot->key != stat_key(machine, stat, index))
                break;
            stat_write(db, machine, stat, &index, (int64_t)slot->value);
        }
    }
}

void stats_write(const struct stats *stats, struct database *db)
{
    CLEANUP(freep) struct map64_slot *slots = map64_sorted(&stats->indexed);
    if (!slots)
        failure_note(stats->failure, -ENOMEM);
    size_t next = 0;
    for (uint32_t machine = 0; slots && machine < stats->single.n; machine++)
        machine_write(stats, db, machine, slots, &next);
}

void stats_done(struct stats *stats)
{
    single_stats_vec_done(&stats->single);
    map64_done(&stats->indexed);
    *stats = (struct stats){0};
}
