// SPDX-License-Identifier: Apache-2.0
#include "converter/functions/value_order.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

struct value_key value_key_read(sqlite3_value *value)
{
    struct value_key key = {.type = sqlite3_value_type(value)};
    if (key.type == SQLITE_INTEGER)
        key.integer = sqlite3_value_int64(value);
    else if (key.type == SQLITE_FLOAT)
        key.real = sqlite3_value_double(value);
    else if (key.type != SQLITE_NULL) {
        key.bytes = sqlite3_value_blob(value);
        key.size = (size_t)sqlite3_value_bytes(value);
    }
    return key;
}

static int compare_reals(double a, double b)
{
    return a < b ? -1 : a > b;
}

static int compare_integers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_whole_and_real(int64_t a, double b)
{
    if (b < -9223372036854775808.0)
        return 1;
    if (b >= 9223372036854775808.0)
        return -1;
    int64_t whole = (int64_t)b;
    return a != whole ? compare_integers(a, whole) : compare_reals((double)whole, b);
}

static int compare_numbers(const struct value_key *a, const struct value_key *b)
{
    if (a->type == SQLITE_INTEGER)
        return b->type == SQLITE_INTEGER ? compare_integers(a->integer, b->integer)
                                         : compare_whole_and_real(a->integer, b->real);
    return b->type == SQLITE_INTEGER ? -compare_whole_and_real(b->integer, a->real)
                                     : compare_reals(a->real, b->real);
}

static size_t without_blanks(const char *text, size_t n)
{
    while (n && text[n - 1] == ' ')
        n--;
    return n;
}

static int compare_bytes(const struct value_key *a, const struct value_key *b, char collation)
{
    size_t n_a = collation == 'r' ? without_blanks(a->bytes, a->size) : a->size;
    size_t n_b = collation == 'r' ? without_blanks(b->bytes, b->size) : b->size;
    size_t n = n_a < n_b ? n_a : n_b;
    int order = n == 0             ? 0
                : collation == 'n' ? sqlite3_strnicmp(a->bytes, b->bytes, (int)n)
                                   : memcmp(a->bytes, b->bytes, n);
    return order ? order : n_a < n_b ? -1 : n_a > n_b;
}

// Returns the rank of a type in SQLite's order: NULL, numbers, text, bytes.
static int type_rank(int type)
{
    return type == SQLITE_NULL ? 0 : type == SQLITE_TEXT ? 2 : type == SQLITE_BLOB ? 3 : 1;
}

int value_keys_compare(const struct value_key *a, const struct value_key *b, char collation)
{
    int rank = type_rank(a->type), other = type_rank(b->type);
    if (rank != other)
        return rank < other ? -1 : 1;
    return rank == 0   ? 0
           : rank == 1 ? compare_numbers(a, b)
                       : compare_bytes(a, b, rank == 2 ? collation : '=');
}
