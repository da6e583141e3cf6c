// SPDX-License-Identifier: Apache-2.0
//
// EXTRACT_ARG gives one value of an arg set, and __intrinsic_arg_set_to_json all values.
//
// The keys of a set ("debug.list[2].name") are paths in a tree. The tree is a list of nodes with
// their parents; a table by parent and name finds a node again. All calls in one statement share
// the memory of the tree.
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/map.h"
#include "common/text.h"
#include "common/vec.h"
#include "converter/functions/arg_sets.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

#define NODES_MAX (1 << 20)
#define NO_NODE   UINT32_MAX

static void arg_sets_destroy(void *sets)
{
    arg_sets_free(sets);
}

// Returns the arg sets, which all calls in one statement share.
static struct arg_sets *arg_sets_of(sqlite3_context *context)
{
    struct arg_sets *sets = sqlite3_get_auxdata(context, SHARED_ARG_SETS);
    if (sets)
        return sets;
    sqlite3 *handle = sqlite3_context_db_handle(context);
    if (arg_sets_open(handle, &sets) != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, SHARED_ARG_SETS, sets, arg_sets_destroy);
    return sqlite3_get_auxdata(context, SHARED_ARG_SETS);
}

static void extract_arg(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *key = (const char *)sqlite3_value_text(argv[1]);
    struct arg_sets *sets =
        key && sqlite3_value_type(argv[0]) == SQLITE_INTEGER ? arg_sets_of(context) : NULL;
    if (!sets)
        return;
    int code = arg_sets_look(sets, sqlite3_value_int64(argv[0]));
    if (code != SQLITE_OK) {
        sqlite3_result_error_code(context, code);
        return;
    }
    for (int i = 0, n = arg_sets_n_fields(sets); i < n; i++) {
        const struct arg_field *field = arg_sets_field(sets, i);
        if (strcmp(field->key, key) != 0 || !arg_sets_has(sets, i))
            continue;
        sqlite3_value *value = arg_sets_value(sets, i);
        if (value && field->type == STORED_REAL && sqlite3_value_type(value) == SQLITE_INTEGER)
            sqlite3_result_double(context, sqlite3_value_double(value));
        else if (value)
            sqlite3_result_value(context, value);
        return;
    }
}

enum node_kind { NODE_NULL, NODE_VALUE, NODE_LIST, NODE_DICTIONARY };

struct node {
    enum node_kind kind;
    int field;                          // NODE_VALUE: of the arg set
    uint32_t parent, first, last, next; // nodes; NO_NODE: none
    uint32_t n_children;
    const char *name;             // in a dictionary; borrowed from the key
    uint32_t name_size, position; // position: in a list
};
VEC_DEFINE(node_vec, struct node);

struct tree {
    struct node_vec nodes;
    uint32_t *slots; // owned; node + 1, open addressing; 0: free
    size_t n_slots;  // a power of two
};

static void tree_free(void *userdata)
{
    struct tree *tree = userdata;
    node_vec_done(&tree->nodes);
    free(tree->slots);
    free(tree);
}

static uint64_t child_hash(uint32_t parent, const char *name, uint32_t size, uint32_t position)
{
    uint64_t place = (uint64_t)parent << 32 | position;
    return table_hash_u64(place ^ table_hash_bytes(name, size));
}

static uint32_t *child_slot(const struct tree *tree, uint32_t parent, const char *name,
                            uint32_t size, uint32_t position)
{
    size_t i = (size_t)child_hash(parent, name, size, position) & (tree->n_slots - 1);
    for (; tree->slots[i]; i = (i + 1) & (tree->n_slots - 1)) {
        const struct node *node = &tree->nodes.items[tree->slots[i] - 1];
        if (node->parent == parent && node->position == position && node->name_size == size &&
            (size == 0 || memcmp(node->name, name, size) == 0))
            break;
    }
    return &tree->slots[i];
}

static bool slots_grow(struct tree *tree)
{
    size_t n = tree->n_slots ? tree->n_slots * 2 : 64;
    uint32_t *slots = calloc(n, sizeof(*slots));
    if (!slots)
        return false;
    free(tree->slots);
    tree->slots = slots;
    tree->n_slots = n;
    for (uint32_t i = 1; i < tree->nodes.n; i++) {
        const struct node *node = &tree->nodes.items[i];
        *child_slot(tree, node->parent, node->name, node->name_size, node->position) = i + 1;
    }
    return true;
}

// Returns the child of a dictionary or list. Adds a missing child. Returns NO_NODE if memory ran
// out.
static uint32_t child_get(struct tree *tree, uint32_t parent, const char *name, uint32_t size,
                          uint32_t position)
{
    if (tree->nodes.n * 2 >= tree->n_slots && !slots_grow(tree))
        return NO_NODE;
    uint32_t *slot = child_slot(tree, parent, name, size, position);
    if (*slot)
        return *slot - 1;
    uint32_t number = (uint32_t)tree->nodes.n;
    struct node node = {.parent = parent,
                        .first = NO_NODE,
                        .last = NO_NODE,
                        .next = NO_NODE,
                        .name = name,
                        .name_size = size,
                        .position = position};
    if (number == NODES_MAX || node_vec_push(&tree->nodes, node) < 0)
        return NO_NODE;
    struct node *above = &tree->nodes.items[parent];
    if (above->last == NO_NODE)
        above->first = number;
    else
        tree->nodes.items[above->last].next = number;
    above->last = number;
    above->n_children++;
    *slot = number + 1;
    return number;
}

