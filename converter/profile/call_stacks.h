// SPDX-License-Identifier: Apache-2.0
//
// Reads the call stacks of heap profiles and sampling profilers from a database into a flame graph.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "converter/profile/flame.h"

#define CALL_STACK_MAX 4096 // frames of a stack; further frames are cut

enum call_stacks_kind {
    STACKS_HEAP_BYTES,
    STACKS_HEAP_COUNT,
    STACKS_SAMPLES,  // of one session of one profiler
    STACKS_OF_EVENT, // perf samples of one kind of event (sample_leaves.h)
};

// Which stacks. -1 and NULL: all.
struct call_stacks {
    enum call_stacks_kind kind;
    int64_t before;       // heap: the weight before is the state up to this time; INT64_MIN: none
    int64_t at;           // heap: the weight is the state up to this time
    bool total;           // heap: all allocations, freed or not
    bool is_before;       // the stacks are the earlier side of a comparison
    bool without_pid;     // processes are distinguished by name alone
    bool reverse;         // innermost frames first
    uint32_t depth_limit; // number of frames
    int64_t pid, upid, machine_id;
    const char *process, *heap; // borrowed; process may have * and ?
    const char *source;         // samples: borrowed; the profiler
    int64_t session_id;         // samples: the session; -1: samples without a session
    const char *of;             // event: borrowed; as in struct sample_choice
    int64_t from;               // event: samples after this time, up to `at`; INT64_MIN: all
    bool by_thread;             // event: the thread is a frame, too
};

// Reads the names of all frames, once for each connection. Otherwise call_stacks_read() reads the
// names, but fails while another statement runs. Returns SQLite's code; the handle has the message.
int call_stacks_prepare(sqlite3 *handle);

// Adds the stacks. If several processes match, the process is the outermost frame. Returns SQLite's
// code; the handle has the message.
int call_stacks_read(sqlite3 *handle, const struct call_stacks *stacks, struct flame *flame);
