// SPDX-License-Identifier: Apache-2.0
//
// Sets of named values that belong to a row of a table (the args view). Equal sets that follow each
// other closely are stored once. Sets with equal keys share a kind.
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/text.h"
#include "common/vec.h"
#include "converter/decode/message.h"
#include "converter/tables/database.h"

// The name of a slice or a track, or another text for a row.
struct slice_name {
    const char *text; // borrowed like a cell's text; NULL: none
    size_t size;
};

static inline struct slice_name slice_name(const char *text)
{
    return (struct slice_name){.text = text, .size = strlen(text)};
}

// Initializes a static slice_name from a string literal.
#define SLICE_NAME(literal)                                                                        \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }

// Returns the text with this id; no text for STRSET_NONE.
static inline struct slice_name slice_name_of(const struct strset *strings, uint32_t id)
{
    const char *text = strset_text(strings, id);
    return (struct slice_name){.text = text, .size = text ? strings->entries[id].size : 0};
}

// Returns the text of a field; empty if the field is absent.
static inline struct slice_name field_name(const struct wire_field *field)
{
    return (struct slice_name){.text = field_text(field), .size = field->size};
}

static inline bool name_begins(struct slice_name name, const char *text)
{
    return name.size >= strlen(text) && memcmp(name.text, text, strlen(text)) == 0;
}

static inline bool name_is(struct slice_name name, const char *text)
{
    return name.size == strlen(text) && name_begins(name, text);
}

static inline struct slice_name name_cut(struct slice_name name, size_t max)
{
    return (struct slice_name){name.text, name.size < max ? name.size : max};
}

// Returns the value of `key`, or -1.
static inline int64_t map_number(const struct map64 *map, uint64_t key)
{
    const uint64_t *value = map64_find(map, key);
    return value ? (int64_t)*value : -1;
}

// The earliest and the latest of several times (ns); all zero: no time yet.
struct bounds {
    bool is_set;
    int64_t start, end;
};

static inline void bounds_add(struct bounds *bounds, int64_t ts)
{
    if (!bounds->is_set || ts < bounds->start)
        bounds->start = ts;
    if (!bounds->is_set || ts > bounds->end)
        bounds->end = ts;
    bounds->is_set = true;
}

// The values are stored in the database: see the args view.
enum arg_type {
    ARG_INT,
    ARG_UINT,
    ARG_TEXT,
    ARG_REAL,
    ARG_POINTER,
    ARG_BOOL,
    ARG_JSON,
    ARG_NULL,
    ARG_NO_NUMBER, // a REAL that is NaN, which SQL does not have
};

// Keys and texts are borrowed and must live as long as cells do (see database.h). A text of NULL is
// empty, even if its size is not 0.
struct arg {
    const char *key;
    const char *flat_key; // NULL: the same as key
    union {
        int64_t integer;
        double real;
        const char *text;
    };
    uint32_t size;    // of text
    uint8_t type;     // enum arg_type
    bool is_fallback; // an earlier value of the key has priority
};
VEC_DEFINE(arg_vec, struct arg);

static inline struct arg arg_int(const char *key, int64_t value)
{
    return (struct arg){.key = key, .integer = value, .type = ARG_INT};
}

static inline struct arg arg_uint(const char *key, uint64_t value)
{
    return (struct arg){.key = key, .integer = (int64_t)value, .type = ARG_UINT};
}

// The text ends at its first NUL, as in the answers of trace processor.
static inline struct arg arg_text(const char *key, const void *text, size_t size)
{
    return (struct arg){.key = key,
                        .text = text ? text : "",
                        .size = text ? (uint32_t)strnlen(text, size) : 0,
                        .type = ARG_TEXT};
}

static inline struct arg arg_bool(const char *key, bool value)
{
    return (struct arg){.key = key, .integer = value, .type = ARG_BOOL};
}

static inline struct arg arg_real(const char *key, double value)
{
    return (struct arg){.key = key, .real = value, .type = ARG_REAL};
}

static inline struct arg arg_name(const char *key, struct slice_name name)
{
    return arg_text(key, name.text, name.size);
}

static inline struct arg arg_of_text(const char *key, struct text text)
{
    return arg_text(key, text.at, text.size);
}

// Appends an arg to the array `args` of `n` args. The array must have room: the program aborts if
// it is full.
#define ARG_APPEND(args, n, ...)                                                                   \
    (assert((n) < ELEMENTS(args)), (void)((args)[(n)++] = (__VA_ARGS__)))

#define ARG_SET_NONE   (-1)
#define ARGS_CACHED_N  65536
#define KINDS_CACHED_N 4096

struct args_cached {
    uint64_t hash;
    int64_t id; // + 1; 0: empty
};

struct args {
    struct database *db;        // borrowed
    struct args_cached *cached; // owned, ARGS_CACHED_N sets and KINDS_CACHED_N kinds
};

int args_init(struct args *args, struct database *db);

// Keeps one arg of each key, at the place of the key's first arg. Its value is the last value that
// is not a fallback. Returns the number of remaining args.
size_t args_merge(struct arg *items, size_t n, struct failure *failure);

// Args that are added again and again, mostly with the same keys. The args are merged whenever
// their number has doubled. All zero: none.
struct merged_args {
    struct arg_vec args;
    size_t n_merged; // args whose keys differ
};

void merged_args_add(struct merged_args *merged, const struct arg *items, size_t n,
                     struct failure *failure);

static inline void merged_args_done(struct merged_args *merged)
{
    arg_vec_done(&merged->args);
    *merged = (struct merged_args){0};
}

// Writes the set unless the cache has an equal set. Merges args with the same key. Returns the id
// of the set. ARG_SET_NONE: the set is empty, or args are deselected.
int64_t args_add(struct args *args, const struct arg *items, size_t n);

// Adds a kind of set without fields and returns its id. `name` (NULL: none) lives as long as cells
// do.
int64_t arg_kind_add(struct database *db, const char *name, size_t name_size);

// Adds a field to a kind. Texts live as long as cells do.
void arg_field_add(struct database *db, int64_t kind, size_t slot, const char *key,
                   const char *flat_key, uint8_t type);

void arg_cell_set(struct cell *cell, const struct arg *arg);

void args_done(struct args *args);

// Puts a number into a row. A negative number means no number, and the cell stays NULL.
static inline void cell_known(struct cell *row, size_t column, int64_t number)
{
    if (number >= 0)
        cell_int(row, column, number);
}

// Puts a set's id into a row, unless the id is ARG_SET_NONE.
static inline void cell_arg_set(struct cell *row, size_t column, int64_t set)
{
    cell_known(row, column, set);
}

// Puts the number of a field into a row, if the field is present.
static inline void cell_number(struct cell *row, size_t column, const struct wire_field *field)
{
    if (field_present(field))
        cell_int(row, column, field_i64(field));
}

// Puts a name into a row, if the name has a text.
static inline void cell_name(struct cell *row, size_t column, struct slice_name name)
{
    if (name.text)
        cell_bytes(row, column, name.text, name.size);
}
