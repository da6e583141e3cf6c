// SPDX-License-Identifier: Apache-2.0
//
// Functions of newer versions of SQLite, for an older version. A function that SQLite has itself
// stays.
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/elements.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

static void append(sqlite3_str *out, sqlite3_value *value)
{
    const char *text = (const char *)sqlite3_value_text(value);
    if (text)
        sqlite3_str_append(out, text, sqlite3_value_bytes(value));
}

static void join(sqlite3_context *context, sqlite3_value *separator, int argc, sqlite3_value **argv)
{
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    bool is_first = true;
    for (int i = 0; i < argc; i++) {
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            continue;
        if (separator && !is_first)
            append(out, separator);
        append(out, argv[i]);
        is_first = false;
    }
    string_result(context, out);
}

static void concat(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    if (argc == 0)
        sqlite3_result_error(context, "wrong number of arguments to function concat()", -1);
    else
        join(context, NULL, argc, argv);
}

// SQL arguments: (separator, value, ...)
static void concat_ws(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    if (argc < 2)
        sqlite3_result_error(context, "wrong number of arguments to function concat_ws()", -1);
    else if (sqlite3_value_type(argv[0]) != SQLITE_NULL)
        join(context, argv[0], argc - 1, argv + 1);
}

static void octet_length(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(argv[0]) != SQLITE_BLOB)
        sqlite3_value_text(argv[0]); // a number has the length of its text
    sqlite3_result_int(context, sqlite3_value_bytes(argv[0]));
}

// Returns the value of `n` hexadecimal digits, or -1 if there are fewer digits.
static int64_t digits_read(const char *at, int n)
{
    int64_t code = 0;
    for (int i = 0; i < n; i++) {
        if (!isxdigit((unsigned char)at[i]))
            return -1;
        code = code * 16 + (at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10);
    }
    return code;
}

static void character_append(sqlite3_str *out, uint32_t code)
{
    static const uint8_t firsts[] = {0, 0xc0, 0xe0, 0xf0};
    int n = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    sqlite3_str_appendchar(out, 1, (char)(firsts[n] | code >> (6 * n)));
    while (n-- > 0)
        sqlite3_str_appendchar(out, 1, (char)(0x80 | (code >> (6 * n) & 0x3f)));
}

// Reads the character after a backslash and moves *at after it. Returns false if the escape is not
// valid.
static bool escape_read(const char **at, sqlite3_str *out)
{
    static const struct {
        char letter;
        int n_digits;
    } forms[] = {{'u', 4}, {'U', 8}, {'+', 6}};
    const char *digits = *at;
    int n = 4;
    if (*digits == '\\') {
        sqlite3_str_appendchar(out, 1, '\\');
        *at += 1;
        return true;
    }
    for (size_t i = 0; i < ELEMENTS(forms); i++)
        if (**at == forms[i].letter) {
            digits = *at + 1;
            n = forms[i].n_digits;
            break;
        }
    int64_t code = digits_read(digits, n);
    if (code < 0 || code > 0x1fffff)
        return false;
    character_append(out, (uint32_t)code);
    *at = digits + n;
    return true;
}

static void unistr(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *at = (const char *)sqlite3_value_text(argv[0]), *escape;
    if (!at)
        return;
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    while ((escape = strchr(at, '\\'))) {
        sqlite3_str_append(out, at, (int)(escape - at));
        at = escape + 1;
        if (!escape_read(&at, out)) {
            sqlite3_free(sqlite3_str_finish(out));
            sqlite3_result_error(context, "invalid Unicode escape", -1);
            return;
        }
    }
    sqlite3_str_appendall(out, at);
    string_result(context, out);
}

static bool has_controls(const char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text < ' ')
            return true;
    return false;
}

// Makes the value, in SQL, the result. A text with control characters becomes a call of unistr().
static void unistr_quote(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    const unsigned char *bytes = NULL;
    switch (sqlite3_value_type(argv[0])) {
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_value_text(argv[0]);
        if (!has_controls(text)) {
            sqlite3_str_appendf(out, "%Q", text);
            break;
        }
        sqlite3_str_appendall(out, "unistr('");
        for (; *text; text++)
            if ((unsigned char)*text < ' ')
                sqlite3_str_appendf(out, "\\u%04x", *text);
            else
                sqlite3_str_appendf(out,
                                    *text == '\''   ? "''"
                                    : *text == '\\' ? "\\\\"
                                                    : "%c",
                                    *text);
        sqlite3_str_appendall(out, "')");
        break;
    }
    case SQLITE_BLOB:
        bytes = sqlite3_value_blob(argv[0]);
        sqlite3_str_appendall(out, "X'");
        for (int i = 0; i < sqlite3_value_bytes(argv[0]); i++)
            sqlite3_str_appendf(out, "%02X", bytes[i]);
        sqlite3_str_appendall(out, "'");
        break;
    case SQLITE_NULL:
        sqlite3_str_appendall(out, "NULL");
        break;
    default:
        append(out, argv[0]);
    }
    string_result(context, out);
}

int newer_functions_register(sqlite3 *handle)
{
    static const struct {
        int since; // the version of SQLite that has the function
        struct scalar_function function;
    } functions[] = {
        {3043000, {"octet_length", 1, octet_length, 0}}, {3044000, {"concat", -1, concat, 0}},
        {3044000, {"concat_ws", -1, concat_ws, 0}},      {3050000, {"unistr", 1, unistr, 0}},
        {3050000, {"unistr_quote", 1, unistr_quote, 0}},
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < ELEMENTS(functions) && code == SQLITE_OK; i++)
        if (sqlite3_libversion_number() < functions[i].since)
            code = scalar_functions_add(handle, &functions[i].function, 1);
    return code;
}
