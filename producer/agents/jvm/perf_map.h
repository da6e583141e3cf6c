// SPDX-License-Identifier: Apache-2.0
//
// /tmp/perf-PID.map: which code the VM has made, for tools that meet its addresses; and when, and
// when it was given up, in perf-PID.map.times beside it. Any thread.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_map;

// Replaces the files; a symbolic link is refused. 0 or negative errno.
int perf_map_open(pid_t pid, struct perf_map **ret);

// Code that is there from `ts` on (CLOCK_BOOTTIME, ns; 0: nobody knows since when), also where
// other code was before. Control characters of the name become '?'.
void perf_map_add(struct perf_map *map, int64_t ts, const void *address, size_t size,
                  const char *name, size_t name_size);

// The code at `address` is gone.
void perf_map_remove(struct perf_map *map, int64_t ts, const void *address);

void perf_map_flush(struct perf_map *map);
void perf_map_close(struct perf_map *map);
