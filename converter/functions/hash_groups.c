// SPDX-License-Identifier: Apache-2.0
//
// The table function runs up to two statements. The first statement calls the aggregate
// __mmsql_group with the keys and arguments of each row. The aggregate finds the row's group, and
// has no result. If there are nearly as many groups as rows, or if an integer overflows, the
// aggregate ends the statement. The second statement, with GROUP BY, then gives the rows: SQLite
// sorts in files, and reports the overflow.
//
// Sums are equal to the sums of the loaded version of SQLite: from 3.43 on, SQLite adds reals with
// a correction.
#include "converter/functions/hash_groups.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/vec.h"
#include "converter/functions/value_order.h"

SQLITE_EXTENSION_INIT3

#define POINTER      "MMSQL_GROUPS"
#define GROUPS_MAX   ((size_t)256 << 10)
#define BYTES_MAX    ((size_t)64 << 20) // of keys and aggregates
#define GROUPS_FREE  4096               // below this number of groups, their share does not matter
#define SLOTS_FIRST  1024
#define CORRECTS     3043000 // the first version that adds reals with a correction
#define EXACT_MAX    ((int64_t)1 << 52)
#define N_ARGUMENTS  3
#define N_AFFINITIES 3 // of the columns: none, TEXT, NUMERIC

struct sum {
    int64_t n, whole;   // `whole` if all values are integers
    double real, error; // `error`: the correction
    bool is_real;
};

union aggregate {
    struct sum sum;
    struct value_key extreme; // owns its bytes
};

struct group {
    uint32_t hash;
    struct value_key *keys;      // owned, with their bytes
    union aggregate *aggregates; // behind the keys
};
VEC_DEFINE(group_vec, struct group);

enum groups_end { GROUPS_WHOLE, GROUPS_TOO_MANY, GROUPS_NO_MEMORY };

struct groups {
    const char *form;       // borrowed; a letter for each aggregate
    const char *directions; // borrowed; a sign for each key
    int n_keys, n_aggregates, n_arguments;
    bool corrects;
    struct group_vec groups;
    uint32_t *slots; // owned; 1 + the number of a group, or 0
    size_t n_slots;  // a power of two
    size_t n_rows, n_bytes;
    size_t last; // the group of the last row
    enum groups_end end;
};

static void key_free(struct value_key *key)
{
    if (key->type == SQLITE_TEXT || key->type == SQLITE_BLOB)
        free((char *)key->bytes);
}

static bool is_extreme(char letter)
{
    return letter == 'm' || letter == 'M';
}

static void groups_clear(struct groups *groups)
{
    vec_foreach(&groups->groups, group) {
        for (int i = 0; i < groups->n_keys; i++)
            key_free(&group->keys[i]);
        for (int i = 0; i < groups->n_aggregates; i++)
            if (is_extreme(groups->form[i]))
                key_free(&group->aggregates[i].extreme);
        free(group->keys);
    }
    group_vec_done(&groups->groups);
    free(groups->slots);
    groups->slots = NULL;
    groups->n_slots = 0;
}

// -- the groups --

// Replaces the borrowed bytes of the key by a copy.
static bool key_keep(struct groups *groups, struct value_key *key)
{
    if (key->type != SQLITE_TEXT && key->type != SQLITE_BLOB)
        return true;
    groups->n_bytes += key->size;
    char *copy = groups->n_bytes > BYTES_MAX ? NULL : malloc(key->size + 1);
    if (!copy) {
        *key = (struct value_key){.type = SQLITE_NULL};
        groups->end = groups->n_bytes > BYTES_MAX ? GROUPS_TOO_MANY : GROUPS_NO_MEMORY;
        return false;
    }
    if (key->size)
        memcpy(copy, key->bytes, key->size);
    key->bytes = copy;
    return true;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 29;
}

static uint64_t bytes_hash(uint64_t hash, const char *bytes, size_t n)
{
    uint64_t word = n;
    for (; n >= sizeof(word); bytes += sizeof(word), n -= sizeof(word)) {
        hash = mix(hash, word);
        memcpy(&word, bytes, sizeof(word));
    }
    hash = mix(hash, word);
    word = 0;
    if (n)
        memcpy(&word, bytes, n);
    return mix(hash, word);
}

// Adds a key to the hash. An integer and a real of equal value have equal hashes, because they are
// one group.
static uint64_t key_hash(uint64_t hash, const struct value_key *key)
{
    if (key->type == SQLITE_INTEGER)
        return mix(hash, (uint64_t)key->integer);
    if (key->type == SQLITE_FLOAT) {
        double real = key->real;
        uint64_t bits;
        if (real >= -9223372036854775808.0 && real < 9223372036854775808.0 &&
            (double)(int64_t)real == real)
            return mix(hash, (uint64_t)(int64_t)real);
        memcpy(&bits, &real, sizeof(bits));
        return mix(hash, bits);
    }
    return key->type == SQLITE_NULL ? mix(hash, 1) : bytes_hash(hash + 2, key->bytes, key->size);
}

