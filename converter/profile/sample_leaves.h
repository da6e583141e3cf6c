// SPDX-License-Identifier: Apache-2.0
//
// The call stacks of perf samples in a database, with the number of samples of each.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

// The choice of samples.
struct sample_choice {
    // "cpu", "faults", "reclaim", or the name of an event as in perf_counter_track (* and ?).
    const char *of;
    int64_t from, to;    // samples after `from`, up to `to`; INT64_MIN: from the beginning
    int64_t pid;         // -1: all
    const char *pids;    // pids, each between commas: ",1,2,"; NULL or empty: all
    const char *process; // a pattern; NULL: all
    bool by_thread;
};

// Columns of a row. The thread is NULL unless `by_thread` is set.
enum {
    LEAF_CALLSITE,
    LEAF_UPID,
    LEAF_PID,
    LEAF_PROCESS,
    LEAF_THREAD,
    LEAF_SAMPLES,
    LEAF_PROCESSES, // number of processes in all rows
    LEAF_COLUMNS,
};

// Returns SQLite's code; the handle has the message. The statement has a row for each call stack of
// each process. The texts of `choice` are borrowed until the end of the statement.
int sample_leaves_prepare(sqlite3 *handle, const struct sample_choice *choice, sqlite3_stmt **ret);
