// SPDX-License-Identifier: Apache-2.0
//
// /tmp/perf-PID.map: which code the VM has made, for tools that meet its addresses. Any thread.
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct perf_map;

// Replaces the file; a symbolic link is refused. 0 or negative errno.
int perf_map_open(pid_t pid, struct perf_map **ret);

// Code that is there from now on, also where other code was before. Control characters of the name
// become '?'.
void perf_map_add(struct perf_map *map, const void *address, size_t size, const char *name,
                  size_t name_size);

void perf_map_flush(struct perf_map *map);
void perf_map_close(struct perf_map *map);
