// SPDX-License-Identifier: Apache-2.0
//
// Sets often repeat, and the keys of sets nearly always repeat. Two caches of fixed size find sets
// and kinds by hash. A forgotten entry costs a duplicate row; caches of all entries would grow with
// the trace.
#include "converter/import/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/map.h"
#include "common/memory.h"

#define SCANNED_MAX 64   // larger sets find equal keys by hash
#define KEPT_MAX    4096 // args in merged_args

int args_init(struct args *args, struct database *db)
{
    args->db = db;
    args->cached = memory_calloc(ARGS_CACHED_N + KINDS_CACHED_N, sizeof(*args->cached));
    return args->cached ? 0 : -ENOMEM;
}

static uint64_t text_hash(const char *text)
{
    return text ? hash_bytes(text, strlen(text)) : 0;
}

static uint8_t stored_type(const struct arg *arg)
{
    return arg->type == ARG_REAL && isnan(arg->real) ? ARG_NO_NUMBER : arg->type;
}

// Hashes keys and types (*ret_kind), and keys, types and values (*ret_set).
static void args_hash(const struct arg *items, size_t n, uint64_t *ret_kind, uint64_t *ret_set)
{
    uint64_t kind = n, set = n;
    for (size_t i = 0; i < n; i++) {
        const struct arg *arg = &items[i];
        uint64_t value = arg->type == ARG_NULL ? 0 : (uint64_t)arg->integer;
        if (arg->type == ARG_TEXT || arg->type == ARG_JSON)
            value = hash_bytes(arg->text, arg->size);
        kind = hash_u64(kind ^ text_hash(arg->key)) + stored_type(arg);
        kind = hash_u64(kind ^ text_hash(arg->flat_key));
        set = hash_u64(set ^ value);
    }
    *ret_kind = kind;
    *ret_set = hash_u64(kind ^ set);
}

void arg_cell_set(struct cell *cell, const struct arg *arg)
{
    switch ((enum arg_type)arg->type) {
    case ARG_INT:
    case ARG_UINT:
    case ARG_POINTER:
    case ARG_BOOL:
        cell_int(cell, 0, arg->integer);
        break;
    case ARG_TEXT:
    case ARG_JSON:
        cell_bytes(cell, 0, arg->text, arg->size);
        break;
    case ARG_REAL:
        cell_real(cell, 0, arg->real);
        break;
    case ARG_NULL:
    case ARG_NO_NUMBER:
        break;
    }
}

int64_t arg_kind_add(struct database *db, const char *name, size_t name_size)
{
    int64_t kind;
    struct cell *row = database_row(db, TABLE__arg_kind, &kind);
    if (name)
        cell_bytes(row, COL__arg_kind_name, name, name_size);
    return kind;
}

void arg_field_add(struct database *db, int64_t kind, size_t slot, const char *key,
                   const char *flat_key, uint8_t type)
{
    struct cell *row = database_row(db, TABLE__arg_field, NULL);
    cell_int(row, COL__arg_field_kind_id, kind);
    cell_int(row, COL__arg_field_slot, (int64_t)slot);
    cell_text(row, COL__arg_field_key, key);
    cell_text(row, COL__arg_field_flat_key, flat_key);
    cell_int(row, COL__arg_field_type, type);
}

// Returns the index of an arg with the key among `items`, or n.
static size_t key_find(const struct arg *items, size_t n, const char *key)
{
    size_t i = 0;
    while (i < n && items[i].key != key && strcmp(items[i].key, key) != 0)
        i++;
    return i;
}

// Does the work of key_find() for many args: `places` maps the hashes of keys to indexes. Adds the
// key to `places`. A key counts as new if another key has its hash.
static size_t key_find_hashed(struct map64 *places, const struct arg *items, size_t n,
                              const char *key, struct failure *failure)
{
    bool is_new;
    const uint64_t *place = map64_get_or_add(places, text_hash(key), n, &is_new);
    if (!place)
        failure_note(failure, -ENOMEM);
    bool is_same = place && !is_new && strcmp(items[*place].key, key) == 0;
    return is_same ? (size_t)*place : n;
}

