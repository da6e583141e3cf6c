// SPDX-License-Identifier: Apache-2.0
//
// /tmp/perf-PID.map: the code that the VM generated, for tools that meet its addresses.
// perf-PID.map.times beside it: the times at which the code was made and dropped. Thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_map;

#define PERF_MAP_PATH_MAX 64
#define PERF_MAP_E_LIMIT  1 // the files have reached their limit

// Makes the map's path, as this process sees it.
void perf_map_path(pid_t pid, char path[PERF_MAP_PATH_MAX]);

// Replaces both files, which together do not exceed max_bytes. A symbolic link is refused. Returns
// 0 or a negative errno.
int perf_map_open(pid_t pid, uint64_t max_bytes, struct perf_map **ret);

// Adds code that exists from `ts` on (CLOCK_BOOTTIME, ns; 0: unknown). It may replace other code.
// Control characters in the name become '?'.
void perf_map_add(struct perf_map *map, int64_t ts, const void *address, size_t size,
                  const char *name, size_t name_size);

// Notes that the code at `address` is gone.
void perf_map_remove(struct perf_map *map, int64_t ts, const void *address);

// Writes the added lines. Returns 0, or the reason why no more lines are taken: PERF_MAP_E_LIMIT,
// or the negative errno of a write. Both files then end on a whole line.
int perf_map_flush(struct perf_map *map);

// Flushes, closes, and returns as perf_map_flush().
int perf_map_close(struct perf_map *map);
