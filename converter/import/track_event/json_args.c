// SPDX-License-Identifier: Apache-2.0
//
// SQLite parses the JSON. json_tree() returns each container right before its values, so a stack of
// open containers suffices. The statement is prepared for the first text and reused.
#include "converter/import/track_event/json_args.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "converter/import/arg_writer.h"
#include "converter/import/importer.h"
#include "converter/tables/defend.h"

enum { COLUMN_ID, COLUMN_PARENT, COLUMN_KEY, COLUMN_TYPE, COLUMN_ATOM };

// All zero: not needed yet.
struct json_reader {
    sqlite3 *db;
    sqlite3_stmt *walk;
};

// An open object or array.
struct container {
    sqlite3_int64 id;
    struct arg_place place;        // of the container itself
    uint64_t n_before, n_elements; // of the list, which may continue an earlier list
    bool is_array, is_inner;
};

struct walk {
    struct arg_writer *writer;
    sqlite3_stmt *row;
    struct container open[ARG_DEPTH_MAX + 1];
    size_t n_open;
};

extern const struct importer importer_json;

static struct json_reader *reader_get(struct import *im)
{
    static const char sql[] = "SELECT id, parent, key, type, atom FROM json_tree(?)";
    struct json_reader *reader = importer_state(im, &importer_json);
    if (reader->db)
        return reader;
    if (sqlite3_open_v2(":memory:", &reader->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) == SQLITE_OK &&
        handle_defend(reader->db) == SQLITE_OK)
        sqlite3_prepare_v3(reader->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &reader->walk, NULL);
    return reader;
}

static void container_close(struct walk *walk)
{
    const struct container *last = &walk->open[--walk->n_open];
    if (last->n_elements > last->n_before)
        arg_list_resize(walk->writer, last->n_elements);
    if (last->is_inner)
        arg_leave(walk->writer, last->place);
}

// Enters the element or member of the next value. False: the nesting is too deep.
static bool value_enter(struct walk *walk, bool is_null, struct arg_place *ret)
{
    struct container *in = &walk->open[walk->n_open - 1];
    if (in->is_array)
        return arg_enter_element(walk->writer, is_null ? in->n_elements : in->n_elements++, ret);
    const char *key = (const char *)sqlite3_column_text(walk->row, COLUMN_KEY);
    size_t size = (size_t)sqlite3_column_bytes(walk->row, COLUMN_KEY);
    return arg_enter(walk->writer, (struct text){key ? key : "", size}, ret);
}

static void atom_put(struct walk *walk, const char *type)
{
    struct arg_writer *writer = walk->writer;
    sqlite3_stmt *row = walk->row;
    if (strcmp(type, "integer") == 0 && sqlite3_column_type(row, COLUMN_ATOM) == SQLITE_INTEGER) {
        arg_put(writer, arg_int(NULL, sqlite3_column_int64(row, COLUMN_ATOM)));
    } else if (strcmp(type, "integer") == 0 || strcmp(type, "real") == 0) {
        arg_put(writer, arg_real(NULL, sqlite3_column_double(row, COLUMN_ATOM)));
    } else if (strcmp(type, "true") == 0 || strcmp(type, "false") == 0) {
        arg_put(writer, arg_bool(NULL, *type == 't'));
    } else if (strcmp(type, "text") == 0) {
        struct strset *strings = &writer->im->strings;
        const char *text = (const char *)sqlite3_column_text(row, COLUMN_ATOM);
        size_t size = (size_t)sqlite3_column_bytes(row, COLUMN_ATOM);
        uint32_t id = strset_add(strings, text ? text : "", size);
        arg_put(writer, arg_text(NULL, strset_text(strings, id), id == STRSET_NONE ? 0 : size));
    }
}

// Takes the next row of the value. False: the walk ends here.
static bool row_read(struct walk *walk)
{
    const char *type = (const char *)sqlite3_column_text(walk->row, COLUMN_TYPE);
    sqlite3_int64 parent = sqlite3_column_int64(walk->row, COLUMN_PARENT);
    if (!type)
        return false;
    while (walk->n_open && walk->open[walk->n_open - 1].id != parent)
        container_close(walk);
    struct container value = {
        .id = sqlite3_column_int64(walk->row, COLUMN_ID),
        .is_array = strcmp(type, "array") == 0,
        .is_inner = walk->n_open > 0,
    };
    bool is_container = value.is_array || strcmp(type, "object") == 0;
    if (value.is_inner && !value_enter(walk, strcmp(type, "null") == 0, &value.place))
        return false;
    if (is_container && walk->n_open <= ARG_DEPTH_MAX) {
        if (value.is_array)
            value.n_before = value.n_elements = arg_list_size(walk->writer);
        walk->open[walk->n_open++] = value;
        return true;
    }
    atom_put(walk, type);
    if (value.is_inner)
        arg_leave(walk->writer, value.place);
    return !walk->writer->is_cut;
}

void json_args_read(struct arg_writer *writer, const void *text, size_t size)
{
    struct json_reader *reader = reader_get(writer->im);
    struct walk walk = {.writer = writer, .row = reader->walk};
    int r = SQLITE_ERROR;
    if (walk.row && size <= JSON_MAX &&
        sqlite3_bind_text(walk.row, 1, text ? text : "", (int)size, SQLITE_STATIC) == SQLITE_OK)
        while ((r = sqlite3_step(walk.row)) == SQLITE_ROW && row_read(&walk)) {
        }
    while (walk.n_open)
        container_close(&walk);
    if (walk.row) {
        sqlite3_reset(walk.row);
        sqlite3_clear_bindings(walk.row);
    }
    if (r == SQLITE_ROW || r == SQLITE_DONE)
        return;
    struct arg json = arg_text(NULL, text, size);
    json.type = ARG_JSON;
    arg_put(writer, json);
}

static void json_done(void *state)
{
    struct json_reader *reader = state;
    sqlite3_finalize(reader->walk);
    sqlite3_close(reader->db);
}

const struct importer importer_json = {
    .state_size = sizeof(struct json_reader),
    .of_all_machines = true,
    .done = json_done,
};
