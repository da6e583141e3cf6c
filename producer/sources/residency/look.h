// SPDX-License-Identifier: Apache-2.0
//
// One look at one file: finds out what there is to say about it, with as little asking as can be
// answered for.
//
// The rule. First the size and one cachestat over the whole file (several for a large one).
//   - No page resident, or all: that is the answer, exact.
//   - Counts other than last time (size, cached, evicted, recently evicted): a full probe, exact.
//   - The same counts: not proof that they are the same pages, since one page can go while another
//     comes. A file in at most LOOK_VERIFY_RUNS_MAX runs is verified, one cachestat a run: with all
//     runs full and their sum the total, no other page can be there; exact. A file in more runs is
//     probed in full only every `verify_every`-th look; in the looks between, the answer is
//     LOOK_COUNTS: nothing is claimed about runs. So a silent exchange of pages stays unseen for at
//     most `verify_every` - 1 looks, and never within a sample that claims to be exact.
// Without cachestat every look is a full probe. "Exact" is for pages that do not move while the
// look lasts; what moves then is seen as of its own moment.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/ranges.h"
#include "producer/sources/residency/probe.h"

#define LOOK_VERIFY_RUNS_MAX 8

enum look_result {
    LOOK_AGAIN,   // the deadline has passed; look_step() goes on
    LOOK_SAME,    // the runs are those of the last look; counts may differ
    LOOK_COUNTS,  // only counts are known
    LOOK_RUNS,    // look->fresh holds the runs
    LOOK_UNKNOWN, // the kernel does not tell
    LOOK_ERROR,   // look->error
};

// What the last look at a file found out. All zero: no look yet.
struct look_memory {
    struct residency_counts counts;
    struct page_ranges runs; // owned; of the last exact look
    bool has_runs;           // `runs` is the file's state as of the last exact look
    uint64_t n_looks;
};

// One look in progress; the buffers are used again for the next. All zero is fine.
struct look {
    enum { LOOK_IDLE, LOOK_COUNTING, LOOK_WALKING } stage;
    uint64_t next; // page to be counted
    struct residency_walk walk;
    nsec_t started; // boot time
    struct residency_counts counts;
    struct page_ranges fresh; // owned
    int error;                // positive errno
};

struct look_options {
    bool ranges; // not only counts
    uint32_t verify_every;
};

// Begins or continues a look at the open file `fd`, `pages` long (taken at the begin). `stagger`
// spreads full probes of many files over looks: give each file another number. `deadline` is
// CLOCK_MONOTONIC.
enum look_result look_step(struct look *look, struct residency_probe *probe,
                           const struct look_options *options, const struct look_memory *memory,
                           int fd, uint64_t pages, uint32_t stagger, nsec_t deadline);

// Takes over what a finished look found; call once with its result. look->fresh and memory->runs
// change places.
void look_remember(struct look *look, enum look_result result, struct look_memory *memory);

// Ends a look that will not be continued.
void look_cancel(struct look *look);

bool look_counts_equal(const struct residency_counts *a, const struct residency_counts *b);

void look_done(struct look *look);
void look_memory_done(struct look_memory *memory);
