// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of reading perf maps: finds and opens the files, and returns their text.
#pragma once

#include "producer/foreign/job.h"
#include "producer/sources/perf_map/perf_map_file.h"

#define PERF_MAP_PIECE ((size_t)16384)

struct perf_map_ask {
    struct perf_map_process process;
    // The current map; an earlier helper may have opened it. Inode 0: none yet.
    dev_t device;
    ino_t inode;
    uint64_t offset, times_offset; // bytes received so far
    bool ended;                    // the process has ended: its files are read to their end
    bool last;                     // also read the text after the last newline
};

// The new text of the map and the new text of its times follow the struct.
struct perf_map_news {
    bool is_new; // another map than in the request: its text starts at its beginning
    dev_t device;
    ino_t inode;
    uint32_t n_text, n_times;
    uint64_t n_left;              // bytes after the offsets of the request
    bool refused;                 // this program may not read the files of this process
    char path[PERF_MAP_PATH_MAX]; // as the process sees it
};

// Request: a perf_map_ask, perhaps with the process's root as the descriptor. Answer: a
// perf_map_news, or a negative errno if the process's files cannot be read.
void perf_map_read_job(struct foreign_worker *worker, struct foreign_request *request,
                       struct foreign_answer *ret);
// Request: a perf_map_process whose map will not be read again.
void perf_map_forget_job(struct foreign_worker *worker, struct foreign_request *request,
                         struct foreign_answer *ret);
