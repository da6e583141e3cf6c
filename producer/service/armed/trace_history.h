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
    int32_t score; // bugreport_score of what makes them
};

struct trace_history_limits {
    nsec_t age;     // since the file was written last
    uint64_t bytes; // of all together; the newest may be larger
    uint32_t files; // 0: none
    bool parts;     // also what a dead daemon left unfinished, if nobody writes it
};

struct finished_trace {
    int fd;         // owned, for reading
    char *path;     // owned
    nsec_t written; // real time, when it was written last
    uint64_t bytes;
    int32_t score;
    bool is_part;
};
VEC_DEFINE(finished_traces, struct finished_trace);

struct trace_history {
    struct finished_traces traces; // newest first
    struct strbuf problems;        // a line for each folder or file that cannot be read
    uint32_t n_old, n_beyond;      // left out for their age; for the number or size of them all
    uint32_t n_unfinished;         // without limits.parts: what has the name of a part
    nsec_t newest_old;             // of those that are too old: when the newest was written
};

// Takes files of root, of this user and of the folder's owner only, and none with a second name: in
// a folder where others can write, a link could lead anywhere. `now` is the real time.
// 0 or -ENOMEM.
int trace_history_find(const struct trace_history_folder *folders, size_t n_folders,
                       const struct trace_history_limits *limits, nsec_t now,
                       struct trace_history *ret);
void trace_history_done(struct trace_history *history); // fit for CLEANUP()