size_t args_merge(struct arg *items, size_t n, struct failure *failure)
{
    struct map64 places = {0};
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        size_t same = n <= SCANNED_MAX
                          ? key_find(items, n_kept, items[i].key)
                          : key_find_hashed(&places, items, n_kept, items[i].key, failure);
        if (same == n_kept)
            items[n_kept++] = items[i];
        else if (!items[i].is_fallback)
            items[same] = items[i];
    }
    map64_done(&places);
    return n_kept;
}

static int64_t kind_of(struct args *args, const struct arg *items, size_t n, uint64_t hash)
{
    struct args_cached *cached = &args->cached[ARGS_CACHED_N + hash % KINDS_CACHED_N];
    if (cached->id && cached->hash == hash)
        return cached->id - 1;
    int64_t kind = arg_kind_add(args->db, NULL, 0);
    for (size_t i = 0; i < n; i++)
        arg_field_add(args->db, kind, i, items[i].key, items[i].flat_key, stored_type(&items[i]));
    *cached = (struct args_cached){.hash = hash, .id = kind + 1};
    return kind;
}

static int64_t set_write(struct args *args, int64_t kind, const struct arg *items, size_t n)
{
    size_t n_slots = n < ARG_SLOTS_MAX ? n : ARG_SLOTS_MAX;
    int64_t set = database_reserve_id(args->db, TABLE__arg_set);
    struct cell *row =
        database_row_sized(args->db, TABLE__arg_set, set, COL__arg_set_value_0 + n_slots);
    cell_int(row, COL__arg_set_kind_id, kind);
    for (size_t i = 0; i < n_slots; i++)
        arg_cell_set(&row[COL__arg_set_value_0 + i], &items[i]);
    for (size_t i = n_slots; i < n; i++) {
        row = database_row(args->db, TABLE__arg_more, NULL);
        cell_int(row, COL__arg_more_arg_set_id, set);
        cell_int(row, COL__arg_more_slot, (int64_t)i);
        arg_cell_set(&row[COL__arg_more_value], &items[i]);
    }
    return set;
}

static int64_t merged_add(struct args *args, const struct arg *items, size_t n)
{
    uint64_t kind_hash, set_hash;
    args_hash(items, n, &kind_hash, &set_hash);
    struct args_cached *cached = &args->cached[set_hash % ARGS_CACHED_N];
    if (cached->id && cached->hash == set_hash)
        return cached->id - 1;
    int64_t set = set_write(args, kind_of(args, items, n, kind_hash), items, n);
    *cached = (struct args_cached){.hash = set_hash, .id = set + 1};
    return set;
}

void merged_args_add(struct merged_args *merged, const struct arg *items, size_t n,
                     struct failure *failure)
{
    struct arg_vec *all = &merged->args;
    if (all->n + n > 2 * merged->n_merged + SCANNED_MAX) {
        size_t n_merged = args_merge(all->items, all->n, failure);
        all->n = merged->n_merged = n_merged < KEPT_MAX ? n_merged : KEPT_MAX;
    }
    for (size_t i = 0; i < n; i++)
        failure_note(failure, arg_vec_push(all, items[i]));
}

int64_t args_add(struct args *args, const struct arg *items, size_t n)
{
    struct arg few[SCANNED_MAX];
    struct failure *failure = database_failure(args->db);
    if (!n || database_selection(args->db)->no_args)
        return ARG_SET_NONE;
    struct arg *merged = n <= SCANNED_MAX ? few : memory_malloc(n * sizeof(*merged));
    if (!merged) {
        failure_note(failure, -ENOMEM);
        return ARG_SET_NONE;
    }
    memcpy(merged, items, n * sizeof(*merged));
    int64_t set = merged_add(args, merged, args_merge(merged, n, failure));
    if (merged != few)
        free(merged);
    return set;
}

void args_done(struct args *args)
{
    free(args->cached);
    *args = (struct args){0};
}