static bool keys_equal(const struct groups *groups, const struct value_key *a,
                       const struct value_key *b)
{
    for (int i = 0; i < groups->n_keys; i++)
        if (value_keys_compare(&a[i], &b[i], '=') != 0)
            return false;
    return true;
}

static bool slots_grow(struct groups *groups)
{
    size_t n = groups->n_slots ? 2 * groups->n_slots : SLOTS_FIRST;
    uint32_t *slots = calloc(n, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < groups->groups.n; i++) {
        size_t at = groups->groups.items[i].hash & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(groups->slots);
    groups->slots = slots;
    groups->n_slots = n;
    return true;
}

static struct group *group_add(struct groups *groups, const struct value_key *keys, uint32_t hash)
{
    size_t n_keys = (size_t)groups->n_keys, n = (size_t)groups->n_aggregates;
    size_t size = n_keys * sizeof(struct value_key) + n * sizeof(union aggregate);
    struct group group = {.hash = hash, .keys = calloc(1, size)};
    groups->n_bytes += size;
    if (!group.keys || group_vec_push(&groups->groups, group) < 0) {
        free(group.keys);
        groups->end = GROUPS_NO_MEMORY;
        return NULL;
    }
    struct group *added = &groups->groups.items[groups->groups.n - 1];
    added->aggregates = (union aggregate *)(added->keys + n_keys);
    for (size_t i = 0; i < n; i++)
        if (is_extreme(groups->form[i]))
            added->aggregates[i].extreme.type = SQLITE_NULL;
    for (size_t i = 0; i < n_keys; i++)
        added->keys[i].type = SQLITE_NULL;
    for (size_t i = 0; i < n_keys; i++) {
        added->keys[i] = keys[i];
        if (!key_keep(groups, &added->keys[i]))
            return NULL;
    }
    return added;
}

// Returns the group of the keys, or NULL if the statement must end.
static struct group *group_find(struct groups *groups, const struct value_key *keys)
{
    uint64_t full = 0;
    if (groups->last < groups->groups.n &&
        keys_equal(groups, groups->groups.items[groups->last].keys, keys))
        return &groups->groups.items[groups->last];
    for (int i = 0; i < groups->n_keys; i++)
        full = key_hash(full, &keys[i]);
    uint32_t hash = (uint32_t)(full >> 32);
    if (2 * (groups->groups.n + 1) > groups->n_slots && !slots_grow(groups)) {
        groups->end = GROUPS_NO_MEMORY;
        return NULL;
    }
    size_t at = hash & (groups->n_slots - 1);
    for (; groups->slots[at]; at = (at + 1) & (groups->n_slots - 1)) {
        groups->last = groups->slots[at] - 1;
        struct group *group = &groups->groups.items[groups->last];
        if (group->hash == hash && keys_equal(groups, group->keys, keys))
            return group;
    }
    size_t n = groups->groups.n;
    if (n == GROUPS_MAX || groups->n_bytes > BYTES_MAX ||
        (n >= GROUPS_FREE && 4 * n > groups->n_rows)) {
        groups->end = GROUPS_TOO_MANY;
        return NULL;
    }
    groups->slots[at] = (uint32_t)n + 1;
    groups->last = n;
    return group_add(groups, keys, hash);
}

// -- the aggregates --

// Adds a value as SQLite does from 3.43 on: the algorithm of Kahan, Babuska and Neumaier.
static void add_corrected(struct sum *sum, double value)
{
    double before = sum->real, after = before + value;
    sum->error += fabs(before) > fabs(value) ? (before - after) + value : (value - after) + before;
    sum->real = after;
}

// Adds a value. Returns false if SQLite must compute the sum: on an overflow, or if an integer
// beside reals is too large.
static bool sum_add(struct sum *sum, sqlite3_value *value, bool corrects)
{
    int type = sqlite3_value_numeric_type(value);
    if (type == SQLITE_NULL)
        return true;
    sum->n++;
    if (type == SQLITE_INTEGER && !sum->is_real) {
        int64_t whole = sqlite3_value_int64(value);
        sum->real += corrects ? 0 : (double)whole;
        return !__builtin_add_overflow(sum->whole, whole, &sum->whole);
    }
    double real = sqlite3_value_double(value);
    bool was_real = sum->is_real;
    sum->is_real = true;
    if (!corrects) {
        sum->real += real;
        return true;
    }
    if (!was_real)
        sum->real = (double)sum->whole;
    if (sum->whole >= EXACT_MAX || sum->whole <= -EXACT_MAX ||
        (type == SQLITE_INTEGER && fabs(real) >= (double)EXACT_MAX))
        return false;
    add_corrected(sum, real);
    return true;
}

static bool extreme_add(struct groups *groups, struct value_key *extreme, sqlite3_value *value,
                        bool is_max)
{
    struct value_key key = value_key_read(value);
    if (key.type == SQLITE_NULL)
        return true;
    if (extreme->type != SQLITE_NULL) {
        int order = value_keys_compare(&key, extreme, '=');
        if (is_max ? order <= 0 : order >= 0)
            return true;
    }
    if (extreme->type == SQLITE_TEXT || extreme->type == SQLITE_BLOB)
        groups->n_bytes -= extreme->size;
    key_free(extreme);
    *extreme = key;
    return key_keep(groups, extreme);
}

static void group_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct groups *groups = sqlite3_value_pointer(argv[0], POINTER);
    struct value_key keys[GROUP_COLUMNS_MAX];
    if (!groups || argc != 1 + groups->n_keys + groups->n_arguments) {
        sqlite3_result_error(context, "__mmsql_group is a part of __mmsql_groups", -1);
        return;
    }
    if (groups->end != GROUPS_WHOLE)
        return;
    groups->n_rows++;
    for (int i = 0; i < groups->n_keys; i++)
        keys[i] = value_key_read(argv[1 + i]);
    struct group *group = group_find(groups, keys);
    sqlite3_value **argument = argv + 1 + groups->n_keys;
    bool is_known = group != NULL;
    for (int i = 0; i < groups->n_aggregates && is_known; i++) {
        union aggregate *aggregate = &group->aggregates[i];
        char letter = groups->form[i];
        if (letter == 'n')
            aggregate->sum.n++;
        else if (letter == 'c')
            aggregate->sum.n += sqlite3_value_type(*argument++) != SQLITE_NULL;
        else if (is_extreme(letter))
            is_known = extreme_add(groups, &aggregate->extreme, *argument++, letter == 'M');
        else
            is_known = sum_add(&aggregate->sum, *argument++, groups->corrects);
    }
    if (is_known)
        return;
    if (groups->end == GROUPS_WHOLE)
        groups->end = GROUPS_TOO_MANY;
    sqlite3_result_error(context, "too many groups", -1); // the text is not printed
}

