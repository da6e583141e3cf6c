// SPDX-License-Identifier: Apache-2.0
//
// What one conversion may use: memory, and room in files (database, inflated data, what is
// sorted). Reading stops before the limits are reached, so that what was read can be written.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_MEMORY_MIN ((uint64_t)64 << 20)
// Of the program itself, beside what it remembers: stacks of threads, SQLite's caches.
#define BUDGET_MEMORY_OWN ((uint64_t)64 << 20)
#define BUDGET_OUTPUT_MIN ((uint64_t)1 << 20)

enum budget_limit { BUDGET_LASTS, BUDGET_MEMORY, BUDGET_OUTPUT };

// How far a conversion has come. The earlier, the more is still to come.
enum budget_stage {
    BUDGET_INPUT, // bytes are inflated, or taken from a pipe
    BUDGET_WALK,  // packets are read in the order of the file
    BUDGET_ROWS,  // rows are made
};

struct budget {
    uint64_t memory_max, output_max; // bytes; UINT64_MAX: none
    _Atomic uint64_t output;         // bytes in files
    uint64_t before;                 // of `output`, when the file that is read was begun
    unsigned narrowed;               // how often its share was halved
    bool is_room;                    // output_max is what was free, and no limit
    bool is_default;                 // memory_max was not asked for
    int statm;                       // owned; -1: memory is not known
};

// 0 for a limit is the default: half of what memory is available, the room that is
// free where `folder` is. A lower limit of the process (RLIMIT_DATA) counts.
void budget_open(struct budget *budget, uint64_t memory_max, uint64_t output_max,
                 const char *folder);
void budget_close(struct budget *budget);

// Whether reading may go on, or which limit ends it. `budget` may be NULL in all that follows.
enum budget_limit budget_check(const struct budget *budget, enum budget_stage stage);

// Before a file grows, and when it has gone. 0, or -EDQUOT: it must not.
int budget_take(struct budget *budget, uint64_t n_bytes);
void budget_give(struct budget *budget, uint64_t n_bytes);

// For bytes that are in a file already: SQLite does not ask.
void budget_note(struct budget *budget, uint64_t n_bytes);

// Whether files could have so much more.
bool budget_fits(const struct budget *budget, uint64_t n_bytes);

// One file after the other is read, and may use a share of what is left then. Where reading did not
// end early enough, the same file is read again with half of its share. `r` is how reading failed.
// False: it failed for another reason, or half is hardly anything.
void budget_begin(struct budget *budget);
bool budget_narrow(struct budget *budget, int r);
unsigned budget_narrowed(const struct budget *budget); // how often

// Whether what waits to be written may decide if there is room: then it is written before
// budget_check(), so that the same input leads to the same rows each time.
bool budget_is_tight(const struct budget *budget);

// "--max-memory, 512 MiB, is reached".
const char *budget_text(const struct budget *budget, enum budget_limit limit, char *buffer,
                        size_t size);

// Bytes of memory that are available to this process now; of the machine, or of its memory cgroup.
uint64_t memory_available(void);
