// SPDX-License-Identifier: Apache-2.0
//
// Row-by-row insertion by SQLite would take most of the time of a conversion. Rows of a table come
// nearly in the order of their ids, so the table's B-tree can be written from left to right, in a
// tenth of the time. Rows that arrive before rows with smaller ids wait in a backlog.
//
// Invariants: writer_put() gives the batch to the thread; texts live until the batch is written.
#include "converter/tables/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/tables/backlog.h"
#include "converter/tables/btree.h"
#include "converter/tables/text_index.h"
#include "converter/tables/text_mend.h"

#define QUEUE_SIZE  16
#define STACK_BYTES ((size_t)1 << 20)

struct sink {
    struct btree tree;
    struct backlog backlog;
    int64_t next; // id of the next row for the tree
};

struct job {
    enum table_id table;
    struct batch *batch; // owned
};

struct writer {
    struct pages pages;
    struct sink sinks[N_TABLES];
    union {
        struct row_index rows;
        struct text_index texts; // if the definition is_text
    } indexes[N_INDEXES];
    struct row_index *index_of[N_TABLES];       // by group; NULL: none
    struct row_index *time_index_of[N_TABLES];  // NULL: none
    struct text_index *text_index_of[N_TABLES]; // NULL: none
    struct record record;
    const struct id_shifts *shifts; // borrowed; NULL: none
    char *folder;                   // owned; may be NULL
    pthread_t thread;
    pthread_mutex_t lock; // of the members below
    pthread_cond_t changed;
    struct job queue[QUEUE_SIZE];
    struct batch *spare[QUEUE_SIZE]; // owned: written batches, for reuse
    size_t first, n, n_spare;
    bool busy, end, started;
    int failure; // negative errno
};

static int cell_mend(struct cell *cell, struct arena *copies)
{
    CLEANUP(strbuf_done) struct strbuf mended = {0};
    text_mend(&mended, cell->bytes, cell->size);
    if (!mended.size && !mended.failed)
        return 0;
    cell->bytes = mended.failed ? NULL : arena_strndup(copies, mended.text, mended.size);
    cell->size = (uint32_t)mended.size;
    return cell->bytes ? 0 : -ENOMEM;
}

static int texts_mend(struct cell *row, size_t width, struct arena *copies)
{
    int r = 0;
    for (size_t i = 0; i < width && r == 0; i++)
        if (row[i].type == CELL_TEXT && !text_is_ascii(row[i].bytes, row[i].size))
            r = cell_mend(&row[i], copies);
    return r;
}

static int64_t id_shift(const struct writer *writer, enum table_id table)
{
    return writer->shifts ? writer->shifts->add[table][0] : 0;
}

// Adds a row to an index by time, when the row reaches the tree: rows reach the tree in the order
// of ids, which is nearly the order of time. (Batches have slices in the order of their ends.) The
// time is the first column after the id. The id is empty in a record.
static int time_index_add(struct row_index *index, const struct record *record, int64_t id)
{
    struct cell row[2] = {{.type = CELL_NULL}};
    record_column(record, 1, &row[1]);
    return row_index_add(index, row, ELEMENTS(row), id);
}

static int ordered_indexes_add(struct writer *writer, enum table_id table,
                               const struct record *record, int64_t id)
{
    struct text_index *by_text = writer->text_index_of[table];
    struct cell text;
    int r =
        writer->time_index_of[table] ? time_index_add(writer->time_index_of[table], record, id) : 0;
    if (r < 0 || !by_text)
        return r;
    record_column(record, by_text->def->columns[0], &text);
    return text_index_add(by_text, &text, id);
}

static int tree_add(struct writer *writer, enum table_id table, const struct record *record)
{
    struct sink *sink = &writer->sinks[table];
    int64_t id = sink->next++;
    int r = ordered_indexes_add(writer, table, record, id);
    if (r < 0)
        return r;
    return btree_add(&sink->tree, &writer->pages, id + id_shift(writer, table), record);
}

