// SPDX-License-Identifier: Apache-2.0
//
// The limits of one conversion: memory, and room in files (database, inflated data, sorted data).
// Reading stops before a limit is reached, so that all data that was read can be written.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_MEMORY_MIN ((uint64_t)64 << 20)
// Memory of the program itself: stacks of threads, SQLite's caches.
#define BUDGET_MEMORY_OWN ((uint64_t)64 << 20)
#define BUDGET_OUTPUT_MIN ((uint64_t)1 << 20)

enum budget_limit { BUDGET_LASTS, BUDGET_MEMORY, BUDGET_OUTPUT };

// The stages of a conversion. An earlier stage leaves more of the budget to the later stages.
enum budget_stage {
    BUDGET_INPUT, // bytes are inflated, or read from a pipe
    BUDGET_WALK,  // packets are read in the order of the file
    BUDGET_ROWS,  // rows are made
};

struct budget {
    uint64_t memory_max, output_max; // bytes; UINT64_MAX: no limit
    _Atomic uint64_t output;         // bytes in files
    uint64_t before;                 // `output` when the current input file was begun
    unsigned narrowed;               // how often the file's share was halved
    bool is_room;                    // output_max is the free room, not a given limit
    bool is_default;                 // memory_max is the default, not a given limit
    int statm;                       // owned; -1: used memory is unknown
};

// Opens a budget. A limit of 0 is the default: half of the available memory, and the free room in
// `folder`. A lower RLIMIT_DATA of the process limits memory, too.
void budget_open(struct budget *budget, uint64_t memory_max, uint64_t output_max,
                 const char *folder);
void budget_close(struct budget *budget);

// Returns the limit that ends reading, or BUDGET_LASTS. `budget` may be NULL in this function,
// budget_take(), budget_give(), budget_note(), budget_narrowed() and budget_is_tight().
enum budget_limit budget_check(const struct budget *budget, enum budget_stage stage);

// Call budget_take() before a file grows, and budget_give() after bytes of a file are freed.
// budget_take() returns 0, or -EDQUOT if the file must not grow.
int budget_take(struct budget *budget, uint64_t n_bytes);
void budget_give(struct budget *budget, uint64_t n_bytes);

// Counts bytes that are in a file already: SQLite's files grow without budget_take().
void budget_note(struct budget *budget, uint64_t n_bytes);

// Returns true if files may grow by `n_bytes`.
bool budget_fits(const struct budget *budget, uint64_t n_bytes);

// Input files are read one after the other, and each may use a share of the rest. If reading did
// not end early enough, the same file is read again with half of its share. budget_begin() begins a
// file. budget_narrow() halves the share after the failure `r` of reading, and returns false if the
// failure has another cause or if the share was halved too often.
void budget_begin(struct budget *budget);
bool budget_narrow(struct budget *budget, int r);
unsigned budget_narrowed(const struct budget *budget); // number of halvings

// Returns true if room is so short that rows waiting for the writer could change the result of a
// check. The caller then lets the writer finish before budget_check(), so that the same input
// always leads to the same rows.
bool budget_is_tight(const struct budget *budget);

// Writes "--max-memory, 512 MiB, is reached" or the like into `buffer`, and returns it.
const char *budget_text(const struct budget *budget, enum budget_limit limit, char *buffer,
                        size_t size);

// Returns the bytes of memory that are available to this process now, on the machine and in its
// memory cgroup; UINT64_MAX: unknown.
uint64_t memory_available(void);
