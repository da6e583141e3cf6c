// SPDX-License-Identifier: Apache-2.0
//
// The state of a conversion that importers share.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/map.h"
#include "converter/decode/clocks.h"
#include "converter/decode/trace.h"
#include "converter/import/args.h"
#include "converter/import/async_tracks.h"
#include "converter/import/descriptors.h"
#include "converter/import/ftrace/ftrace_rows.h"
#include "converter/import/machines.h"
#include "converter/import/process/process_counters.h"
#include "converter/import/process/processes.h"
#include "converter/import/process/thread_states.h"
#include "converter/import/profile/deobfuscation.h"
#include "converter/import/profile/samples.h"
#include "converter/import/profile/stacks.h"
#include "converter/import/session/metadata.h"
#include "converter/import/slices.h"
#include "converter/import/stats.h"
#include "converter/import/track_event/translations.h"
#include "converter/import/tracks.h"
#include "converter/tables/database.h"

#define CPUS_MAX            4096 // of a machine; see ucpu in schema.h
#define IMPORTER_FIELDS_MAX 3200 // numbers of importers' fields are below

struct ftrace;
struct json_reader;

struct import {
    struct database *db;   // borrowed
    struct input *input;   // borrowed
    struct strset strings; // texts that outlive their packet
    struct clocks clocks;
    struct args args;
    struct tracks tracks;
    struct async_tracks async_tracks;
    struct stats stats;
    struct metadata metadata;
    struct processes processes;
    struct process_counters process_counters;
    struct translations translations;
    struct slices slices;
    struct thread_states thread_states;
    struct descriptors descriptors;
    struct stacks stacks;
    struct samples samples;
    struct deobfuscation deobfuscation;
    struct ftrace_rows ftrace_rows;
    struct ftrace *ftrace;                    // owned
    uint8_t importer_of[IMPORTER_FIELDS_MAX]; // field of TracePacket -> index in importers, + 1
    struct machine_vec machines;              // owned
    struct machine *machine;                  // borrowed: the one at hand
    struct map64 gpus;                        // machine and number of a GPU -> its ugpu
    struct map64 packages;      // user id of an Android package -> its name, in strings
    struct strset package_keys; // name and user id of those that have a row
    struct json_reader *json;   // owned; NULL: not needed yet
    uint64_t n_packets;
    const struct trace_result *result; // borrowed
    bool has_realtime;
    int64_t realtime_offset; // real time minus trace time, by the first reading of both (ns)
    bool has_bounds;
    int64_t start_ts, end_ts;                      // of all rows that have a time
    bool (*progress)(void *userdata, double done); // may be NULL; false stops
    void *userdata;
    struct err *err;
};

// Converts the whole of `input` into `db`, which it does not finish. Damage in the trace is no
// failure: see *ret and the stats table.
int import_trace(struct database *db, struct input *input, const char *spill_folder,
                 bool (*progress)(void *userdata, double done), void *userdata, struct err *err,
                 struct trace_result *ret);

// A row has this time.
static inline void import_bounds(struct import *im, int64_t ts)
{
    if (!im->has_bounds || ts < im->start_ts)
        im->start_ts = ts;
    if (!im->has_bounds || ts > im->end_ts)
        im->end_ts = ts;
    im->has_bounds = true;
}

static inline void cpus_see(struct import *im, uint32_t cpu)
{
    if (cpu < CPUS_MAX)
        im->machine->cpus[cpu] = true;
}

// The number of a processor that is unique in the trace.
static inline uint32_t ucpu_of(const struct import *im, uint32_t cpu)
{
    return im->machine->number * CPUS_MAX + cpu;
}

// `timestamp` of a clock of the machine at hand as trace time; false: nothing connects the two.
static inline bool import_time(struct import *im, uint32_t clock_id, int64_t timestamp,
                               int64_t *ret)
{
    return clocks_convert(&im->clocks, clock_key(clock_id, 0, im->machine->number), timestamp, ret);
}

// The same; what cannot be told is counted.
static inline bool import_time_counted(struct import *im, uint32_t clock_id, int64_t timestamp,
                                       int64_t *ret)
{
    if (import_time(im, clock_id, timestamp, ret))
        return true;
    bool known = clocks_know(&im->clocks, clock_key(clock_id, 0, im->machine->number));
    stats_add(
        &im->stats,
        known ? STAT_clock_sync_failure_no_path : STAT_clock_sync_failure_unknown_source_clock, 1);
    return false;
}

// A value of a counter. Returns the row's id.
static inline int64_t counter_push(struct import *im, int64_t ts, uint32_t track, double value,
                                   int64_t arg_set)
{
    int64_t id;
    struct cell *row = database_row(im->db, TABLE_counter, &id);
    cell_int(row, COL_counter_ts, ts);
    cell_int(row, COL_counter_track_id, track);
    cell_real(row, COL_counter_value, value);
    cell_arg_set(row, COL_counter_arg_set_id, arg_set);
    import_bounds(im, ts);
    return id;
}

// The number of a GPU that is unique in the trace.
int64_t gpus_get(struct import *im, uint32_t gpu);

void gpu_frequency_push(struct import *im, int64_t ts, uint32_t gpu, double khz);

// Memory of a GPU (bytes), all of it or, if `pid` is not 0, what that process has.
void gpu_memory_push(struct import *im, int64_t ts, uint32_t gpu, uint32_t pid, double bytes);
