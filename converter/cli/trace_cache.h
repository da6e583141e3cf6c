// SPDX-License-Identifier: Apache-2.0
//
// Databases that earlier questions made of traces, below $XDG_CACHE_HOME/mmtrace. If the cache
// cannot be used, mmsql converts the trace without the cache.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/str.h"
#include "common/vec.h"
#include "converter/cli/trace_keeper.h"
#include "converter/cli/verb_options.h"

struct sqlite3;

// A question to a file: the identity of the file, and all settings that change its conversion.
struct cached_trace {
    struct strbuf key; // with the terminator at its end
    char *entry;       // owned; path of the folder in the cache
    char *path;        // owned; of the file
    struct limits limits;
    bool crops_track_events;
    bool is_settled; // a later write to the file changes the key
};
VEC_DEFINE(cached_trace_vec, struct cached_trace);

// All zero: there is no cache.
struct trace_cache {
    char *folder;  // owned; NULL: no cache
    char *refusal; // owned; the message about a refused folder; NULL: no message
    bool is_looked_for;
    uint64_t bytes_max;
    struct cached_trace_vec traces; // traces of the command line that the cache lacks
    struct trace_keeper keeper;
};

// Finds the folder, makes a missing folder, and records that a question to the trace `path`
// follows. Must run before the sandbox is entered. Reads no file. Does nothing for pipes and
// devices.
void trace_cache_open(struct trace_cache *cache, const char *path, const struct limits *limits,
                      bool crops_track_events);
void trace_cache_done(struct trace_cache *cache); // fit for CLEANUP()

// Returns false if the cache cannot hold an answer for `path`: there is no cache, or the file is a
// pipe or a device. `ret` is released by the caller in any case.
bool cached_trace_of(const struct trace_cache *cache, const char *path, const struct limits *limits,
                     bool crops_track_events, struct cached_trace *ret);
void cached_trace_done(struct cached_trace *trace); // fit for CLEANUP()

// Opens the database of an earlier question, and prints the messages of its conversion. Returns
// false if there is no entry that can be used; the next question then replaces the entry.
bool trace_cache_find(const struct cached_trace *trace, struct sqlite3 **ret);

// Returns true if the conversion of `path` may be written to the cache's file system. The file
// system must have as much room as the file system of `other`, or plenty for a file of this size.
bool trace_cache_has_room(const struct trace_cache *cache, const char *path, const char *other);

// Starts the keeper (trace_keeper.h) before the sandbox is entered, if the cache lacks a trace.
void trace_cache_start(struct trace_cache *cache);

// Asks the keeper to keep the folder of a conversion as the answer for `trace`. `messages` are the
// messages of the conversion. A folder that is not kept stays with the caller.
void trace_cache_ask(const struct trace_cache *cache, const struct cached_trace *trace,
                     const struct strbuf *messages, struct working_folder *folder);
