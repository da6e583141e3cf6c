// SPDX-License-Identifier: Apache-2.0
//
// A trace may have as many groups as tracks, and most groups have few rows. The first chunk of a
// group is therefore small, and chunks grow with their group. Chunks are in the file in the order
// in which they became full, each with the place of the chunk before it.
#include "converter/tables/group_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"

#define CHUNK_MIN    32
#define CHUNK_MAX    4096
#define CHUNK_SMALL  256                // limit of a chunk while open chunks take much memory
#define OPEN_MUCH    ((size_t)4 << 20)  // bytes
#define BUFFER_BYTES ((size_t)64 << 10) // bytes of one write
#define GROUPS_MIN   64
#define ROW_MAX      (GROUP_LOG_COLUMNS_MAX * WIRE_VARINT_MAX)

struct chunk_head {
    uint64_t before; // as in struct log_group
    uint32_t n_bytes;
};

struct log_group *group_log_group(struct group_log *log, uint32_t number)
{
    if (number >= log->n_allocated) {
        size_t n = log->n_allocated ? log->n_allocated : GROUPS_MIN;
        while (n <= number)
            n *= 2;
        struct log_group *groups = realloc(log->groups, n * sizeof(*groups));
        if (!groups)
            return NULL;
        memset(groups + log->n_allocated, 0, (n - log->n_allocated) * sizeof(*groups));
        log->groups = groups;
        log->n_allocated = n;
    }
    if (number >= log->n_groups)
        log->n_groups = (size_t)number + 1;
    return &log->groups[number];
}

static int buffer_write(struct group_log *log)
{
    size_t n = log->n_buffered;
    log->n_buffered = 0;
    return n ? spill_append(&log->chunks, log->buffer, n, NULL) : 0;
}

static int file_open(struct group_log *log, const char *folder)
{
    log->buffer = malloc(BUFFER_BYTES);
    int r = log->buffer ? spill_init(&log->chunks, folder, NULL) : -ENOMEM;
    log->chunks.budget = log->budget;
    log->is_open = r == 0;
    return r;
}

static int bytes_put(struct group_log *log, const void *bytes, size_t size)
{
    int r = log->n_buffered + size > BUFFER_BYTES ? buffer_write(log) : 0;
    memcpy(log->buffer + log->n_buffered, bytes, size);
    log->n_buffered += size;
    return r;
}

static uint32_t next_capacity(const struct group_log *log, const struct log_group *group)
{
    uint32_t most = log->n_memory < OPEN_MUCH ? CHUNK_MAX : CHUNK_SMALL;
    uint32_t wanted = group->capacity ? 2 * group->capacity : CHUNK_MIN;
    wanted = wanted > most ? most : wanted;
    return wanted < group->capacity ? group->capacity : wanted; // never less than before
}

static int chunk_grow(struct group_log *log, struct log_group *group, uint32_t capacity)
{
    uint8_t *open = realloc(group->open, capacity + ROW_MAX);
    if (!open)
        return -ENOMEM;
    log->n_memory += capacity - group->capacity;
    group->open = open;
    group->capacity = capacity;
    return 0;
}

// Makes room for a row: a chunk of the greatest size moves to the file, and a smaller chunk grows.
static int chunk_make_room(struct group_log *log, const char *folder, struct log_group *group)
{
    uint32_t capacity = next_capacity(log, group);
    if (capacity > group->capacity)
        return chunk_grow(log, group, capacity);
    struct chunk_head head = {.before = group->chunk, .n_bytes = group->n_open};
    int r = log->is_open ? 0 : file_open(log, folder);
    if (r == 0)
        r = log->n_buffered + sizeof(head) + group->n_open > BUFFER_BYTES ? buffer_write(log) : 0;
    if (r < 0)
        return r;
    group->chunk = log->chunks.size + log->n_buffered + 1;
    group->n_chunks++;
    r = bytes_put(log, &head, sizeof(head));
    if (r == 0)
        r = bytes_put(log, group->open, group->n_open);
    group->n_open = 0;
    return r;
}

