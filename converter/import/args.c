// SPDX-License-Identifier: Apache-2.0
//
// Events of one kind often repeat their values, so a set is looked up by its hash first. The cache
// is of fixed size and forgets: that costs a few rows more, while remembering every set would cost
// memory that grows with the trace.
#include "converter/import/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/map.h"

#define DUPLICATES_CHECKED_MAX 64 // above that a set is an array, whose keys differ

int args_init(struct args *args, struct database *db)
{
    args->db = db;
    args->cached = calloc(ARGS_CACHED_N, sizeof(*args->cached));
    return args->cached ? 0 : -ENOMEM;
}

static uint64_t args_hash(const struct arg *items, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++) {
        const struct arg *arg = &items[i];
        uint64_t value = (uint64_t)arg->integer;
        if (arg->type == ARG_TEXT || arg->type == ARG_JSON)
            value = hash_bytes(arg->text, arg->size);
        hash = hash_u64(hash ^ hash_bytes(arg->key, strlen(arg->key))) + arg->type;
        hash = hash_u64(hash ^ value);
    }
    return hash;
}

static void arg_write(struct database *db, const struct arg *arg, int64_t set)
{
    struct cell *row = database_row(db, TABLE_args, NULL);
    cell_int(row, COL_args_arg_set_id, set);
    cell_text(row, COL_args__flat_key, arg->flat_key);
    cell_text(row, COL_args_key, arg->key);
    cell_int(row, COL_args__type, arg->type);
    switch ((enum arg_type)arg->type) {
    case ARG_INT:
    case ARG_UINT:
    case ARG_POINTER:
    case ARG_BOOL:
        cell_int(row, COL_args_int_value, arg->integer);
        break;
    case ARG_TEXT:
    case ARG_JSON:
        cell_bytes(row, COL_args_string_value, arg->text, arg->size);
        break;
    case ARG_REAL:
        cell_real(row, COL_args_real_value, arg->real);
        break;
    case ARG_NULL:
        break;
    }
}

static bool is_overridden(const struct arg *items, size_t n, size_t i)
{
    if (n > DUPLICATES_CHECKED_MAX)
        return false;
    for (size_t k = i + 1; k < n; k++)
        if (strcmp(items[k].key, items[i].key) == 0)
            return true;
    return false;
}

int64_t args_add(struct args *args, const struct arg *items, size_t n)
{
    if (!n)
        return ARG_SET_NONE;
    uint64_t hash = args_hash(items, n);
    struct args_cached *cached = &args->cached[hash % ARGS_CACHED_N];
    if (cached->set && cached->hash == hash)
        return cached->set - 1;
    int64_t set = (int64_t)database_n_rows(args->db, TABLE_args);
    for (size_t i = 0; i < n; i++)
        if (!is_overridden(items, n, i))
            arg_write(args->db, &items[i], set);
    *cached = (struct args_cached){.hash = hash, .set = set + 1};
    return set;
}

void args_done(struct args *args)
{
    free(args->cached);
    *args = (struct args){0};
}