// Adds the rows that waited for the last row.
static int backlog_follow(struct writer *writer, enum table_id table)
{
    struct sink *sink = &writer->sinks[table];
    struct record waiting;
    int r = 0;
    while (r == 0 && backlog_take(&sink->backlog, sink->next, &waiting))
        r = tree_add(writer, table, &waiting);
    return r;
}

// Shifts the numbers of a row. The sum may wrap, because numbers from the trace can have any value.
static void row_shift(const struct writer *writer, enum table_id table, struct cell *row,
                      size_t width)
{
    const int64_t *add = writer->shifts->add[table];
    for (size_t i = 0; i < width; i++)
        if (add[i] && row[i].type == CELL_INT)
            row[i].integer = (int64_t)((uint64_t)row[i].integer + (uint64_t)add[i]);
}

static int row_write(struct writer *writer, enum table_id table, struct cell *row, size_t width)
{
    struct sink *sink = &writer->sinks[table];
    int64_t id = sink->next;
    struct row_index *index = writer->index_of[table];
    if (index && index->def->is_table)
        return row_index_add(index, row, width, row[0].integer);
    if (table_defs[table].columns[0].key) {
        id = row[0].integer;
        row[0].type = CELL_NULL; // the id is the key of the tree
    }
    if (id < sink->next)
        return -EEXIST;
    int r = index ? row_index_add(index, row, width, id) : 0;
    if (r < 0)
        return r;
    if (writer->shifts)
        row_shift(writer, table, row, width);
    record_measure(&writer->record, row, width);
    if (id > sink->next)
        return backlog_put(&sink->backlog, writer->folder, id, &writer->record);
    r = tree_add(writer, table, &writer->record);
    return r == 0 && sink->backlog.n ? backlog_follow(writer, table) : r;
}

// Adds rows with the next ids. No row of the backlog waits for them.
static int numbers_write(struct writer *writer, enum table_id table, const struct batch *batch)
{
    struct sink *sink = &writer->sinks[table];
    int64_t first = sink->next + id_shift(writer, table);
    sink->next += (int64_t)batch->n_numbers;
    return btree_add_numbers(&sink->tree, &writer->pages, first, batch->numbers, batch->n_numbers);
}

static int cells_write(struct writer *writer, enum table_id table, struct batch *batch,
                       struct cell *row, size_t width)
{
    int r = texts_mend(row, width, &batch->copies);
    return r < 0 ? r : row_write(writer, table, row, width);
}

// Writes an event. An event with the next id becomes a record without cells.
static int event_write(struct writer *writer, struct batch *batch, const struct event_row *event)
{
    struct sink *sink = &writer->sinks[TABLE__arg_set];
    struct row_index *index = writer->index_of[TABLE__arg_set];
    struct event_record record;
    if (writer->shifts || event->id != sink->next || !event_record_make(event, &record)) {
        struct cell cells[EVENT_CELLS_MAX];
        return cells_write(writer, TABLE__arg_set, batch, cells, event_row_cells(event, cells));
    }
    int r = row_index_add_event(index, event->layout->kind, event->ts, event->id);
    if (r == 0)
        r = btree_add_event(&sink->tree, &writer->pages, sink->next++, &record);
    return r == 0 && sink->backlog.n ? backlog_follow(writer, TABLE__arg_set) : r;
}

static int batch_write(struct writer *writer, enum table_id table, struct batch *batch)
{
    struct cell *row = batch->cells;
    int r = batch->n_numbers ? numbers_write(writer, table, batch) : 0;
    for (size_t i = 0; i < batch->n_rows && r == 0; i++) {
        size_t width = batch->widths[i];
        if (width == BATCH_EVENT) {
            r = event_write(writer, batch, (const void *)row);
            width = EVENT_ROW_CELLS;
        } else {
            r = cells_write(writer, table, batch, row, width);
        }
        row += width;
    }
    return r < 0 ? r : writer->pages.failure;
}