int group_log_add(struct group_log *log, const char *folder, struct log_group *group,
                  const int64_t *columns)
{
    int r = group->n_open >= group->capacity ? chunk_make_room(log, folder, group) : 0;
    if (r < 0)
        return r;
    uint8_t *to = group->open + group->n_open;
    for (size_t i = 0; i < log->n_columns; i++) {
        uint64_t step = (uint64_t)columns[i] - (uint64_t)group->last[i]; // wraps
        to = wire_put_varint(to, wire_zigzag((int64_t)step));
        group->last[i] = columns[i];
    }
    group->n_open = (uint32_t)(to - group->open);
    group->n++;
    return 0;
}

int group_log_settle(struct group_log *log)
{
    int r = log->is_open ? buffer_write(log) : 0;
    return r < 0 || !log->is_open
               ? r
               : spill_view(&log->chunks, 0, log->chunks.size, &log->mapped, NULL);
}

void group_log_clear(struct log_group *group)
{
    *group = (struct log_group){.open = group->open, .capacity = group->capacity};
}

int group_log_close(struct group_log *log)
{
    if (!log->is_open)
        return 0;
    int r = buffer_write(log);
    free(log->buffer);
    log->buffer = NULL;
    return r < 0 ? r : spill_finish(&log->chunks, &log->mapped, NULL);
}

static struct chunk_head chunk_at(const struct group_log *log, uint64_t place)
{
    struct chunk_head head;
    memcpy(&head, log->mapped + place - 1, sizeof(head));
    return head;
}

int group_reader_open(struct group_reader *reader, const struct group_log *log, uint32_t number)
{
    const struct log_group *group = &log->groups[number];
    *reader = (struct group_reader){.log = log, .group = group};
    if (!group->n_chunks)
        return 0;
    reader->chunks = malloc(group->n_chunks * sizeof(*reader->chunks));
    if (!reader->chunks)
        return -ENOMEM;
    uint64_t place = group->chunk;
    for (uint64_t i = group->n_chunks; i-- > 0; place = chunk_at(log, place).before)
        reader->chunks[i] = place;
    return 0;
}

static bool chunk_next(struct group_reader *reader)
{
    const struct log_group *group = reader->group;
    if (reader->i > group->n_chunks || (reader->i == group->n_chunks && !group->n_open))
        return false;
    if (reader->i == group->n_chunks) {
        reader->pos = group->open;
        reader->end = group->open + group->n_open;
    } else {
        uint64_t place = reader->chunks[reader->i];
        reader->pos = reader->log->mapped + place - 1 + sizeof(struct chunk_head);
        reader->end = reader->pos + chunk_at(reader->log, place).n_bytes;
    }
    reader->i++;
    return reader->pos != reader->end;
}

bool group_reader_next(struct group_reader *reader)
{
    if (reader->pos == reader->end && !chunk_next(reader))
        return false;
    for (size_t i = 0; i < reader->log->n_columns; i++) {
        uint64_t step;
        if (!wire_get_long_varint(&reader->pos, reader->end, &step))
            return false;
        reader->row[i] = (int64_t)((uint64_t)reader->row[i] + (uint64_t)wire_unzigzag(step));
    }
    return true;
}

void group_reader_done(struct group_reader *reader)
{
    free(reader->chunks);
    reader->chunks = NULL;
}

void group_log_forget(const struct group_log *log)
{
    if (log->is_open)
        spill_forget(&log->chunks);
}

void group_log_done(struct group_log *log)
{
    for (size_t i = 0; i < log->n_groups; i++)
        free(log->groups[i].open);
    free(log->groups);
    free(log->buffer);
    if (log->is_open)
        spill_done(&log->chunks);
    *log = (struct group_log){.n_columns = log->n_columns, .budget = log->budget};
}
