// SPDX-License-Identifier: Apache-2.0
//
// The perf map of one process: where it is, and what of it is new. What enters the process's files
// is done by a helper (perf_map_job.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define PERF_MAP_PATH_MAX 512

// What /proc says of a process, which nobody has to wait for.
struct perf_map_process {
    int32_t pid;
    int32_t inner_pid;      // as the process itself sees it
    uint64_t start_ticks;   // when the process started; tells it from another of the same pid
    int64_t start_realtime; // the same as seconds of the real-time clock
    uid_t uid;              // whose files it has
    gid_t gid;
};

// Of the process `pid` in `proc` ("/proc", or a directory that looks like it). 0, or -ESRCH.
int perf_map_process_read(struct perf_map_process *process, const char *proc, int32_t pid);

// Ticks from the machine's start to that of the process; 0: there is none.
uint64_t perf_map_start_ticks(const char *proc, int32_t pid);

struct perf_map_file {
    struct perf_map_process process;
    int root_fd;           // owned: its root directory
    int fd;                // owned; -1: no map yet
    int times_fd;          // owned; -1: the runtime does not tell of times
    dev_t device;          // of the map
    ino_t inode;           //
    uint64_t offset;       // up to which it was read
    uint64_t times_offset; //
    bool refused;          // this program may not act as the process's user: nothing can be found
    char package[256];     // "": none
    char path[PERF_MAP_PATH_MAX];
};

// With `root_fd` (owned), or -1: that of the process. perf_map_file_close() is called in any case.
// 0 or a negative errno.
int perf_map_file_open(struct perf_map_file *file, const char *proc,
                       const struct perf_map_process *process, int root_fd);

// What the process has become, as long as no map was found and the process lives.
void perf_map_file_refresh(struct perf_map_file *file, const char *proc);

// Looks whether there is a map, or another one than before. True: a map was found that is to be
// read from its beginning.
bool perf_map_file_find(struct perf_map_file *file);

// Whole lines from file->offset on, which the caller moves; with `last`, also what is behind the
// last newline. Returns their size; 0: there is nothing new, or it is not to be read.
size_t perf_map_file_read(const struct perf_map_file *file, char *buffer, size_t size, bool last);

// The same of the file beside it that tells of times.
size_t perf_map_times_read(const struct perf_map_file *file, char *buffer, size_t size, bool last);

// Bytes behind the offsets, in both files.
uint64_t perf_map_file_left(const struct perf_map_file *file);

void perf_map_file_close(struct perf_map_file *file);
