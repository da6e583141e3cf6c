// SPDX-License-Identifier: Apache-2.0
//
// The keeper: the process that puts new databases into the cache of traces (trace_cache.h). A trace
// may take over the process that converts it. Therefore the converting process may write in one
// folder only, the place. The keeper reads no trace. The keeper moves a database from the place
// into the cache. The key of the database comes from the command line, which the keeper has read
// itself. Therefore a trace cannot change the answers about other traces.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/str.h"
#include "converter/cli/working_file.h"

#define CACHE_MESSAGES "messages" // the file beside a new database that has the messages

// Keeps the folder `name` of the folder `place` for trace number `trace`. Runs in the keeper.
typedef bool (*trace_keep_fn)(void *userdata, uint32_t trace, int place, const char *name);

// All zero: there is no keeper.
struct trace_keeper {
    pid_t pid;
    int fd;                      // owned if `pid` is set
    struct working_folder place; // new databases are made below
};

// Starts the keeper before the sandbox is entered; new databases are made in `folder`. Without a
// keeper (no process, no room), no new database is kept.
void trace_keeper_start(struct trace_keeper *keeper, const char *folder, trace_keep_fn keep,
                        void *userdata);
// Ends the keeper, which removes the place. The keeper also ends if this process is killed.
void trace_keeper_end(struct trace_keeper *keeper);

// Asks the keeper to keep the folder of a conversion for a trace. `messages` are the messages of
// the conversion. A folder that is not kept stays with the caller.
void trace_keeper_ask(const struct trace_keeper *keeper, uint32_t trace,
                      const struct strbuf *messages, struct working_folder *folder);