static void group_final(sqlite3_context *context)
{
    (void)context;
}

static void sum_result(sqlite3_context *context, const struct sum *sum, char letter, bool corrects)
{
    double real = isfinite(sum->error) ? sum->real + sum->error : sum->real;
    if (!sum->is_real && corrects)
        real = (double)sum->whole;
    if (letter == 't')
        sqlite3_result_double(context, real);
    else if (sum->n && letter == 'a')
        sqlite3_result_double(context, real / (double)sum->n);
    else if (sum->n && sum->is_real)
        sqlite3_result_double(context, real);
    else if (sum->n)
        sqlite3_result_int64(context, sum->whole);
}

static void key_result(sqlite3_context *context, const struct value_key *key)
{
    if (key->type == SQLITE_INTEGER)
        sqlite3_result_int64(context, key->integer);
    else if (key->type == SQLITE_FLOAT)
        sqlite3_result_double(context, key->real);
    else if (key->type == SQLITE_TEXT)
        sqlite3_result_text64(context, key->bytes, key->size, SQLITE_STATIC, SQLITE_UTF8);
    else if (key->type == SQLITE_BLOB)
        sqlite3_result_blob64(context, key->bytes, key->size, SQLITE_STATIC);
}

static int by_keys(const void *left, const void *right, void *userdata)
{
    const struct group *a = left, *b = right;
    const struct groups *groups = userdata;
    int order = 0;
    int i = 0;
    for (; i < groups->n_keys && order == 0; i++)
        order = value_keys_compare(&a->keys[i], &b->keys[i], '=');
    return i > 0 && groups->directions[i - 1] == '-' ? -order : order;
}

// -- the table --

struct groups_cursor {
    sqlite3_vtab_cursor base;
    struct groups groups;
    char *form;           // owned
    sqlite3_stmt *sorted; // owned; SQLite's groups; NULL: the groups are in `groups`
    bool has_row;         // of `sorted`
    size_t row;
};

struct groups_vtab {
    sqlite3_vtab base;
    sqlite3 *handle; // borrowed
};

