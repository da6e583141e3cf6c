// SPDX-License-Identifier: Apache-2.0
//
// Functions of text: parts of a text, reversed text, names made readable or comparable.
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/mangled.h"
#include "common/text.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

static void str_split(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    const char *separator = (const char *)sqlite3_value_text(argv[1]);
    int64_t n = sqlite3_value_int64(argv[2]);
    if (!text || !separator)
        return;
    if (!*separator || n < 0) {
        sqlite3_result_error(context, "STR_SPLIT: the separator is empty, or the number negative",
                             -1);
        return;
    }
    size_t length = strlen(separator);
    const char *end;
    for (; (end = strstr(text, separator)) && n; n--)
        text = end + length;
    if (!n)
        sqlite3_result_text(context, text, end ? (int)(end - text) : -1, SQLITE_TRANSIENT);
}

static void demangle(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    char *readable = name ? mangled_read(name) : NULL;
    if (readable)
        sqlite3_result_text(context, readable, -1, SQLITE_TRANSIENT);
    free(readable);
}

static void reverse(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    int n = sqlite3_value_bytes(argv[0]);
    char *out = text ? sqlite3_malloc64((uint64_t)n + 1) : NULL;
    if (!out)
        return;
    // Characters are reversed, not bytes: continuation bytes stay after their first byte.
    for (int end = n, at = n; end > 0; end = at) {
        for (at = end - 1; at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80; at--)
            ;
        memcpy(out + (n - end), text + at, (size_t)(end - at));
    }
    sqlite3_result_text(context, out, n, sqlite3_free);
}

static bool is_hex(char c)
{
    return isxdigit((unsigned char)c);
}

// Returns whether a hexadecimal number begins at `at`: at the start of the text with any
// hexadecimal digit, elsewhere with a decimal digit.
static bool run_begins(const char *text, const char *at)
{
    return at == text ? is_hex(*at) : is_digit(*at);
}

static void strip(sqlite3_str *out, const char *text, int64_t shortest)
{
    const char *at = text, *copied = text;
    while (*at) {
        bool is_prefix = (*at | 0x20) == 'x' && at > text && at[-1] == '0';
        bool is_number = is_prefix;
        if (!run_begins(text, at)) {
            bool is_gap = is_prefix || !isalnum((unsigned char)*at);
            at++;
            if (!is_gap)
                continue;
        }
        const char *run = at;
        for (; is_hex(*at); at++)
            is_number |= is_digit(*at);
        if (!is_number || at - run < shortest)
            continue;
        sqlite3_str_append(out, copied, (int)(run - copied));
        sqlite3_str_appendall(out, "<num>");
        copied = at;
    }
    sqlite3_str_appendall(out, copied);
}

// SQL arguments: (text, shortest run to replace)
static void strip_hex(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int type = sqlite3_value_type(argv[0]), count_type = sqlite3_value_type(argv[1]);
    if (type == SQLITE_NULL || count_type == SQLITE_NULL)
        return;
    if (type != SQLITE_TEXT || count_type != SQLITE_INTEGER || sqlite3_value_int64(argv[1]) < 0) {
        sqlite3_result_error(
            context,
            "__intrinsic_strip_hex: a text and a number of digits, at least 0, are "
            "expected",
            -1);
        return;
    }
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    if (text)
        strip(out, text, sqlite3_value_int64(argv[1]));
    string_result(context, out);
}

int text_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"str_split", 3, str_split, 0},
        {"demangle", 1, demangle, IS_INTRINSIC},
        {"reverse", 1, reverse, IS_INTRINSIC},
        {"__intrinsic_strip_hex", 2, strip_hex, 0},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
