// SPDX-License-Identifier: Apache-2.0
//
// Replaces converter/tables/writer.c: rows go into no file, and no thread takes them. A fuzz target
// that includes this file converts a hundred times as fast. Rows wait as long as they may wait in
// the real writer: a text that was freed too early is read after its end. Then the writer reads
// each cell, and remembers the ids of rows and the references to rows. Each id must come once, and
// each referenced row must exist.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/vec.h"
#include "converter/tables/join.h"
#include "converter/tables/writer.h"

#define QUEUE_SIZE 16
#define ID_MAX     ((int64_t)1 << 24)

struct reference {
    enum table_id table, of;
    size_t column;
    int64_t id;
};

VEC_DEFINE(references, struct reference);

// All references to the row `from` become `to`, also those of rows that are put later.
struct move {
    struct reference to;
    int64_t from;
};

VEC_DEFINE(moves, struct move);

struct ids {
    uint8_t *seen; // owned, one byte an id
    size_t capacity;
    int64_t next;
};

struct writer {
    struct {
        enum table_id table;
        struct batch *batch; // owned
    } queue[QUEUE_SIZE];
    size_t n;
    struct batch *spare[QUEUE_SIZE]; // owned
    size_t n_spare;
    struct ids ids[N_TABLES];
    struct references references;
    struct moves moves;
    uint8_t sum; // of all bytes of texts, so that they are read
    int failure;
};

static struct writer *memory_writer; // the running writer

static inline struct column_meaning meaning_of_stored(enum table_id table, size_t column)
{
    static struct column_meaning meanings[N_TABLES][TABLE_CELLS_MAX];
    static bool known;
    if (known)
        return meanings[table][column];
    known = true;
    for (enum table_id t = 0; t < N_TABLES; t++)
        for (size_t i = 0, n = 0; i < table_defs[t].n_columns; i++)
            if (!table_defs[t].columns[i].generated)
                meanings[t][n++] = column_meaning_of(t, &table_defs[t].columns[i]);
    return meanings[table][column];
}

static inline void rows_expect(bool good, enum table_id table, const char *what, int64_t id)
{
    if (good)
        return;
    fprintf(stderr, "table %s, %lld: %s\n", table_defs[table].stored_name, (long long)id, what);
    abort();
}

static inline void id_add(struct writer *writer, enum table_id table, int64_t id)
{
    struct ids *ids = &writer->ids[table];
    rows_expect(id >= 0 && id < ID_MAX, table, "no id of a row", id);
    if ((size_t)id >= ids->capacity) {
        size_t capacity = ids->capacity ? ids->capacity : 64;
        while (capacity <= (size_t)id)
            capacity *= 2;
        ids->seen = realloc(ids->seen, capacity);
        if (!ids->seen)
            exit(2);
        memset(ids->seen + ids->capacity, 0, capacity - ids->capacity);
        ids->capacity = capacity;
    }
    rows_expect(!ids->seen[id], table, "an id that comes twice", id);
    ids->seen[id] = 1;
}

static inline void cell_read(struct writer *writer, enum table_id table, size_t column,
                             const struct cell *cell)
{
    rows_expect(cell->type <= CELL_BLOB, table, "no type of a cell", cell->type);
    if (cell->type == CELL_TEXT || cell->type == CELL_BLOB)
        for (uint32_t i = 0; i < cell->size; i++)
            writer->sum ^= ((const uint8_t *)cell->bytes)[i];
    struct column_meaning meaning = meaning_of_stored(table, column);
    if (cell->type == CELL_INT && meaning.sense == SENSE_ROW &&
        table_defs[meaning.of].columns[0].key &&
        references_push(&writer->references,
                        (struct reference){table, meaning.of, column, cell->integer}) < 0)
        exit(2);
}

static inline void row_read(struct writer *writer, enum table_id table, const struct cell *row,
                            size_t width)
{
    bool key = table_defs[table].columns[0].key;
    if (key)
        id_add(writer, table, row[0].integer);
    for (size_t column = key; column < width; column++)
        cell_read(writer, table, column, &row[column]);
}

// Reads the event in both ways of the real writer: as a record that is made in one pass, and as
// cells.
static inline void event_read(struct writer *writer, enum table_id table,
                              const struct event_row *event)
{
    struct event_record record;
    struct cell cells[EVENT_CELLS_MAX];
    if (event_record_make(event, &record))
        for (size_t i = 0; i < record.n_head + record.n_body; i++)
            writer->sum ^= i < record.n_head ? record.head[i] : record.body[i - record.n_head];
    row_read(writer, table, cells, event_row_cells(event, cells));
}

