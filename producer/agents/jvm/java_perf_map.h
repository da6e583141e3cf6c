// SPDX-License-Identifier: Apache-2.0
//
// /tmp/perf-PID.map: which code the VM has made, for tools that meet its addresses; and when, and
// when it was given up, in perf-PID.map.times beside it. Any thread.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_map;

#define PERF_MAP_PATH_MAX 64
#define PERF_MAP_E_LIMIT  1 // the files have reached their limit

// The map's path, as the process itself sees it.
void perf_map_path(pid_t pid, char path[PERF_MAP_PATH_MAX]);

// Replaces the files, which together do not get longer than max_bytes; a symbolic link is refused.
// 0 or negative errno.
int perf_map_open(pid_t pid, uint64_t max_bytes, struct perf_map **ret);

// Code that is there from `ts` on (CLOCK_BOOTTIME, ns; 0: nobody knows since when), also where
// other code was before. Control characters of the name become '?'.
void perf_map_add(struct perf_map *map, int64_t ts, const void *address, size_t size,
                  const char *name, size_t name_size);

// The code at `address` is gone.
void perf_map_remove(struct perf_map *map, int64_t ts, const void *address);

// What was added goes to the files. 0, or why no line is taken any more: PERF_MAP_E_LIMIT, or
// the negative errno of a write. Both files then end on a whole line.
int perf_map_flush(struct perf_map *map);

// Flushes, and returns the same.
int perf_map_close(struct perf_map *map);