static int groups_connect(sqlite3 *handle, void *userdata, int argc, const char *const *argv,
                          sqlite3_vtab **ret, char **ret_error)
{
    (void)userdata, (void)argc, (void)argv, (void)ret_error;
    sqlite3_str *sql = sqlite3_str_new(handle);
    sqlite3_str_appendall(sql, "CREATE TABLE x(");
    for (int i = 0; i < GROUP_COLUMNS_MAX; i++)
        sqlite3_str_appendf(sql, "__g%d, ", i);
    for (int i = 0; i < GROUP_COLUMNS_MAX; i++)
        sqlite3_str_appendf(sql, "__t%d TEXT, ", i);
    for (int i = 0; i < GROUP_COLUMNS_MAX; i++)
        sqlite3_str_appendf(sql, "__n%d NUMERIC, ", i);
    sqlite3_str_appendall(sql, "__form HIDDEN, __hashed HIDDEN, __sorted HIDDEN)");
    char *text = sqlite3_str_finish(sql);
    int code = text ? sqlite3_declare_vtab(handle, text) : SQLITE_NOMEM;
    sqlite3_free(text);
    if (code == SQLITE_OK) // the function runs its arguments as SQL
        code = sqlite3_vtab_config(handle, SQLITE_VTAB_DIRECTONLY);
    if (code != SQLITE_OK)
        return code;
    struct groups_vtab *vtab = sqlite3_malloc(sizeof(*vtab));
    if (!vtab)
        return SQLITE_NOMEM;
    *vtab = (struct groups_vtab){.handle = handle};
    *ret = &vtab->base;
    return SQLITE_OK;
}

static int groups_disconnect(sqlite3_vtab *vtab)
{
    sqlite3_free(vtab);
    return SQLITE_OK;
}

static int groups_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
    (void)vtab;
    unsigned found = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *in = &info->aConstraint[i];
        int argument = in->iColumn - N_AFFINITIES * GROUP_COLUMNS_MAX;
        if (argument < 0 || argument >= N_ARGUMENTS || in->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!in->usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = 1 + argument;
        info->aConstraintUsage[i].omit = 1;
        found |= 1U << argument;
    }
    if (found != (1U << N_ARGUMENTS) - 1) // SQLite also asks for parts of a WHERE with OR
        return SQLITE_CONSTRAINT;
    info->estimatedCost = 1000;
    info->estimatedRows = 1000;
    return SQLITE_OK;
}

static int groups_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret)
{
    (void)vtab;
    struct groups_cursor *cursor = sqlite3_malloc(sizeof(*cursor));
    if (!cursor)
        return SQLITE_NOMEM;
    *cursor = (struct groups_cursor){0};
    *ret = &cursor->base;
    return SQLITE_OK;
}

static void cursor_clear(struct groups_cursor *cursor)
{
    groups_clear(&cursor->groups);
    sqlite3_finalize(cursor->sorted);
    free(cursor->form);
    *cursor = (struct groups_cursor){.base = cursor->base};
}