static inline void batch_read(struct writer *writer, enum table_id table, struct batch *batch)
{
    const struct cell *row = batch->cells;
    for (size_t i = 0; i < batch->n_numbers; i++)
        id_add(writer, table, writer->ids[table].next++);
    for (size_t i = 0; i < batch->n_rows; i++) {
        if (batch->widths[i] == BATCH_EVENT) {
            event_read(writer, table, (const struct event_row *)row);
            row += EVENT_ROW_CELLS;
            continue;
        }
        row_read(writer, table, row, batch->widths[i]);
        row += batch->widths[i];
    }
    batch_clear(batch);
    if (writer->n_spare < QUEUE_SIZE)
        writer->spare[writer->n_spare++] = batch;
    else
        batch_free(batch);
}

int writer_start(int fd, const char *folder, uint32_t first_page, struct writer **ret)
{
    (void)fd, (void)folder, (void)first_page;
    *ret = memory_writer = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void writer_shift_ids(struct writer *writer, const struct id_shifts *shifts)
{
    (void)writer, (void)shifts;
}

void writer_budget(struct writer *writer, struct budget *budget)
{
    (void)writer, (void)budget;
}

struct batch *writer_batch(struct writer *writer)
{
    struct batch *batch = writer->n_spare ? writer->spare[--writer->n_spare] : NULL;
    return batch ? batch : batch_new();
}

int writer_drain(struct writer *writer)
{
    for (size_t i = 0; i < writer->n; i++)
        batch_read(writer, writer->queue[i].table, writer->queue[i].batch);
    writer->n = 0;
    return writer->failure;
}

int writer_put(struct writer *writer, enum table_id table, struct batch *batch)
{
    if (writer->n == QUEUE_SIZE)
        writer_drain(writer);
    writer->queue[writer->n].table = table;
    writer->queue[writer->n++].batch = batch;
    return writer->failure;
}

void writer_abandon(struct writer *writer)
{
    while (writer->n)
        batch_free(writer->queue[--writer->n].batch);
    writer->failure = -ECANCELED;
}

static inline void move_apply(struct writer *writer, const struct move *move)
{
    vec_foreach(&writer->references, reference)
        if (reference->table == move->to.table && reference->column == move->to.column &&
            reference->id == move->from)
            reference->id = move->to.id;
    if (references_push(&writer->references, move->to) < 0)
        exit(2);
}

// Checks, after all rows have been put, that all referenced rows exist.
static inline void memory_writer_check(void)
{
    writer_drain(memory_writer);
    vec_foreach(&memory_writer->moves, move)
        move_apply(memory_writer, move);
    vec_foreach(&memory_writer->references, reference) {
        const struct ids *ids = &memory_writer->ids[reference->of];
        bool there =
            reference->id >= 0 && (size_t)reference->id < ids->capacity && ids->seen[reference->id];
        if (!there)
            fprintf(stderr, "column %zu of %s refers to ", reference->column,
                    table_defs[reference->table].stored_name);
        rows_expect(there, reference->of, "no such row", reference->id);
    }
}

int writer_move_group(struct writer *writer, enum table_id table, uint32_t from, uint32_t to)
{
    size_t column = table_cluster(table)->columns[0];
    struct move move = {{table, meaning_of_stored(table, column).of, column, to}, from};
    return moves_push(&writer->moves, move);
}

int writer_finish(struct writer *writer, uint32_t application_id, struct writer_result *ret)
{
    (void)writer, (void)application_id, (void)ret;
    return -EOPNOTSUPP;
}

int writer_finish_grown(struct writer *writer, const uint32_t roots[N_TABLES])
{
    (void)writer, (void)roots;
    return -EOPNOTSUPP;
}

struct writer *writer_free(struct writer *writer)
{
    if (!writer)
        return NULL;
    writer_abandon(writer);
    while (writer->n_spare)
        batch_free(writer->spare[--writer->n_spare]);
    for (size_t i = 0; i < N_TABLES; i++)
        free(writer->ids[i].seen);
    references_done(&writer->references);
    moves_done(&writer->moves);
    free(writer);
    return NULL;
}
