// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of reading perf maps: it finds and opens the files, and hands out their text.
#pragma once

#include "producer/foreign/job.h"
#include "producer/sources/perf_map/perf_map_file.h"

#define PERF_MAP_PIECE ((size_t)16384)

struct perf_map_ask {
    struct perf_map_process process;
    // Of the map that is being read: another helper may have opened it before. Inode 0: none yet.
    dev_t device;
    ino_t inode;
    uint64_t offset, times_offset; // up to which text has come
    bool ended;                    // the process is no more: what it has left is read to its end
    bool last;                     // also what is behind the last newline
};

// Behind it: the new text of the map, then that of its times.
struct perf_map_news {
    bool is_new; // another map than the one in the question: the text is that of its beginning
    dev_t device;
    ino_t inode;
    uint32_t n_text, n_times;
    uint64_t n_left;              // bytes that are there behind the offsets of the question
    bool refused;                 // this program may not look at the files of this process
    char path[PERF_MAP_PATH_MAX]; // as the process names it
};

// Of a perf_map_ask, perhaps with the process's root beside it. A perf_map_news, or a negative
// errno: its files cannot be looked at.
void perf_map_read_job(struct foreign_worker *worker, struct foreign_request *request,
                       struct foreign_answer *ret);
// Of a perf_map_process: nobody will ask for its map any more.
void perf_map_forget_job(struct foreign_worker *worker, struct foreign_request *request,
                         struct foreign_answer *ret);
