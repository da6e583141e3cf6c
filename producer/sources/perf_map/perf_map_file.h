// SPDX-License-Identifier: Apache-2.0
//
// The perf map of one process: its place, and its unread part. Only a helper (perf_map_job.h)
// enters the process's files.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define PERF_MAP_PATH_MAX 512

// Data of a process from /proc. Reading them never blocks.
struct perf_map_process {
    int32_t pid;
    int32_t inner_pid;      // in the process's own pid namespace
    uint64_t start_ticks;   // start time; distinguishes two owners of the pid
    int64_t start_realtime; // start time in seconds of the real-time clock
    uid_t uid;              // owner of its files
    gid_t gid;
};

// Reads process `pid` in `proc` ("/proc", or a folder with the same structure). Returns 0 or
// -ESRCH.
int perf_map_process_read(struct perf_map_process *process, const char *proc, int32_t pid);

struct perf_map_file {
    struct perf_map_process process;
    int root_fd;           // owned: its root directory
    int fd;                // owned; -1: no map yet
    int times_fd;          // owned; -1: the runtime does not write times
    dev_t device;          // of the map
    ino_t inode;           // of the map
    uint64_t offset;       // bytes of the map that were read
    uint64_t times_offset; // bytes of the times that were read
    bool refused;      // this program may not take the rights of the process: no map can be opened
    char package[256]; // "": none
    char path[PERF_MAP_PATH_MAX];
};

// Opens the file with `root_fd` (owned), or with the root of the process if `root_fd` is -1.
// perf_map_file_close() must be called in every case. Returns 0 or a negative errno: -ESRCH if
// the process has ended.
int perf_map_file_open(struct perf_map_file *file, const char *proc,
                       const struct perf_map_process *process, int root_fd);

// Updates the data of the process, as long as no map was found and the process lives.
void perf_map_file_refresh(struct perf_map_file *file, const char *proc);

// Looks for a map, or for a new map at the same path. Returns true if a map was found that must be
// read from its beginning.
bool perf_map_file_find(struct perf_map_file *file);

// Reads whole lines from file->offset on; the caller moves the offset. `last`: also reads the text
// after the last newline. Returns the number of bytes; 0 if there are no new lines, or no map.
size_t perf_map_file_read(const struct perf_map_file *file, char *buffer, size_t size, bool last);

// Reads the file of times beside the map as perf_map_file_read() reads the map.
size_t perf_map_times_read(const struct perf_map_file *file, char *buffer, size_t size, bool last);

// Returns the number of unread bytes in both files.
uint64_t perf_map_file_left(const struct perf_map_file *file);

void perf_map_file_close(struct perf_map_file *file);
