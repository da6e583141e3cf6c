// SPDX-License-Identifier: Apache-2.0
//
// What stands behind the `=` of -agentpath: SAMPLE_RATE,STACK_DEPTH_LIMIT,LOG_PATH as Android's
// agent has it, and NAME or NAME=VALUE in any place. With `trace` there is no log.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_LIBRARY_NAME "libtiallocsample"
#define AGENT_LIBRARY_FILE AGENT_LIBRARY_NAME ".so"
#define AGENT_DEPTH_MAX    512
#define AGENT_SOCKET_MAX   108
#define AGENT_PERF_MAP_MAX ((uint64_t)256 << 20) // bytes of a perf map with its times, if unsaid

#define AGENT_OPTIONS_USAGE                                                                        \
    "SAMPLE_RATE,STACK_DEPTH_LIMIT,LOG_PATH,bytes=N,live,lines,short,perfmap=N,inlined,"           \
    "trace=SOCKET,once,stop"

struct agent_options {
    uint32_t sample_rate; // every so many-th allocation; unused with bytes
    uint32_t depth_limit; // methods of a stack, the innermost
    int32_t bytes;        // a sample per so many allocated bytes on average; 0: by sample_rate
    bool live;            // also write LOG_PATH.live: the samples that are still in use at the end
    bool lines;           // frames have file and line
    bool short_names;     // frames have no class
    bool perf_map;        // also write /tmp/perf-PID.map
    bool inlined;         // in it, also the methods that were inlined into others
    uint64_t perf_map_max_bytes;
    bool trace;   // samples go to recorders, at their intervals
    bool once;    // to the one that records now, if there is one
    bool stop;    // end what runs, begin nothing
    bool has_log; // SAMPLE_RATE or LOG_PATH is there
    char log_path[PATH_MAX];
    char socket[AGENT_SOCKET_MAX]; // of recorders
};

// Defaults, then what the text says; NULL is no text. `pid` is for the log's name. 0, or -EINVAL
// with a sentence in why[why_size].
int agent_options_parse(const char *text, int pid, struct agent_options *ret, char *why,
                        size_t why_size);
