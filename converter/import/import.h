// SPDX-License-Identifier: Apache-2.0
//
// The state of a conversion that importers share.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/map.h"
#include "common/nsec.h"
#include "converter/decode/clocks.h"
#include "converter/decode/trace.h"
#include "converter/import/args.h"
#include "converter/import/async_tracks.h"
#include "converter/import/machines.h"
#include "converter/import/metadata.h"
#include "converter/import/processes.h"
#include "converter/import/slices.h"
#include "converter/import/states.h"
#include "converter/import/stats.h"
#include "converter/import/thread_states.h"
#include "converter/import/tracks.h"
#include "converter/import/translations.h"
#include "converter/tables/database.h"
#include "protos/fields.h"

#define CPUS_MAX 4096 // of a machine; see ucpu in schema.h

#define IMPORTER_PLACES 512 // a power of 2, more than twice the number of importers

struct importer;

struct importer_number {
    const struct importer *importer; // NULL: a free place
    uint16_t index;                  // in importers
};

struct import {
    struct database *db;     // borrowed
    struct failure *failure; // borrowed: the database's
    struct input *input;     // borrowed
    struct strset strings;   // texts that outlive their packet
    struct clocks clocks;
    struct args args;
    struct tracks tracks;
    struct async_tracks async_tracks;
    struct stats stats;
    struct metadata metadata;
    struct processes processes;
    struct translations translations;
    struct slices slices;
    struct states states;
    struct thread_states thread_states;
    uint8_t importer_of[PB_END_TracePacket]; // field of TracePacket -> index in importers, + 1
    struct importer_number places[IMPORTER_PLACES]; // by importer_place()
    struct machine_vec machines;                    // owned
    struct machine *machine;                        // borrowed: the current machine
    uint64_t n_packets;
    nsec_t start; // of the conversion, CLOCK_MONOTONIC
    bool has_realtime;
    int64_t realtime_offset; // ns: real time minus trace time in the first snapshot of both
    struct bounds bounds;    // of all rows that have a time
    bool is_cut;             // the trace ends early
    bool (*progress)(void *userdata, double done); // may be NULL; false stops
    void *userdata;
    struct err *err;
};

// Ends the conversion with the negative errno `r`; 0 has no effect. The caller need not stop: later
// rows are discarded, and no further packet is read. Damage in the trace does not end a conversion.
static inline void import_fail(struct import *im, int r)
{
    failure_note(im->failure, r);
}

static inline bool import_failed(const struct import *im)
{
    return im->failure->code < 0;
}

// Returns the value of `key`. A new key gets the value `initial`. NULL: the conversion must end.
static inline uint64_t *import_map_get(struct import *im, struct map64 *map, uint64_t key,
                                       uint64_t initial, bool *ret_new)
{
    uint64_t *value = map64_get_or_add(map, key, initial, ret_new);
    if (!value)
        import_fail(im, -ENOMEM);
    return value;
}

static inline void import_map_set(struct import *im, struct map64 *map, uint64_t key,
                                  uint64_t value)
{
    import_fail(im, map64_set(map, key, value));
}

// Returns the id of `key` in `set`, or -1: the conversion must end. *ret_new: the key was added.
int64_t import_set_add(struct import *im, struct strset *set, const void *key, size_t size,
                       bool *ret_new);

// Keeps the text of a field. Returns its id in strings, or STRSET_NONE: the conversion must end.
static inline uint32_t import_keep(struct import *im, const struct wire_field *field)
{
    return strset_add(&im->strings, field_text(field), field->size);
}

// Extends the trace's bounds to the time of a row.
static inline void import_bounds(struct import *im, int64_t ts)
{
    bounds_add(&im->bounds, ts);
}

static inline void cpus_see(struct import *im, uint32_t cpu)
{
    if (cpu < CPUS_MAX)
        im->machine->cpus[cpu] = true;
}

// Returns the number of a CPU that is unique across machines.
static inline uint32_t ucpu_of(const struct import *im, uint32_t cpu)
{
    return im->machine->number * CPUS_MAX + cpu;
}

// Converts a time of a clock of the current machine to trace time (ns). False: no clock snapshot
// connects the clock with the trace clock.
static inline bool import_time(struct import *im, uint32_t clock_id, int64_t timestamp,
                               int64_t *ret)
{
    return clocks_convert(&im->clocks, clock_key(clock_id, 0, im->machine->number), timestamp, ret);
}

// Does the work of import_time(), and counts the times that cannot be converted.
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

// Adds a value of a counter. Returns the row's id.
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

// Returns false if memory ran out while the text was built. The conversion must then end.
bool import_strbuf_whole(struct import *im, const struct strbuf *text);

// Keeps a built text. Returns its id in strings, or STRSET_NONE: the conversion must end.
uint32_t import_strbuf_keep(struct import *im, const struct strbuf *text);

// Counts a problem in stats and adds a row of trace_import_logs. `ts`: the time of the problem;
// NULL: not known.
void import_log(struct import *im, enum stat stat, const int64_t *ts, const struct arg *args,
                size_t n);

// Returns a formatted text that outlives its packet.
__attribute__((format(printf, 2, 3))) struct slice_name import_text(struct import *im,
                                                                    const char *format, ...);
struct slice_name import_text_keep(struct import *im, const char *text, size_t size);

// Returns the track of slices of a thread.
uint32_t thread_track_get(struct import *im, int64_t utid);

// Adds a flow between two slices, unless either is SLICE_NONE.
void flow_row_write(struct import *im, int64_t from, int64_t to);
