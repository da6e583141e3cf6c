// SPDX-License-Identifier: Apache-2.0
//
// The format has no place for times, and no line for code that is gone: whatever else stood in the
// file, perf and others would take it for symbols. So times have a file of their own. Its lines are
// written first: whoever sees a line of the map finds its time.
#include "producer/agents/jvm/perf_map.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/agents/jvm/line_file.h"

#define NUMBERS_MAX 64

struct perf_map {
    pthread_mutex_t lock;
    struct line_file file, times;
};

int perf_map_open(pid_t pid, struct perf_map **ret)
{
    char path[64], times_path[sizeof(path) + 8];
    struct perf_map *map = malloc(sizeof(*map));
    if (!map)
        return -ENOMEM;
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)pid);
    snprintf(times_path, sizeof(times_path), "%s.times", path);
    int r = line_file_open(&map->times, times_path);
    if (r == 0 && (r = line_file_open(&map->file, path)) < 0)
        line_file_close(&map->times);
    if (r < 0) {
        free(map);
        return r;
    }
    pthread_mutex_init(&map->lock, NULL);
    *ret = map;
    return 0;
}

static void files_flush(struct perf_map *map)
{
    line_file_flush(&map->times);
    line_file_flush(&map->file);
}

static void time_put(struct perf_map *map, int64_t ts, const void *address, const char *size)
{
    char *at = line_begin(&map->times, NUMBERS_MAX);
    if (at)
        line_end(&map->times,
                 at + sprintf(at, "%" PRId64 " %" PRIxPTR "%s", ts, (uintptr_t)address, size));
}

void perf_map_add(struct perf_map *map, int64_t ts, const void *address, size_t size,
                  const char *name, size_t name_size)
{
    char size_text[NUMBERS_MAX];
    snprintf(size_text, sizeof(size_text), " %zx", size);
    pthread_mutex_lock(&map->lock);
    if (!line_fits(&map->file, NUMBERS_MAX + name_size))
        files_flush(map);
    char *at = line_begin(&map->file, NUMBERS_MAX + name_size);
    if (at) {
        time_put(map, ts, address, size_text);
        at += sprintf(at, "%" PRIxPTR " %zx ", (uintptr_t)address, size);
        for (size_t i = 0; i < name_size; i++)
            *at++ = (unsigned char)name[i] < ' ' || name[i] == 0x7f ? '?' : name[i];
        line_end(&map->file, at);
    }
    pthread_mutex_unlock(&map->lock);
}

void perf_map_remove(struct perf_map *map, int64_t ts, const void *address)
{
    pthread_mutex_lock(&map->lock);
    time_put(map, ts, address, "");
    pthread_mutex_unlock(&map->lock);
}

void perf_map_flush(struct perf_map *map)
{
    pthread_mutex_lock(&map->lock);
    files_flush(map);
    pthread_mutex_unlock(&map->lock);
}

void perf_map_close(struct perf_map *map)
{
    pthread_mutex_lock(&map->lock);
    line_file_close(&map->times);
    line_file_close(&map->file);
    pthread_mutex_unlock(&map->lock);
}
