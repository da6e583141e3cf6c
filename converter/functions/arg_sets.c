// SPDX-License-Identifier: Apache-2.0
//
// A set is one row; its kind describes the columns. A small cache keeps kinds by id, so that memory
// is bounded. Several statements can read a row, with more or fewer columns: most sets are short,
// and SQLite takes time for each column. The statement that was used last is tried first. The
// statement stays at its row, because queries mostly read sets in order: the next set is then one
// step away, without a search.
#include "converter/functions/arg_sets.h"

#include <string.h>

#include "common/elements.h"

SQLITE_EXTENSION_INIT3

#define KINDS_CACHED 256 // a power of two
#define SLOTS_IN_ROW 64  // further values are in other rows
#define STEPS_MAX    4   // rows to a near set, before a search

enum { COLUMN_KIND, COLUMN_ID, COLUMN_VALUES };

static const int widths[] = {4, 12, SLOTS_IN_ROW};
#define N_WIDTHS ELEMENTS(widths)
struct kind {
    bool known;
    int64_t id;
    struct arg_field *fields; // owned
    int n_fields, n_slots;
};

struct arg_sets {
    sqlite3 *handle; // borrowed
    struct kind kinds[KINDS_CACHED];
    sqlite3_stmt *rows[N_WIDTHS], *fields, *more; // owned
    size_t width;                                 // index of the statement used last
    bool placed;                                  // the statement is at a row
    int64_t place;                                // id of this row
    const struct kind *kind;                      // of the current set; NULL: the set is missing
    int64_t id;
    bool looked; // `id` is the current set
};

static void kind_clear(struct kind *kind)
{
    for (int i = 0; i < kind->n_fields; i++)
        sqlite3_free(kind->fields[i].key);
    sqlite3_free(kind->fields);
    *kind = (struct kind){0};
}

void arg_sets_free(struct arg_sets *sets)
{
    if (!sets)
        return;
    for (size_t i = 0; i < KINDS_CACHED; i++)
        kind_clear(&sets->kinds[i]);
    for (size_t i = 0; i < N_WIDTHS; i++)
        sqlite3_finalize(sets->rows[i]);
    sqlite3_finalize(sets->fields);
    sqlite3_finalize(sets->more);
    sqlite3_free(sets);
}

static int rows_prepare(struct arg_sets *sets, size_t width)
{
    sqlite3_str *sql = sqlite3_str_new(sets->handle);
    sqlite3_str_appendall(sql, "SELECT kind_id, id");
    for (int i = 0; i < widths[width]; i++)
        sqlite3_str_appendf(sql, ", value_%d", i);
    sqlite3_str_appendall(sql, " FROM main._arg_set WHERE id >= ?1 ORDER BY id");
    char *text = sqlite3_str_finish(sql);
    int code = text ? sqlite3_prepare_v3(sets->handle, text, -1, SQLITE_PREPARE_PERSISTENT,
                                         &sets->rows[width], NULL)
                    : SQLITE_NOMEM;
    sqlite3_free(text);
    return code;
}

