// SPDX-License-Identifier: Apache-2.0
//
// Records of a perf.data file. The attributes of its event give the layout of a record.
#pragma once

#include "converter/translate/perf_file.h"

// Records that perf itself adds. linux/perf_event.h lacks these records.
enum {
    PERF_TOOL_FIRST = 64,
    PERF_TOOL_ATTR = 64,
    PERF_TOOL_TRACING_DATA = 66,
    PERF_TOOL_BUILD_ID = 67,
    PERF_TOOL_AUXTRACE_INFO = 70,
    PERF_TOOL_AUXTRACE = 71,
    PERF_TOOL_TIME_CONV = 79,
    PERF_TOOL_FEATURE = 80,
    PERF_TOOL_COMPRESSED = 81,
    PERF_TOOL_COMPRESSED2 = 83,
};

// The mode of a processor, in the numbers of ForeignSample.cpu_mode.
enum {
    PERF_MODE_UNKNOWN = 0,
    PERF_MODE_KERNEL = 1,
    PERF_MODE_USER = 2,
    PERF_MODE_HV = 3,
    PERF_MODE_GUEST_KERNEL = 4,
    PERF_MODE_GUEST_USER = 5,
};

#define PERF_COUNTERS_MAX 32 // of a sample; further counters are left out

struct perf_record {
    uint32_t type;
    uint16_t misc;
    struct perf_bytes body;         // borrowed from the file
    const struct perf_event *event; // borrowed; NULL: perf itself added the record
    size_t event_index;
    bool has_ts;
    int64_t ts;
};

struct perf_counter_value {
    uint64_t id, value;
    bool has_id;
};

struct perf_sample {
    uint64_t id, ip, period;
    uint32_t pid, tid, cpu;
    struct perf_counter_value counters[PERF_COUNTERS_MAX];
    size_t n_counters;
    struct perf_bytes chain;
    uint64_t n_chain;
};

// Reads the next record at *at and moves *at past it. Returns 1; 0 at the end; or -1 if the record
// is damaged or cut. Event and time of the record are not read.
int perf_record_next(const uint8_t **at, const uint8_t *end, struct perf_record *ret);

// Finds the event of a record. Returns false if the record's id belongs to no event.
bool perf_record_find_event(const struct perf_file *file, struct perf_record *record);

// Reads the time of a record whose event is found. record->has_ts is false if the record has no
// time.
void perf_record_read_time(struct perf_record *record);

// Returns the mode in which the record was written.
unsigned perf_record_mode(const struct perf_record *record);

// Returns the mode that a mark of a call chain announces.
unsigned perf_mode_of_mark(uint64_t mark);

static inline bool perf_mode_is_kernel(unsigned mode)
{
    return mode == PERF_MODE_KERNEL || mode == PERF_MODE_GUEST_KERNEL;
}

// Reads a sample whose event and time are found. Returns false, with *ret untouched, if the sample
// ends too early, or has no time or no thread.
bool perf_sample_read(const struct perf_record *record, struct perf_sample *ret);