// Returns the member of a list. Adds the member, and missing members before it.
static uint32_t member_get(struct tree *tree, uint32_t list, uint32_t position)
{
    uint32_t node = NO_NODE;
    for (uint32_t i = tree->nodes.items[list].n_children; i <= position && i < NODES_MAX; i++)
        if ((node = child_get(tree, list, "", 0, i)) == NO_NODE)
            return NO_NODE;
    return position < NODES_MAX ? child_get(tree, list, "", 0, position) : NO_NODE;
}

// Makes a node without a value a list or dictionary. Returns false if the node has another kind.
static bool node_become(struct tree *tree, uint32_t number, enum node_kind kind)
{
    struct node *node = &tree->nodes.items[number];
    if (node->kind == NODE_NULL)
        node->kind = kind;
    return node->kind == kind;
}

static uint32_t position_read(const char **at, const char *end)
{
    uint64_t position = 0;
    while (*at < end && is_digit(**at)) {
        position = position * 10 + (uint64_t)(**at - '0');
        (*at)++;
        if (position > NODES_MAX)
            position = NODES_MAX;
    }
    return (uint32_t)position;
}

// Adds the field with its path. Returns NULL, or an error text.
static const char *path_add(struct tree *tree, const char *key, int field)
{
    uint32_t node = 0;
    for (const char *at = key; *at;) {
        const char *end = at + strcspn(at, ".");
        const char *bracket = memchr(at, '[', (size_t)(end - at));
        const char *name_end = bracket ? bracket : end;
        if (end == at) {
            at++;
            continue;
        }
        if (!node_become(tree, node, NODE_DICTIONARY))
            return "arg set to JSON: a key is both a dictionary and something else";
        node = child_get(tree, node, at, (uint32_t)(name_end - at), NO_NODE);
        while (bracket && node != NO_NODE) {
            const char *digit = bracket + 1;
            uint32_t position = position_read(&digit, end);
            if (digit == bracket + 1 || digit == end || *digit != ']')
                return "arg set to JSON: a key has brackets without a number";
            if (!node_become(tree, node, NODE_LIST))
                return "arg set to JSON: a key is both a list and something else";
            node = member_get(tree, node, position);
            bracket = memchr(digit, '[', (size_t)(end - digit));
        }
        if (node == NO_NODE)
            return "arg set to JSON: too many values for the memory";
        at = *end ? end + 1 : end;
    }
    tree->nodes.items[node].kind = NODE_VALUE;
    tree->nodes.items[node].field = field;
    return NULL;
}

static const char *tree_fill(struct tree *tree, struct arg_sets *sets)
{
    struct node root = {.kind = NODE_DICTIONARY, .first = NO_NODE, .last = NO_NODE};
    // Frees the table of a large set: otherwise each later small set would clear all slots of the
    // table.
    if (tree->n_slots > 64 && tree->n_slots > tree->nodes.n * 8) {
        free(tree->slots);
        tree->slots = NULL;
        tree->n_slots = 0;
    }
    if (tree->slots)
        memset(tree->slots, 0, tree->n_slots * sizeof(*tree->slots));
    node_vec_clear(&tree->nodes);
    if (node_vec_push(&tree->nodes, root) < 0)
        return "arg set to JSON: out of memory";
    for (int i = 0, n = arg_sets_n_fields(sets); i < n; i++) {
        const char *key = arg_sets_field(sets, i)->key;
        const char *why = *key && arg_sets_has(sets, i) ? path_add(tree, key, i) : NULL;
        if (why)
            return why;
    }
    return NULL;
}

// Appends a character beyond ASCII as \uXXXX, or as two such escapes. Returns the character's size.
static int escape(sqlite3_str *out, const unsigned char *at, int n)
{
    int size = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : *at >= 0xc0 ? 2 : 1;
    uint32_t c = size == 1 ? *at : *at & (0xffu >> (size + 1));
    size = size < n ? size : n;
    for (int i = 1; i < size; i++)
        c = c << 6 | (at[i] & 0x3f);
    if (c > 0xffff) {
        c -= 0x10000;
        sqlite3_str_appendf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10 & 0x3ff),
                            0xdc00 + (c & 0x3ff));
    } else {
        sqlite3_str_appendf(out, "\\u%04x", c);
    }
    return size;
}