int arg_sets_open(sqlite3 *handle, struct arg_sets **ret)
{
    struct arg_sets *sets = sqlite3_malloc(sizeof(*sets));
    if (!sets)
        return SQLITE_NOMEM;
    memset(sets, 0, sizeof(*sets));
    sets->handle = handle;
    int code = rows_prepare(sets, 0);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(handle,
                                  "SELECT slot, type, key, flat_key FROM main._arg_field "
                                  "WHERE kind_id = ?1 ORDER BY slot",
                                  -1, SQLITE_PREPARE_PERSISTENT, &sets->fields, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v3(handle,
                                  "SELECT value FROM main._arg_more WHERE arg_set_id = ?1 "
                                  "AND slot = ?2",
                                  -1, SQLITE_PREPARE_PERSISTENT, &sets->more, NULL);
    if (code != SQLITE_OK) {
        arg_sets_free(sets);
        return code;
    }
    *ret = sets;
    return SQLITE_OK;
}

// Adds the current row of `statement` as a field.
static int field_add(struct kind *kind, sqlite3_stmt *statement)
{
    const char *key = (const char *)sqlite3_column_text(statement, 2);
    const char *flat_key = (const char *)sqlite3_column_text(statement, 3);
    int key_size = sqlite3_column_bytes(statement, 2);
    int flat_key_size = sqlite3_column_bytes(statement, 3);
    if (!(kind->n_fields & (kind->n_fields - 1))) { // the array grows at powers of two
        size_t n = kind->n_fields ? 2 * (size_t)kind->n_fields : 1;
        struct arg_field *grown = sqlite3_realloc64(kind->fields, n * sizeof(*grown));
        if (!grown)
            return SQLITE_NOMEM;
        kind->fields = grown;
    }
    char *copy = sqlite3_malloc64((uint64_t)key_size + (uint64_t)flat_key_size + 2);
    if (!copy)
        return SQLITE_NOMEM;
    memcpy(copy, key ? key : "", (size_t)key_size + 1);
    memcpy(copy + key_size + 1, flat_key ? flat_key : "", (size_t)flat_key_size + 1);
    kind->fields[kind->n_fields++] = (struct arg_field){
        .slot = sqlite3_column_int(statement, 0),
        .type = sqlite3_column_int(statement, 1),
        .key = copy,
        .flat_key = flat_key ? copy + key_size + 1 : copy,
        .key_size = key_size,
        .flat_key_size = flat_key ? flat_key_size : key_size,
    };
    return SQLITE_OK;
}

static int kind_find(struct arg_sets *sets, int64_t id, const struct kind **ret)
{
    struct kind *kind = &sets->kinds[(uint64_t)id % KINDS_CACHED];
    if (kind->known && kind->id == id) {
        *ret = kind;
        return SQLITE_OK;
    }
    kind_clear(kind);
    sqlite3_bind_int64(sets->fields, 1, id);
    int code;
    while ((code = sqlite3_step(sets->fields)) == SQLITE_ROW && field_add(kind, sets->fields) == 0)
        ;
    sqlite3_reset(sets->fields);
    if (code != SQLITE_DONE) {
        kind_clear(kind);
        return code == SQLITE_ROW ? SQLITE_NOMEM : code;
    }
    if (kind->n_fields)
        kind->n_slots = kind->fields[kind->n_fields - 1].slot + 1;
    kind->id = id;
    kind->known = true;
    *ret = kind;
    return SQLITE_OK;
}

// Moves to the first row from `id` on. *ret_found: the row is the row of `id`.
static int row_go(struct arg_sets *sets, int64_t id, bool *ret_found)
{
    sqlite3_stmt *rows = sets->rows[sets->width];
    int code = SQLITE_ROW;
    bool near = sets->placed && id >= sets->place && id - sets->place <= STEPS_MAX;
    if (!near) {
        sqlite3_reset(rows);
        sqlite3_bind_int64(rows, 1, id);
    }
    if (!near || id > sets->place)
        do {
            code = sqlite3_step(rows);
            sets->placed = code == SQLITE_ROW;
            if (sets->placed)
                sets->place = sqlite3_column_int64(rows, COLUMN_ID);
        } while (sets->placed && sets->place < id);
    *ret_found = sets->placed && sets->place == id;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

// Moves to the row of `id` with a wider statement.
static int row_widen(struct arg_sets *sets, size_t width, int64_t id)
{
    bool found;
    sqlite3_reset(sets->rows[sets->width]);
    sets->placed = false;
    sets->width = width;
    int code = sets->rows[width] ? SQLITE_OK : rows_prepare(sets, width);
    return code == SQLITE_OK ? row_go(sets, id, &found) : code;
}

int arg_sets_look(struct arg_sets *sets, int64_t id)
{
    if (sets->looked && sets->id == id)
        return SQLITE_OK;
    sets->looked = false;
    sets->kind = NULL;
    bool found;
    int code = row_go(sets, id, &found);
    if (code == SQLITE_OK && found)
        code = kind_find(sets, sqlite3_column_int64(sets->rows[sets->width], COLUMN_KIND),
                         &sets->kind);
    if (code == SQLITE_OK && sets->kind) {
        size_t width = 0;
        while (width + 1 < N_WIDTHS && widths[width] < sets->kind->n_slots)
            width++;
        if (width > sets->width)
            code = row_widen(sets, width, id);
    }
    if (code != SQLITE_OK) {
        sets->kind = NULL;
        return code;
    }
    sets->id = id;
    sets->looked = true;
    return SQLITE_OK;
}

int arg_sets_n_fields(const struct arg_sets *sets)
{
    return sets->kind ? sets->kind->n_fields : 0;
}

const struct arg_field *arg_sets_field(const struct arg_sets *sets, int index)
{
    return &sets->kind->fields[index];
}

sqlite3_value *arg_sets_value(struct arg_sets *sets, int index)
{
    int slot = sets->kind->fields[index].slot;
    if (slot >= 0 && slot < SLOTS_IN_ROW)
        return sqlite3_column_value(sets->rows[sets->width], COLUMN_VALUES + slot);
    sqlite3_reset(sets->more);
    sqlite3_bind_int64(sets->more, 1, sets->id);
    sqlite3_bind_int(sets->more, 2, slot);
    return sqlite3_step(sets->more) == SQLITE_ROW ? sqlite3_column_value(sets->more, 0) : NULL;
}

bool arg_sets_has(struct arg_sets *sets, int index)
{
    sqlite3_value *value = arg_sets_value(sets, index);
    return (value && sqlite3_value_type(value) != SQLITE_NULL) ||
           sets->kind->fields[index].type >= STORED_NULL;
}
