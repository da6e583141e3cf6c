// SPDX-License-Identifier: Apache-2.0
//
// The format has no line for code that is gone. Code that takes its place has a line of its own,
// and of lines for one address the last holds; who reads while the file grows knows when.
#include "producer/agents/jvm/perf_map.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer/agents/jvm/line_file.h"

#define NUMBERS_MAX 40

struct perf_map {
    pthread_mutex_t lock;
    struct line_file file;
};

int perf_map_open(pid_t pid, struct perf_map **ret)
{
    char path[64];
    struct perf_map *map = malloc(sizeof(*map));
    if (!map)
        return -ENOMEM;
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)pid);
    int r = line_file_open(&map->file, path);
    if (r < 0) {
        free(map);
        return r;
    }
    pthread_mutex_init(&map->lock, NULL);
    *ret = map;
    return 0;
}

void perf_map_add(struct perf_map *map, const void *address, size_t size, const char *name,
                  size_t name_size)
{
    pthread_mutex_lock(&map->lock);
    char *at = line_begin(&map->file, NUMBERS_MAX + name_size);
    if (at) {
        at += sprintf(at, "%" PRIxPTR " %zx ", (uintptr_t)address, size);
        for (size_t i = 0; i < name_size; i++)
            *at++ = (unsigned char)name[i] < ' ' || name[i] == 0x7f ? '?' : name[i];
        line_end(&map->file, at);
    }
    pthread_mutex_unlock(&map->lock);
}

void perf_map_flush(struct perf_map *map)
{
    pthread_mutex_lock(&map->lock);
    line_file_flush(&map->file);
    pthread_mutex_unlock(&map->lock);
}

void perf_map_close(struct perf_map *map)
{
    pthread_mutex_lock(&map->lock);
    line_file_close(&map->file);
    pthread_mutex_unlock(&map->lock);
}
