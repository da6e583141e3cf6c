// SPDX-License-Identifier: Apache-2.0
//
// Functions of regular expressions. A pattern is compiled once, and is auxiliary data of its
// argument.
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/elements.h"
#include "converter/functions/functions.h"
#include "converter/functions/regex.h"

SQLITE_EXTENSION_INIT3

#define PATTERN_BYTES_MAX 4096

// A pattern that is auxiliary data of its argument.
struct pattern {
    struct regex *regex; // owned
    bool ignores_case;
};

static void pattern_free(void *userdata)
{
    struct pattern *pattern = userdata;
    regex_free(pattern->regex);
    sqlite3_free(pattern);
}

static void pattern_report(sqlite3_context *context, int r, const char *text, const char *why)
{
    if (r == -ENOMEM) {
        sqlite3_result_error_nomem(context);
        return;
    }
    char *message = sqlite3_mprintf("pattern '%.200s': %s", text, why);
    sqlite3_result_error(context, message ? message : "pattern: out of memory", -1);
    sqlite3_free(message);
}

// Returns the compiled pattern of an argument. Returns NULL if the argument is NULL, or after an
// error, which the function reports.
static struct regex *pattern_of(sqlite3_context *context, sqlite3_value **argv, int index,
                                bool ignores_case)
{
    struct pattern *kept = sqlite3_get_auxdata(context, index);
    if (kept && kept->ignores_case == ignores_case)
        return kept->regex;
    const char *text = (const char *)sqlite3_value_text(argv[index]), *why = "it is too long";
    size_t size = (size_t)sqlite3_value_bytes(argv[index]);
    if (!text)
        return NULL;
    struct regex *regex = NULL;
    int r = size > PATTERN_BYTES_MAX ? -EINVAL : regex_new(text, size, ignores_case, &regex, &why);
    struct pattern *pattern = r == 0 ? sqlite3_malloc(sizeof(*pattern)) : NULL;
    if (!pattern) {
        pattern_report(context, r == 0 ? -ENOMEM : r, text, why);
        regex_free(regex);
        return NULL;
    }
    *pattern = (struct pattern){regex, ignores_case};
    sqlite3_set_auxdata(context, index, pattern, pattern_free);
    kept = sqlite3_get_auxdata(context, index);
    return kept ? kept->regex : NULL;
}

// Reads the flags. The last of the flags i and c counts. Returns false after an error, which the
// function reports.
static bool flags_read(sqlite3_context *context, const char *flags, bool *ret_ignores_case)
{
    *ret_ignores_case = false;
    for (; *flags; flags++) {
        if (*flags != 'i' && *flags != 'c') {
            sqlite3_result_error(context, "REGEXP: the flags are i (any case) and c (exact case)",
                                 -1);
            return false;
        }
        *ret_ignores_case = *flags == 'i';
    }
    return true;
}

// SQL arguments: (pattern, text[, flags])
static void regexp(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *text = (const char *)sqlite3_value_text(argv[1]);
    const char *flags = argc > 2 ? (const char *)sqlite3_value_text(argv[2]) : "";
    bool ignores_case;
    if (!text || !flags || !flags_read(context, flags, &ignores_case))
        return;
    size_t size = (size_t)sqlite3_value_bytes(argv[1]);
    struct regex *regex = pattern_of(context, argv, 0, ignores_case);
    if (regex)
        sqlite3_result_int(context, regex_find(regex, text, size, 0, NULL));
}

// SQL arguments: (text, pattern). The result is the first group, or the whole match if the group is
// empty or has not matched.
static void regexp_extract(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct regex_span spans[2];
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    size_t size = (size_t)sqlite3_value_bytes(argv[0]);
    struct regex *regex = text ? pattern_of(context, argv, 1, false) : NULL;
    if (!regex || !regex_find(regex, text, size, 0, spans))
        return;
    bool has_group = spans[1].begin != SIZE_MAX && spans[1].begin < spans[1].end;
    const struct regex_span *span = has_group ? &spans[1] : &spans[0];
    sqlite3_result_text64(context, text + span->begin, span->end - span->begin, SQLITE_TRANSIENT,
                          SQLITE_UTF8);
}

// Returns the size of the character at the place.
static size_t character_size(const char *at, const char *end)
{
    size_t size = 1;
    while (at + size < end && ((unsigned char)at[size] & 0xc0) == 0x80)
        size++;
    return size;
}

static void replace(sqlite3_str *out, struct regex *regex, const char *text, size_t size,
                    const char *by)
{
    size_t at = 0, last_end = SIZE_MAX;
    struct regex_span spans[2];
    while (at <= size && sqlite3_str_errcode(out) == SQLITE_OK &&
           regex_find(regex, text, size, at, spans)) {
        bool is_empty = spans[0].begin == spans[0].end;
        sqlite3_str_append(out, text + at, (int)(spans[0].begin - at));
        // An empty match directly after the previous match does not count.
        if (!is_empty || spans[0].begin != last_end)
            sqlite3_str_appendall(out, by);
        at = last_end = spans[0].end;
        if (is_empty) {
            size_t step = at < size ? character_size(text + at, text + size) : 1;
            sqlite3_str_append(out, text + at, at < size ? (int)step : 0);
            at += step;
        }
    }
    if (at < size)
        sqlite3_str_append(out, text + at, (int)(size - at));
}

// SQL arguments: (text, pattern, replacement)
static void regexp_replace(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    size_t size = (size_t)sqlite3_value_bytes(argv[0]);
    const char *by = (const char *)sqlite3_value_text(argv[2]);
    struct regex *regex = text && by ? pattern_of(context, argv, 1, false) : NULL;
    if (!regex)
        return;
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    replace(out, regex, text, size, by);
    string_result(context, out);
}

int regexp_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"regexp", 2, regexp, IS_INTRINSIC},
        {"regexp", 3, regexp, 0},
        {"__intrinsic_regexp_with_flags", 3, regexp, 0},
        {"regexp_extract", 2, regexp_extract, IS_INTRINSIC},
        {"regexp_replace_simple", 3, regexp_replace, IS_INTRINSIC},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
