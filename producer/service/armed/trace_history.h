// SPDX-License-Identifier: Apache-2.0
//
// The newest finished traces in the folders that a daemon writes into, for a bugreport.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/vec.h"

#define TRACE_HISTORY_AGE   (24 * 3600 * NSEC_PER_SEC)
#define TRACE_HISTORY_BYTES ((uint64_t)64 << 20)
#define TRACE_HISTORY_FILES 16

struct trace_history_folder {
    const char *path;
    const char
        *stem;     // files are STEM-TIME.pftrace or STEM-TRIGGER-TIME.pftrace; NULL: all *.pftrace
    int32_t score; // bugreport_score of the sessions of these files
};

struct trace_history_limits {
    nsec_t age;     // most time since the last write, in ns
    uint64_t bytes; // limit of all files together; the newest may be larger
    uint32_t files; // limit; 0: none
    bool parts;     // also unfinished parts of a dead daemon, if no process writes them
};

struct finished_trace {
    int fd;         // owned, for reading
    char *path;     // owned
    nsec_t written; // real time of the last write
    uint64_t bytes;
    int32_t score;
    bool is_part;
};
VEC_DEFINE(finished_traces, struct finished_trace);

struct trace_history {
    struct finished_traces traces; // newest first
    struct strbuf problems;        // a line for each folder or file that cannot be read
    uint32_t n_old,
        n_beyond;          // too old; beyond the limits on number or size
    uint32_t n_unfinished; // without limits.parts: number of parts
    nsec_t newest_old;     // last write to the files that are too old
};

// Finds the newest traces within `limits`. Accepts only files of root, of this user and of the
// folder's owner, and no file with a second link: in a folder of other users, a link could lead
// anywhere. `now` is the real time. Returns 0 or -ENOMEM.
int trace_history_find(const struct trace_history_folder *folders, size_t n_folders,
                       const struct trace_history_limits *limits, nsec_t now,
                       struct trace_history *ret);
void trace_history_done(struct trace_history *history); // fit for CLEANUP()