static void *writer_run(void *userdata)
{
    struct writer *writer = userdata;
    pthread_mutex_lock(&writer->lock);
    while (!writer->end || writer->n) {
        if (!writer->n) {
            pthread_cond_wait(&writer->changed, &writer->lock);
            continue;
        }
        struct job job = writer->queue[writer->first];
        writer->first = (writer->first + 1) % QUEUE_SIZE;
        writer->n--;
        writer->busy = true;
        int r = writer->failure;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        if (r == 0)
            r = batch_write(writer, job.table, job.batch);
        batch_clear(job.batch);
        pthread_mutex_lock(&writer->lock);
        if (writer->n_spare < QUEUE_SIZE)
            writer->spare[writer->n_spare++] = job.batch;
        else
            batch_free(job.batch);
        if (writer->failure == 0) // writer_abandon() may have set a failure
            writer->failure = r;
        writer->busy = false;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

// Starts the thread with the stack that it needs, which is smaller than the default.
static int thread_start(struct writer *writer)
{
    pthread_attr_t attributes;
    int code = pthread_attr_init(&attributes);
    if (code)
        return -code;
    code = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (code == 0)
        code = pthread_create(&writer->thread, &attributes, writer_run, writer);
    pthread_attr_destroy(&attributes);
    return -code;
}

static void index_init(struct writer *writer, size_t i)
{
    const struct index_def *def = &index_defs[i];
    if (def->is_text) {
        text_index_init(&writer->indexes[i].texts, def, &writer->pages, writer->folder);
        writer->text_index_of[def->table] = &writer->indexes[i].texts;
        return;
    }
    row_index_init(&writer->indexes[i].rows, def, &writer->pages, writer->folder);
    struct row_index **of = index_has_group(def) ? writer->index_of : writer->time_index_of;
    of[def->table] = &writer->indexes[i].rows;
}

static void index_done(struct writer *writer, size_t i)
{
    if (index_defs[i].is_text)
        text_index_done(&writer->indexes[i].texts);
    else
        row_index_done(&writer->indexes[i].rows);
}

int writer_start(int fd, const char *folder, uint32_t first_page, struct writer **ret)
{
    struct writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return -ENOMEM;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    int r = 0;
    if (folder && !(writer->folder = strdup(folder)))
        r = -ENOMEM;
    for (size_t i = 0; i < N_INDEXES; i++)
        index_init(writer, i);
    if (r == 0)
        r = pages_init(&writer->pages, fd, first_page);
    if (r == 0)
        r = thread_start(writer);
    writer->started = r == 0;
    if (r == 0)
        *ret = writer;
    else
        writer_free(writer);
    return r;
}

void writer_shift_ids(struct writer *writer, const struct id_shifts *shifts)
{
    writer->shifts = shifts;
    for (size_t i = 0; shifts && i < N_INDEXES; i++)
        if (index_defs[i].is_text)
            writer->indexes[i].texts.shift = shifts->add[index_defs[i].table][0];
        else
            writer->indexes[i].rows.add = shifts->add[index_defs[i].table];
}

int writer_move_group(struct writer *writer, enum table_id table, uint32_t from, uint32_t to)
{
    return row_index_move(writer->index_of[table], from, to);
}

void writer_budget(struct writer *writer, struct budget *budget)
{
    writer->pages.budget = budget;
    for (size_t i = 0; i < N_TABLES; i++)
        writer->sinks[i].backlog.log.budget = writer->sinks[i].backlog.index.budget = budget;
    for (size_t i = 0; i < N_INDEXES; i++)
        if (index_defs[i].is_text)
            writer->indexes[i].texts.log.budget = budget;
        else
            writer->indexes[i].rows.log.budget = writer->indexes[i].rows.leaves.budget = budget;
}

struct batch *writer_batch(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    struct batch *batch = writer->n_spare ? writer->spare[--writer->n_spare] : NULL;
    pthread_mutex_unlock(&writer->lock);
    return batch ? batch : batch_new();
}

int writer_put(struct writer *writer, enum table_id table, struct batch *batch)
{
    pthread_mutex_lock(&writer->lock);
    while (writer->n == QUEUE_SIZE)
        pthread_cond_wait(&writer->changed, &writer->lock);
    int r = writer->failure;
    writer->queue[(writer->first + writer->n++) % QUEUE_SIZE] =
        (struct job){.table = table, .batch = batch};
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    return r;
}

static int wait_idle(struct writer *writer)
{
    while (writer->n || writer->busy)
        pthread_cond_wait(&writer->changed, &writer->lock);
    return writer->failure;
}

int writer_drain(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    int r = wait_idle(writer);
    pthread_mutex_unlock(&writer->lock);
    return r;
}

void writer_abandon(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    if (writer->failure == 0)
        writer->failure = -ECANCELED; // the thread drops all further batches
    wait_idle(writer);
    pthread_mutex_unlock(&writer->lock);
}

// Writes the waiting rows and completes the tree. *root is the page for the tree's root. If *root
// is 0, the root gets a new page, and *root becomes its number.
static int sink_finish(struct writer *writer, enum table_id table, uint32_t *root)
{
    struct sink *sink = &writer->sinks[table];
    int r = 0;
    while (sink->backlog.n && r == 0) { // skip unused ids
        sink->next++;
        r = backlog_follow(writer, table);
    }
    if (r == 0 && *root)
        r = btree_finish_at(&sink->tree, &writer->pages, *root);
    else if (r == 0 && !(*root = btree_finish(&sink->tree, &writer->pages)))
        r = writer->pages.failure < 0 ? writer->pages.failure : -ENOMEM;
    backlog_done(&sink->backlog);
    btree_done(&sink->tree);
    return r;
}

int writer_finish(struct writer *writer, uint32_t application_id, struct writer_result *ret)
{
    struct writer_result written = {0};
    int r = writer_drain(writer);
    for (size_t i = 0; i < N_TABLES && r == 0; i++)
        if (!table_cluster(i))
            r = sink_finish(writer, i, &written.roots[i]);
    for (size_t i = 0; i < N_INDEXES && r == 0; i++) {
        r = index_defs[i].is_text
                ? text_index_finish(&writer->indexes[i].texts, &written.indexes[i])
                : row_index_finish(&writer->indexes[i].rows, &written.indexes[i]);
        index_done(writer, i);
        if (index_defs[i].is_table)
            written.roots[index_defs[i].table] = written.indexes[i].root;
    }
    if (r == 0)
        r = pages_finish(&writer->pages, application_id);
    if (r == 0)
        *ret = written;
    return r;
}

int writer_finish_grown(struct writer *writer, const uint32_t roots[N_TABLES])
{
    int r = writer_drain(writer);
    for (size_t i = 0; i < N_TABLES && r == 0; i++) {
        uint32_t root = roots[i];
        if (root)
            r = sink_finish(writer, i, &root);
    }
    return r < 0 ? r : pages_finish_grown(&writer->pages);
}

struct writer *writer_free(struct writer *writer)
{
    if (!writer)
        return NULL;
    if (writer->started) {
        pthread_mutex_lock(&writer->lock);
        writer->end = true;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        pthread_join(writer->thread, NULL);
    }
    for (size_t i = 0; i < N_TABLES; i++) {
        backlog_done(&writer->sinks[i].backlog);
        btree_done(&writer->sinks[i].tree);
    }
    for (size_t i = 0; i < N_INDEXES; i++)
        index_done(writer, i);
    while (writer->n_spare)
        batch_free(writer->spare[--writer->n_spare]);
    pages_done(&writer->pages);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer->folder);
    free(writer);
    return NULL;
}
