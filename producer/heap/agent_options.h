// SPDX-License-Identifier: Apache-2.0
//
// The options after the `=` of -agentpath: SAMPLE_RATE,STACK_DEPTH_LIMIT,LOG_PATH as in Android's
// agent, and NAME or NAME=VALUE at any position. With `trace` the agent writes no log.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_LIBRARY_NAME "libtiallocsample"
#define AGENT_LIBRARY_FILE AGENT_LIBRARY_NAME ".so"
#define AGENT_DEPTH_MAX    512
#define AGENT_SOCKET_MAX   108
#define AGENT_PERF_MAP_MAX ((uint64_t)256 << 20) // default limit of a perf map and its times

#define AGENT_OPTIONS_USAGE                                                                        \
    "SAMPLE_RATE,STACK_DEPTH_LIMIT,LOG_PATH,bytes=N,live,lines,short,perfmap=N,inlined,"           \
    "trace=SOCKET,once,stop"

struct agent_options {
    uint32_t sample_rate; // one sample per this many allocations; unused with bytes
    uint32_t depth_limit; // maximum methods of a stack, counted from the innermost
    int32_t bytes;        // one sample per this many allocated bytes on average; 0: by sample_rate
    bool live;            // also write LOG_PATH.live: the samples still in use at the end
    bool lines;           // frames have file and line
    bool short_names;     // frames have no class
    bool perf_map;        // also write /tmp/perf-PID.map
    bool inlined;         // with perf_map: also methods that were inlined into others
    uint64_t perf_map_max_bytes;
    bool trace;   // samples go to recorders, with their intervals
    bool once;    // only to the present recorder, if any
    bool stop;    // end the running sampling, and begin no other
    bool has_log; // SAMPLE_RATE or LOG_PATH is given
    char log_path[PATH_MAX];
    char socket[AGENT_SOCKET_MAX]; // of recorders
};

// Starts with the defaults and applies the text; NULL: no text. `pid` is for the log's name.
// Returns 0, or -EINVAL with a sentence in why[why_size].
int agent_options_parse(const char *text, int pid, struct agent_options *ret, char *why,
                        size_t why_size);
