// SPDX-License-Identifier: Apache-2.0
//
// Writes traces of a few packets, reads them, and keeps the calls of the handler.
#pragma once

#include "common/elements.h"
#include "common/str.h"
#include "common/wire.h"
#include "converter/decode/trace.h"
#include "tests/unit/unit.h"

#define FIELD_PACKET 1

struct seen {
    struct strbuf log; // a word for each call of the handler
    unsigned problems[N_TRACE_PROBLEMS];
    uint32_t details[N_TRACE_PROBLEMS]; // of the last problem of each kind
    struct trace_result result;
    int failure;     // the result of the handler's calls after the first `n_calls`
    int n_calls;     // the number of calls that still succeed
    double stops_at; // progress() ends the reading from this share on; 0: never
};

struct trace_writer {
    uint8_t bytes[1 << 17];
    struct wire_writer w;
};

void trace_writer_start(struct trace_writer *writer);

// Reads the trace with a handler that logs its calls. Asserts that the result is `expected`.
void read_with(struct seen *seen, const void *bytes, size_t size, int expected);
// Reads like read_with(), and asserts that no failure comes. The caller releases the result with
// seen_free().
struct seen *read_bytes(const void *bytes, size_t size);
struct seen *read_all(struct trace_writer *writer);
struct seen *seen_free(struct seen *seen);

struct sample {
    int64_t ts;
    uint32_t id, sequence, clock, flags;
    bool dropped;
};

// Writes a packet of sys_stats, which is read in the order of time.
void write_sample(struct wire_writer *w, struct sample sample);
void write_bundle(struct wire_writer *w, uint32_t cpu, size_t n, const int64_t *ts);
#define BUNDLE(w, cpu, ...)                                                                        \
    write_bundle(w, cpu, ELEMENTS(((int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__})

// Writes a bundle with two descriptors of events.
void write_descriptors(struct wire_writer *w);