static void string_add(sqlite3_str *out, const char *text, int n)
{
    static const char plain[] = "\"\\\n\b\f\r\t", escaped[] = "\"\\nbfrt";
    sqlite3_str_appendchar(out, 1, '"');
    for (int i = 0; i < n;) {
        int run = i;
        while (run < n && text[run] >= 0x20 && text[run] <= 0x7e && text[run] != '"' &&
               text[run] != '\\')
            run++;
        sqlite3_str_append(out, text + i, run - i);
        i = run;
        if (i == n)
            break;
        const char *special = text[i] ? strchr(plain, text[i]) : NULL;
        if (special)
            sqlite3_str_appendf(out, "\\%c", escaped[special - plain]);
        i += special ? 1 : escape(out, (const unsigned char *)text + i, n - i);
    }
    sqlite3_str_appendchar(out, 1, '"');
}

static void real_add(sqlite3_str *out, double real)
{
    char text[40];
    if (isinf(real)) {
        sqlite3_str_appendall(out, real < 0 ? "\"-Infinity\"" : "\"Infinity\"");
        return;
    }
    // As %g in C, but the decimal separator is a point in every locale.
    sqlite3_snprintf(sizeof(text), text, "%!.16g", real);
    char *zero = strstr(text, ".0");
    if (zero && (!zero[2] || zero[2] == 'e'))
        memmove(zero, zero + 2, strlen(zero + 2) + 1);
    sqlite3_str_appendall(out, text);
}

static void value_add(sqlite3_str *out, struct arg_sets *sets, int index)
{
    int type = arg_sets_field(sets, index)->type;
    sqlite3_value *value = arg_sets_value(sets, index);
    int stored = value ? sqlite3_value_type(value) : SQLITE_NULL;
    if (stored == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_value_text(value);
        string_add(out, text ? text : "", text ? sqlite3_value_bytes(value) : 0);
    } else if (stored == SQLITE_NULL) {
        sqlite3_str_appendall(out, "null");
    } else if (type == STORED_REAL) {
        real_add(out, sqlite3_value_double(value));
    } else if (type == STORED_BOOL) {
        sqlite3_str_appendall(out, sqlite3_value_int64(value) ? "true" : "false");
    } else {
        sqlite3_str_appendf(out,
                            type == STORED_UINT      ? "%llu"
                            : type == STORED_POINTER ? "\"0x%llx\""
                                                     : "%lld",
                            sqlite3_value_int64(value));
    }
}

// Writes the node up to its first child. Returns the next node to write; NO_NODE: the end.
static uint32_t node_write(sqlite3_str *out, const struct tree *tree, struct arg_sets *sets,
                           uint32_t number)
{
    const struct node *node = &tree->nodes.items[number];
    bool in_list = number && tree->nodes.items[node->parent].kind == NODE_LIST;
    if (number && !in_list) {
        string_add(out, node->name, (int)node->name_size);
        sqlite3_str_appendchar(out, 1, ':');
    }
    bool has_children = node->kind == NODE_LIST || node->kind == NODE_DICTIONARY;
    if (has_children)
        sqlite3_str_appendchar(out, 1, node->kind == NODE_LIST ? '[' : '{');
    else if (node->kind == NODE_VALUE)
        value_add(out, sets, node->field);
    else
        sqlite3_str_appendall(out, "null");
    if (has_children && node->first != NO_NODE)
        return node->first;
    if (has_children)
        sqlite3_str_appendchar(out, 1, node->kind == NODE_LIST ? ']' : '}');
    while (number && tree->nodes.items[number].next == NO_NODE) {
        number = tree->nodes.items[number].parent;
        sqlite3_str_appendchar(out, 1, tree->nodes.items[number].kind == NODE_LIST ? ']' : '}');
    }
    if (!number)
        return NO_NODE;
    sqlite3_str_appendchar(out, 1, ',');
    return tree->nodes.items[number].next;
}

static struct tree *tree_of(sqlite3_context *context)
{
    struct tree *tree = sqlite3_get_auxdata(context, SHARED_ARG_TREE);
    if (tree)
        return tree;
    tree = calloc(1, sizeof(*tree));
    if (!tree) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    sqlite3_set_auxdata(context, SHARED_ARG_TREE, tree, tree_free);
    return sqlite3_get_auxdata(context, SHARED_ARG_TREE);
}

static void arg_set_to_json(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int type = sqlite3_value_type(argv[0]);
    if (type == SQLITE_NULL)
        return;
    if (type != SQLITE_INTEGER) {
        sqlite3_result_error(context, "arg set to JSON: the number of an arg set is expected", -1);
        return;
    }
    struct arg_sets *sets = arg_sets_of(context);
    struct tree *tree = sets ? tree_of(context) : NULL;
    if (!tree)
        return;
    int code = arg_sets_look(sets, sqlite3_value_int64(argv[0]));
    if (code != SQLITE_OK) {
        sqlite3_result_error_code(context, code);
        return;
    }
    const char *why = tree_fill(tree, sets);
    if (why) {
        sqlite3_result_error(context, why, -1);
        return;
    }
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    for (uint32_t node = 0; node != NO_NODE;)
        node = node_write(out, tree, sets, node);
    string_result(context, out);
}

int args_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"extract_arg", 2, extract_arg, READS_DATABASE},
        {"__intrinsic_arg_set_to_json", 1, arg_set_to_json, READS_DATABASE},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
