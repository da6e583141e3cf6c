// SPDX-License-Identifier: Apache-2.0
//
// One look at one file: finds its resident pages with as few system calls as possible.
//
// The rule: a look begins with the file's size and one cachestat over the whole file (several for a
// large file).
// - No page is resident, or all are: this is the answer, and it is exact.
// - The counts (size, cached, evicted, recently evicted) differ from last time: a full probe,
//   exact.
// - The counts are the same. This does not prove that the pages are the same, because one page can
//   go while another comes. A file with at most LOOK_VERIFY_RUNS_MAX runs is verified with one
//   cachestat per run: if all runs are full and their sum is the total, no other page can be
//   resident, and the answer is exact. A file with more runs gets a full probe only at every
//   `verify_every`-th look. In between, the answer is LOOK_COUNTS, which claims nothing about runs.
//   An exchange of pages stays unseen for at most `verify_every` - 1 looks, and never in a sample
//   that claims to be exact.
//
// Without cachestat every look is a full probe. "Exact" holds for pages that do not move during the
// look; a page that moves is seen as of the moment of its own probe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/ranges.h"
#include "producer/sources/residency/probe.h"

#define LOOK_VERIFY_RUNS_MAX 8

enum look_result {
    LOOK_AGAIN,   // the deadline has passed; call look_step() again
    LOOK_SAME,    // the runs of the last look; the counts may differ
    LOOK_COUNTS,  // only counts are known
    LOOK_RUNS,    // look->fresh has the runs
    LOOK_UNKNOWN, // the kernel does not tell
    LOOK_ERROR,   // look->error says why
};

// The result of the last look at a file. All zero: no look yet.
struct look_memory {
    struct residency_counts counts;
    struct page_ranges runs; // owned; of the last exact look
    bool has_runs;           // `runs` is the file's state at the last exact look
    uint64_t n_looks;
};

// One look in progress. The next look reuses the buffers. All zero is valid.
struct look {
    enum { LOOK_IDLE, LOOK_COUNTING, LOOK_WALKING } stage;
    uint64_t next; // next page to count
    struct residency_walk walk;
    nsec_t started; // boot time
    struct residency_counts counts;
    struct page_ranges fresh; // owned
    int error;                // positive errno
};

struct look_options {
    bool ranges; // false: counts only
    uint32_t verify_every;
};

// Begins or continues a look at the open file `fd`, which has `pages` pages (read at the
// beginning). `stagger` spreads the full probes of many files over looks: give each file a
// different number. `deadline` is CLOCK_MONOTONIC.
enum look_result look_step(struct look *look, struct residency_probe *probe,
                           const struct look_options *options, const struct look_memory *memory,
                           int fd, uint64_t pages, uint32_t stagger, nsec_t deadline);

// Stores the result of a finished look. Call it once, with the look's result. Swaps look->fresh and
// memory->runs.
void look_remember(struct look *look, enum look_result result, struct look_memory *memory);

// Ends a look that will not be continued.
void look_cancel(struct look *look);

bool look_counts_equal(const struct residency_counts *a, const struct residency_counts *b);

void look_done(struct look *look);
void look_memory_done(struct look_memory *memory);
