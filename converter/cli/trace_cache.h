// SPDX-License-Identifier: Apache-2.0
//
// Databases that earlier questions made of traces, below $XDG_CACHE_HOME/mmtrace. A cache that
// cannot be used costs no answer: the trace is converted as without the cache.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/str.h"
#include "converter/cli/verb_options.h"
#include "converter/cli/working_file.h"

struct sqlite3;

// All zero is no cache.
struct trace_cache {
    char *folder;  // owned; NULL: no cache
    char *refusal; // owned; the message about a folder that is not used; NULL: no message
    uint64_t bytes_max;
};

// Finds the folder, and makes the folder if it is missing. Must run before the sandbox is entered,
// which has to allow writing below cache->folder. Reads no file, so `path`, which the question is
// about, may turn out to be a database. Nothing happens for pipes and devices.
void trace_cache_open(struct trace_cache *cache, const char *path);
void trace_cache_done(struct trace_cache *cache); // fit for CLEANUP()

// A question to a file: what the file is, and all that changes its conversion
struct cached_trace {
    struct strbuf key; // with the terminator at its end
    char *entry;       // owned; path of the folder in the cache
    char *working;     // owned; the name beside which a conversion makes its working folder
    bool is_settled;   // a later write to the file changes the key
};

// Returns false if the cache cannot hold an answer for `path`: there is no cache, or the file is a
// pipe or a device. `ret` is released by the caller in any case.
bool cached_trace_of(const struct trace_cache *cache, const char *path, const struct limits *limits,
                     bool crops_track_events, struct cached_trace *ret);
void cached_trace_done(struct cached_trace *trace); // fit for CLEANUP()

// Opens the database of an earlier question, and prints the messages of its conversion. Returns
// false if there is none.
bool trace_cache_find(const struct cached_trace *trace, struct sqlite3 **ret);

// Returns true if the conversion of `path` may be written to the cache's file system: it has as
// much room as `other`, or plenty for a file of this size.
bool trace_cache_has_room(const struct trace_cache *cache, const char *path, const char *other);

// Keeps the folder of a conversion, which has the database, as the answer for `trace`; `messages`
// are those of the conversion. Removes the entries whose last use is longest ago until all take
// bytes_max at most. A folder that is not kept stays with the caller.
void trace_cache_keep(const struct trace_cache *cache, const struct cached_trace *trace,
                      const struct strbuf *messages, struct working_folder *folder);