static int groups_close(sqlite3_vtab_cursor *base)
{
    struct groups_cursor *cursor = (struct groups_cursor *)base;
    cursor_clear(cursor);
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int fail(sqlite3_vtab *vtab, int code)
{
    sqlite3_free(vtab->zErrMsg);
    vtab->zErrMsg = sqlite3_mprintf("%s", sqlite3_errmsg(((struct groups_vtab *)vtab)->handle));
    return code;
}

// Returns false if `form` is not a valid form.
static bool form_read(struct groups_cursor *cursor, const char *form)
{
    struct groups *groups = &cursor->groups;
    size_t n_keys = strspn(form, "+-");
    if (n_keys < 1 || n_keys > GROUP_COLUMNS_MAX || form[n_keys] != ':')
        return false;
    const char *letters = form + n_keys + 1;
    size_t n = strlen(letters);
    if (n > GROUP_COLUMNS_MAX - n_keys || strspn(letters, "ncstamM") != n ||
        !(cursor->form = strdup(form)))
        return false;
    groups->directions = cursor->form;
    groups->form = cursor->form + n_keys + 1;
    groups->n_keys = (int)n_keys;
    groups->n_aggregates = (int)n;
    for (size_t i = 0; i < n; i++)
        groups->n_arguments += letters[i] != 'n';
    groups->corrects = sqlite3_libversion_number() >= CORRECTS;
    return true;
}

// Runs the statement that calls group_step() for each row.
static int groups_fill(sqlite3_vtab *vtab, struct groups *groups, const char *sql)
{
    sqlite3 *handle = ((struct groups_vtab *)vtab)->handle;
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_pointer(statement, 1, groups, POINTER, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW)
        code = sqlite3_step(statement);
    if (groups->end == GROUPS_TOO_MANY)
        code = SQLITE_OK;
    else if (groups->end == GROUPS_NO_MEMORY)
        code = SQLITE_NOMEM;
    else
        code = code == SQLITE_DONE ? SQLITE_OK : fail(vtab, code);
    sqlite3_finalize(statement);
    return code;
}

static int sorted_next(struct groups_cursor *cursor)
{
    int code = sqlite3_step(cursor->sorted);
    cursor->has_row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : fail(cursor->base.pVtab, code);
}

static int sorted_begin(struct groups_cursor *cursor, const char *sql)
{
    sqlite3_vtab *vtab = cursor->base.pVtab;
    groups_clear(&cursor->groups);
    int code =
        sqlite3_prepare_v2(((struct groups_vtab *)vtab)->handle, sql, -1, &cursor->sorted, NULL);
    return code == SQLITE_OK ? sorted_next(cursor) : fail(vtab, code);
}

static int groups_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                         sqlite3_value **argv)
{
    (void)number, (void)text;
    struct groups_cursor *cursor = (struct groups_cursor *)base;
    struct groups *groups = &cursor->groups;
    cursor_clear(cursor);
    const char *values[N_ARGUMENTS] = {0};
    for (int i = 0; i < argc && i < N_ARGUMENTS; i++)
        values[i] = (const char *)sqlite3_value_text(argv[i]);
    if (!values[0] || !values[1] || !values[2] || !form_read(cursor, values[0])) {
        sqlite3_free(base->pVtab->zErrMsg);
        base->pVtab->zErrMsg = sqlite3_mprintf("__mmsql_groups: wrong arguments");
        return SQLITE_ERROR;
    }
    int code = groups_fill(base->pVtab, groups, values[1]);
    if (code == SQLITE_OK && groups->end == GROUPS_TOO_MANY)
        code = sorted_begin(cursor, values[2]);
    else if (code == SQLITE_OK && groups->groups.n)
        qsort_r(groups->groups.items, groups->groups.n, sizeof(*groups->groups.items), by_keys,
                groups);
    return code;
}

static int groups_next(sqlite3_vtab_cursor *base)
{
    struct groups_cursor *cursor = (struct groups_cursor *)base;
    cursor->row++;
    return cursor->sorted ? sorted_next(cursor) : SQLITE_OK;
}

static int groups_eof(sqlite3_vtab_cursor *base)
{
    const struct groups_cursor *cursor = (const struct groups_cursor *)base;
    return cursor->sorted ? !cursor->has_row : cursor->row >= cursor->groups.groups.n;
}

static int groups_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct groups_cursor *cursor = (const struct groups_cursor *)base;
    const struct groups *groups = &cursor->groups;
    if (column >= N_AFFINITIES * GROUP_COLUMNS_MAX) // an argument of the function
        return SQLITE_OK;
    column %= GROUP_COLUMNS_MAX;
    if (cursor->sorted) {
        if (column < sqlite3_column_count(cursor->sorted))
            sqlite3_result_value(context, sqlite3_column_value(cursor->sorted, column));
        return SQLITE_OK;
    }
    const struct group *group = &groups->groups.items[cursor->row];
    if (column < groups->n_keys) {
        key_result(context, &group->keys[column]);
        return SQLITE_OK;
    }
    int i = column - groups->n_keys;
    if (i >= groups->n_aggregates)
        return SQLITE_OK;
    char letter = groups->form[i];
    if (is_extreme(letter))
        key_result(context, &group->aggregates[i].extreme);
    else if (letter == 'n' || letter == 'c')
        sqlite3_result_int64(context, group->aggregates[i].sum.n);
    else
        sum_result(context, &group->aggregates[i].sum, letter, groups->corrects);
    return SQLITE_OK;
}

static int groups_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)((struct groups_cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module groups_module = {
    .xConnect = groups_connect,
    .xBestIndex = groups_best_index,
    .xDisconnect = groups_disconnect,
    .xOpen = groups_open,
    .xClose = groups_close,
    .xFilter = groups_filter,
    .xNext = groups_next,
    .xEof = groups_eof,
    .xColumn = groups_column,
    .xRowid = groups_rowid,
};

int hash_groups_register(sqlite3 *handle)
{
    int code = sqlite3_create_module_v2(handle, "__mmsql_groups", &groups_module, NULL, NULL);
    if (code == SQLITE_OK)
        code =
            sqlite3_create_function_v2(handle, "__mmsql_group", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                       NULL, NULL, group_step, group_final, NULL);
    return code;
}
