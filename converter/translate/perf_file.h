// SPDX-License-Identifier: Apache-2.0
//
// The head and the features of a perf.data file, which give its records a meaning.
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/map.h"
#include "common/text.h"
#include "common/vec.h"

#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1U << 4)
#endif

// Bytes that are read from the front. `failed`: a read went beyond the end.
struct perf_bytes {
    const uint8_t *at, *end;
    bool failed;
};

static inline size_t perf_bytes_left(const struct perf_bytes *bytes)
{
    return (size_t)(bytes->end - bytes->at);
}

// Copies `size` bytes. Missing bytes at the end are zeros.
void perf_bytes_take(struct perf_bytes *bytes, void *ret, size_t size);
void perf_bytes_skip(struct perf_bytes *bytes, size_t size);
uint64_t perf_u64(struct perf_bytes *bytes);
uint32_t perf_u32(struct perf_bytes *bytes);
// Reads a text up to its zero byte, or to the end.
struct text perf_text_take(struct perf_bytes *bytes);

// An event that triggers samples, or that samples read.
struct perf_event {
    struct perf_event_attr attr;
    struct text name; // borrowed from the file; empty: not known
};
VEC_DEFINE(perf_event_vec, struct perf_event);

struct perf_build_id {
    uint8_t bytes[20];
    uint8_t size;
};
VEC_DEFINE(perf_build_id_vec, struct perf_build_id);

struct perf_file {
    const uint8_t *start, *end;     // borrowed: the file
    const uint8_t *data, *data_end; // borrowed: its records
    bool is_cut;                    // the records end beyond the file
    bool is_stream;                 // written to a pipe: the records also have the features
    bool is_simpleperf;
    struct perf_event_vec events;
    struct map64 event_of_id;  // id -> index in events
    size_t n_ids_read;         // repeated ids count, too
    uint64_t n_compared;       // events that were compared with names of simpleperf
    struct strset build_files; // pid and path -> index in build_ids
    struct perf_build_id_vec build_ids;
    struct perf_bytes symbol_files; // of simpleperf: a size and a message for each file
    char *cmdline;                  // owned; NULL: not known
    struct text os_release;         // borrowed
    uint8_t skipped[256];           // features that are not read
    bool failed;                    // memory ran out
    const char *damage;             // static; the damage of the file; NULL: no damage
};

// Reads the file's head and features. file->damage describes damage. The parts that could be read
// are kept.
void perf_file_read(struct perf_file *file, const uint8_t *bytes, size_t size);
void perf_file_done(struct perf_file *file);

// Adds an event with its ids.
void perf_event_add(struct perf_file *file, struct perf_bytes attr, struct perf_bytes ids);

// Reads a feature.
void perf_feature_read(struct perf_file *file, unsigned feature, struct perf_bytes bytes);

// Reads a list of build ids.
void perf_build_ids_read(struct perf_file *file, struct perf_bytes bytes);

// Returns the build id of a file that a process mapped, or NULL.
const struct perf_build_id *perf_build_id_find(const struct perf_file *file, uint32_t pid,
                                               struct text path);
