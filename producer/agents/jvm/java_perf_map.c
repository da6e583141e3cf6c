// SPDX-License-Identifier: Apache-2.0
//
// The format has no field for times and no line for code that is gone: perf and other tools would
// read any other line as a symbol. Therefore times have a file of their own. Its lines are written
// first: a reader that sees a line of the map finds its time. If one of the files cannot be written
// any more, both end. In this case alone, the map's last lines may lack a time.
//
// A VM that compiles without end would fill the disk, usually the disk of /tmp: the files have a
// limit. At the limit both files stay whole.
#include "producer/agents/jvm/java_perf_map.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "producer/agents/jvm/line_file.h"

#define NUMBERS_MAX    64
#define NAME_BYTES_MAX 4096

struct perf_map {
    pthread_mutex_t lock;
    struct line_file file, times;
    uint64_t max_bytes;
    int ended; // the reason; 0: the map goes on
};

void perf_map_path(pid_t pid, char path[PERF_MAP_PATH_MAX])
{
    snprintf(path, PERF_MAP_PATH_MAX, "/tmp/perf-%d.map", (int)pid);
}

int perf_map_open(pid_t pid, uint64_t max_bytes, struct perf_map **ret)
{
    char path[PERF_MAP_PATH_MAX], times_path[sizeof(path) + 8];
    struct perf_map *map = malloc(sizeof(*map));
    if (!map)
        return -ENOMEM;
    perf_map_path(pid, path);
    snprintf(times_path, sizeof(times_path), "%s.times", path);
    int r = line_file_open(&map->times, times_path);
    if (r == 0 && (r = line_file_open(&map->file, path)) < 0)
        line_file_close(&map->times);
    if (r < 0) {
        free(map);
        return r;
    }
    pthread_mutex_init(&map->lock, NULL);
    map->max_bytes = max_bytes;
    map->ended = 0;
    *ret = map;
    return 0;
}

static void files_end(struct perf_map *map, int why)
{
    map->ended = why;
    line_file_close(&map->times);
    line_file_close(&map->file);
}

static void files_flush(struct perf_map *map)
{
    if (map->ended == 0 && (!line_file_flush(&map->times) || !line_file_flush(&map->file)))
        files_end(map, map->times.failure ? map->times.failure : map->file.failure);
}

static uint64_t file_bytes(const struct line_file *file)
{
    return (uint64_t)file->size + file->n_buffer;
}

// Returns whether there is room for a line of `size` bytes and its time. At the limit the files
// end.
static bool room_make(struct perf_map *map, size_t size)
{
    uint64_t used = file_bytes(&map->file) + file_bytes(&map->times);
    bool is_full = size + NUMBERS_MAX > map->max_bytes - used;
    if (is_full || !line_fits(&map->file, size) || !line_fits(&map->times, NUMBERS_MAX))
        files_flush(map);
    if (is_full && map->ended == 0)
        files_end(map, PERF_MAP_E_LIMIT);
    return map->ended == 0;
}

static void time_put(struct perf_map *map, int64_t ts, const void *address, const char *size)
{
    char *at = line_begin(&map->times, NUMBERS_MAX);
    line_end(&map->times,
             at + sprintf(at, "%" PRId64 " %" PRIxPTR "%s", ts, (uintptr_t)address, size));
}

void perf_map_add(struct perf_map *map, int64_t ts, const void *address, size_t size,
                  const char *name, size_t name_size)
{
    char size_text[NUMBERS_MAX];
    name_size = name_size < NAME_BYTES_MAX ? name_size : NAME_BYTES_MAX;
    snprintf(size_text, sizeof(size_text), " %zx", size);
    pthread_mutex_lock(&map->lock);
    if (room_make(map, NUMBERS_MAX + name_size)) {
        char *at = line_begin(&map->file, NUMBERS_MAX + name_size);
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
    if (room_make(map, 0))
        time_put(map, ts, address, "");
    pthread_mutex_unlock(&map->lock);
}

int perf_map_flush(struct perf_map *map)
{
    pthread_mutex_lock(&map->lock);
    files_flush(map);
    int ended = map->ended;
    pthread_mutex_unlock(&map->lock);
    return ended;
}

int perf_map_close(struct perf_map *map)
{
    pthread_mutex_lock(&map->lock);
    files_flush(map);
    int ended = map->ended;
    if (ended == 0)
        files_end(map, -EBADF);
    pthread_mutex_unlock(&map->lock);
    return ended;
}
