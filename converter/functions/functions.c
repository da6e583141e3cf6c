// SPDX-License-Identifier: Apache-2.0
//
// A function that reads the database has its own statement. The function is called for every row,
// so the statement is prepared once and is auxiliary data of the calling statement: if the
// statement belonged to the function, the database could not be closed. Patterns are compiled once,
// too, and belong to their argument.
//
// Patterns are POSIX extended regular expressions. The common \d, \w, \s and \b are accepted, too.
#include "converter/functions/functions.h"

#include <inttypes.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "converter/functions/arg_sets.h"
#include "converter/symbols/demangle.h"

SQLITE_EXTENSION_INIT3

#define NSEC              ((uint64_t)1000000000)
#define PATTERN_BYTES_MAX 4096
#define SUBJECT_BYTES_MAX (1 << 20)
#define GROUPS_MAX        2
#define STATEMENT_KEY     (-1000) // and below; see sqlite3_set_auxdata()
#define ARG_SETS_KEY      (-999)

const struct function_doc function_docs[] = {
    {"EXTRACT_ARG(arg_set_id, key)", "the value of a key of an arg set, as a number or text"},
    {"TRACE_START(), TRACE_END(), TRACE_DUR()", "bounds of the trace (ns)"},
    {"ABS_TIME_STR(ts)", "real time of a moment, as YYYY-MM-DDTHH:MM:SS.nnnnnnnnn"},
    {"TO_REALTIME(ts), TO_MONOTONIC(ts)", "a moment on another clock (ns)"},
    {"TO_TIMECODE(dur)", "a time as HH:MM:SS mmm uuu nnn"},
    {"TIME_FROM_NS(n), _US, _MS, _S, _MIN, _H, TIME_TO_...", "times from and to other units"},
    {"STR_SPLIT(text, separator, n)", "part n of a text, from 0; NULL if there are fewer"},
    {"REGEXP(pattern, text)", "1 if the pattern is found in the text; also: text REGEXP pattern"},
    {"REGEXP_EXTRACT(text, pattern)", "what the pattern, or its first group, matches"},
    {"REGEXP_REPLACE_SIMPLE(text, pattern, by)", "the text with all matches replaced"},
    {"DEMANGLE(name)", "the readable form of a C++ name; NULL if it is none"},
    {"HASH(value, ...)", "a number made of the values"},
    {"REVERSE(text), UNHEX(text)", "text backwards; bytes of hexadecimal digits"},
    {"BASE64_ENCODE(bytes), BASE64_DECODE(text)", "base64"},
    {"SLICE_IS_ANCESTOR(a, b)", "1 if slice a is around slice b"},
    {"ANCESTOR_SLICE(id), DESCENDANT_SLICE(id)", "table: the slices around a slice; inside it"},
    {"ANCESTOR_STACK_PROFILE_CALLSITE(id)", "table: the call sites that lead to a call site"},
    {"FOLLOWING_FLOW(id), PRECEDING_FLOW(id), DIRECTLY_CONNECTED_FLOW(id)",
     "table: flows that a slice leads to; that lead to it; both, one step"},
    {"CREATE VIRTUAL TABLE x USING SPAN_JOIN(a PARTITIONED p, b PARTITIONED p)",
     "the times in which rows of both hold, with the columns of both; also SPAN_LEFT_JOIN and "
     "SPAN_OUTER_JOIN"},
    {NULL, NULL},
};

static const struct {
    const char *name;
    int n_arguments;
    const char *sql;
} queries[] = {
    {"trace_start", 0, "SELECT start_ts FROM trace_bounds"},
    {"trace_end", 0, "SELECT end_ts FROM trace_bounds"},
    {"trace_dur", 0, "SELECT end_ts - start_ts FROM trace_bounds"},
    {"to_realtime", 1,
     "SELECT ?1 + clock_value - ts FROM clock_snapshot WHERE clock_name = 'REALTIME' "
     "ORDER BY ts > ?1, abs(ts - ?1) LIMIT 1"},
    {"to_monotonic", 1,
     "SELECT ?1 + clock_value - ts FROM clock_snapshot WHERE clock_name = 'MONOTONIC' "
     "ORDER BY ts > ?1, abs(ts - ?1) LIMIT 1"},
    {"slice_is_ancestor", 2,
     "WITH RECURSIVE up(id) AS (SELECT parent_id FROM slice WHERE id = ?2 UNION ALL "
     "SELECT s.parent_id FROM up JOIN slice s ON s.id = up.id WHERE s.parent_id IS NOT NULL) "
     "SELECT EXISTS (SELECT 1 FROM up WHERE id = ?1)"},
    {"abs_time_str", 1,
     "SELECT strftime('%Y-%m-%dT%H:%M:%S', t / 1000000000, 'unixepoch') || "
     "printf('.%09d', t % 1000000000) FROM (SELECT ?1 + clock_value - ts AS t "
     "FROM clock_snapshot WHERE clock_name = 'REALTIME' ORDER BY ts > ?1, abs(ts - ?1) LIMIT 1)"},
    {"time_from_ns", 1, "SELECT ?1"},
    {"time_from_us", 1, "SELECT ?1 * 1000"},
    {"time_from_ms", 1, "SELECT ?1 * 1000000"},
    {"time_from_s", 1, "SELECT ?1 * 1000000000"},
    {"time_from_min", 1, "SELECT ?1 * 60000000000"},
    {"time_from_h", 1, "SELECT ?1 * 3600000000000"},
    {"time_to_ns", 1, "SELECT ?1"},
    {"time_to_us", 1, "SELECT ?1 / 1000"},
    {"time_to_ms", 1, "SELECT ?1 / 1000000"},
    {"time_to_s", 1, "SELECT ?1 / 1000000000"},
    {"time_to_min", 1, "SELECT ?1 / 60000000000"},
    {"time_to_h", 1, "SELECT ?1 / 3600000000000"},
};

#define N_QUERIES ELEMENTS(queries)
static void statement_free(void *statement)
{
    sqlite3_finalize(statement);
}

// SQLite shares auxiliary data of negative numbers among all calls in one statement.
static sqlite3_stmt *query_statement(sqlite3_context *context, size_t index)
{
    int key = STATEMENT_KEY - (int)index;
    sqlite3_stmt *statement = sqlite3_get_auxdata(context, key);
    sqlite3 *handle = sqlite3_context_db_handle(context);
    if (statement)
        return statement;
    if (sqlite3_prepare_v2(handle, queries[index].sql, -1, &statement, NULL) != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, key, statement, statement_free);
    return sqlite3_get_auxdata(context, key);
}

// Returns the first column of the query's row.
static void query_call(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    size_t index = (size_t)(uintptr_t)sqlite3_user_data(context);
    sqlite3_stmt *statement = query_statement(context, index);
    if (!statement)
        return;
    for (int i = 0; i < argc; i++)
        sqlite3_bind_value(statement, i + 1, argv[i]);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        sqlite3_result_value(context, sqlite3_column_value(statement, 0));
    else if (code != SQLITE_DONE)
        sqlite3_result_error(context, sqlite3_errmsg(sqlite3_context_db_handle(context)), -1);
    sqlite3_reset(statement);
}

static void arg_sets_destroy(void *sets)
{
    arg_sets_free(sets);
}

// All calls in one statement share the arg sets.
static struct arg_sets *arg_sets_of(sqlite3_context *context)
{
    struct arg_sets *sets = sqlite3_get_auxdata(context, ARG_SETS_KEY);
    if (sets)
        return sets;
    sqlite3 *handle = sqlite3_context_db_handle(context);
    if (arg_sets_open(handle, &sets) != SQLITE_OK) {
        sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, ARG_SETS_KEY, sets, arg_sets_destroy);
    return sqlite3_get_auxdata(context, ARG_SETS_KEY);
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

static void timecode(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    int64_t ns = sqlite3_value_int64(argv[0]);
    uint64_t t = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    char text[64];
    snprintf(text, sizeof(text),
             "%s%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " %03" PRIu64 " %03" PRIu64 " %03" PRIu64,
             ns < 0 ? "-" : "", t / NSEC / 3600, t / NSEC / 60 % 60, t / NSEC % 60,
             t / 1000000 % 1000, t / 1000 % 1000, t % 1000);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

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

static void pattern_free(void *userdata)
{
    regfree(userdata);
    sqlite3_free(userdata);
}

// Translates \d, \D, \t, \n and (?: to POSIX. False: the result is too long.
static bool pattern_translate(const char *from, char *to, size_t size)
{
    static const struct {
        char c;
        const char *outside, *inside;
    } classes[] = {
        {'d', "[0-9]", "0-9"},
        {'D', "[^0-9]", ""},
        {'t', "\t", "\t"},
        {'n', "\n", "\n"},
    };
    size_t n = 0;
    bool in_set = false;
    for (; *from; from++) {
        const char *as = NULL;
        if (*from == '\\' && from[1]) {
            for (size_t i = 0; i < ELEMENTS(classes); i++)
                if (classes[i].c == from[1])
                    as = in_set ? classes[i].inside : classes[i].outside;
            if (!as && n + 2 < size)
                to[n++] = *from;
            from++;
        } else if (str_starts_with(from, "(?:")) {
            as = "(";
            from += 2;
        } else if (*from == '[' && !in_set) {
            in_set = true;
        } else if (*from == ']') {
            in_set = false;
        }
        size_t length = as ? strlen(as) : 1;
        if (n + length + 1 > size)
            return false;
        memcpy(to + n, as ? as : from, length);
        n += length;
    }
    to[n] = '\0';
    return true;
}

// Returns the compiled pattern of an argument; NULL if the argument is NULL, or after an error,
// which is reported.
static regex_t *pattern_of(sqlite3_context *context, sqlite3_value **argv, int index)
{
    regex_t *kept = sqlite3_get_auxdata(context, index);
    if (kept)
        return kept;
    const char *text = (const char *)sqlite3_value_text(argv[index]);
    char translated[PATTERN_BYTES_MAX];
    if (!text)
        return NULL;
    if (!pattern_translate(text, translated, sizeof(translated))) {
        sqlite3_result_error(context, "the pattern is too long", -1);
        return NULL;
    }
    regex_t *pattern = sqlite3_malloc(sizeof(*pattern));
    if (!pattern) {
        sqlite3_result_error_nomem(context);
        return NULL;
    }
    int code = regcomp(pattern, translated, REG_EXTENDED);
    if (code != 0) {
        char why[128], message[512];
        regerror(code, pattern, why, sizeof(why));
        snprintf(message, sizeof(message), "pattern '%.200s': %s", text, why);
        sqlite3_result_error(context, message, -1);
        sqlite3_free(pattern);
        return NULL;
    }
    sqlite3_set_auxdata(context, index, pattern, pattern_free);
    return sqlite3_get_auxdata(context, index);
}

// Returns the text to search; NULL if the value is NULL, or too long, which is reported.
static const char *subject_of(sqlite3_context *context, sqlite3_value *value)
{
    const char *text = (const char *)sqlite3_value_text(value);
    if (text && sqlite3_value_bytes(value) > SUBJECT_BYTES_MAX) {
        sqlite3_result_error(context, "the text is too long for a pattern", -1);
        return NULL;
    }
    return text;
}

static void regexp(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = subject_of(context, argv[1]);
    regex_t *pattern = text ? pattern_of(context, argv, 0) : NULL;
    if (pattern)
        sqlite3_result_int(context, regexec(pattern, text, 0, NULL, 0) == 0);
}

static void regexp_extract(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    regmatch_t match[GROUPS_MAX];
    const char *text = subject_of(context, argv[0]);
    regex_t *pattern = text ? pattern_of(context, argv, 1) : NULL;
    if (!pattern || regexec(pattern, text, GROUPS_MAX, match, 0) != 0)
        return;
    const regmatch_t *found = pattern->re_nsub ? &match[1] : &match[0];
    if (found->rm_so >= 0)
        sqlite3_result_text(context, text + found->rm_so, (int)(found->rm_eo - found->rm_so),
                            SQLITE_TRANSIENT);
}

static void regexp_replace(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = subject_of(context, argv[0]);
    const char *by = (const char *)sqlite3_value_text(argv[2]);
    regex_t *pattern = text && by ? pattern_of(context, argv, 1) : NULL;
    if (!pattern)
        return;
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    regmatch_t match;
    int flags = 0;
    while (*text && regexec(pattern, text, 1, &match, flags) == 0) {
        sqlite3_str_append(out, text, (int)match.rm_so);
        sqlite3_str_appendall(out, by);
        text += match.rm_eo;
        if (match.rm_eo == match.rm_so && *text)
            sqlite3_str_append(out, text++, 1);
        flags = REG_NOTBOL;
    }
    sqlite3_str_appendall(out, text);
    if (sqlite3_str_errcode(out) == SQLITE_OK)
        sqlite3_result_text(context, sqlite3_str_value(out) ? sqlite3_str_value(out) : "", -1,
                            SQLITE_TRANSIENT);
    else
        sqlite3_result_error_code(context, sqlite3_str_errcode(out));
    sqlite3_free(sqlite3_str_finish(out));
}

static void demangle(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *name = (const char *)sqlite3_value_text(argv[0]);
    char *readable = name ? symbol_demangle(name) : NULL;
    if (readable)
        sqlite3_result_text(context, readable, -1, SQLITE_TRANSIENT);
    free(readable);
}

// FNV-1a over types and bytes.
static void hash(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    uint64_t value = 0xcbf29ce484222325;
    for (int i = 0; i < argc; i++) {
        unsigned char number[8];
        const unsigned char *bytes = number;
        int type = sqlite3_value_type(argv[i]), n = 0;
        if (type == SQLITE_INTEGER) {
            int64_t integer = sqlite3_value_int64(argv[i]);
            memcpy(number, &integer, n = sizeof(integer));
        } else if (type == SQLITE_FLOAT) {
            double real = sqlite3_value_double(argv[i]);
            memcpy(number, &real, n = sizeof(real));
        } else if (type != SQLITE_NULL) {
            bytes = sqlite3_value_blob(argv[i]);
            n = sqlite3_value_bytes(argv[i]);
        }
        value = (value ^ (uint64_t)type) * 0x100000001b3;
        for (int k = 0; k < n; k++)
            value = (value ^ bytes[k]) * 0x100000001b3;
    }
    sqlite3_result_int64(context, (int64_t)value);
}

static void reverse(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    int n = sqlite3_value_bytes(argv[0]);
    char *out = text ? sqlite3_malloc64((uint64_t)n + 1) : NULL;
    if (!out)
        return;
    // Characters are reversed, not bytes: continuation bytes stay behind their first byte.
    for (int end = n, at = n; end > 0; end = at) {
        for (at = end - 1; at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80; at--)
            ;
        memcpy(out + (n - end), text + at, (size_t)(end - at));
    }
    sqlite3_result_text(context, out, n, sqlite3_free);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// As in Perfetto: the number of hexadecimal digits, with or without 0x.
static void unhex(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    uint64_t value = 0;
    if (!text)
        return;
    if (text[0] == '0' && (text[1] | 0x20) == 'x')
        text += 2;
    bool good = *text;
    for (; *text && good; text++) {
        int digit = hex_digit(*text);
        good = digit >= 0 && !(value >> 60);
        value = value << 4 | (unsigned)digit;
    }
    if (good)
        sqlite3_result_int64(context, (int64_t)value);
    else
        sqlite3_result_error(context, "UNHEX: not a hexadecimal number of 64 bits", -1);
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_encode(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const unsigned char *bytes = sqlite3_value_blob(argv[0]);
    int n = sqlite3_value_bytes(argv[0]);
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    char *out = sqlite3_malloc64((uint64_t)n / 3 * 4 + 5), *at = out;
    if (!out) {
        sqlite3_result_error_nomem(context);
        return;
    }
    for (int i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < n ? bytes[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            *at++ = i + k <= n ? base64_digits[three >> (18 - 6 * k) & 63] : '=';
    }
    sqlite3_result_text(context, out, (int)(at - out), sqlite3_free);
}

static void base64_decode(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    unsigned char *out = text ? sqlite3_malloc64(strlen(text) + 1) : NULL;
    if (!out)
        return;
    uint32_t bits = 0;
    int n_bits = 0, n = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(base64_digits, *text);
        if (!digit) {
            sqlite3_free(out);
            sqlite3_result_error(context, "BASE64_DECODE: not base64", -1);
            return;
        }
        bits = bits << 6 | (uint32_t)(digit - base64_digits);
        n_bits += 6;
        if (n_bits >= 8)
            out[n++] = (unsigned char)(bits >> (n_bits -= 8));
    }
    sqlite3_result_blob(context, out, n, sqlite3_free);
}

static const struct {
    const char *name;
    int n_arguments;
    void (*call)(sqlite3_context *context, int argc, sqlite3_value **argv);
} functions[] = {
    {"str_split", 3, str_split},
    {"regexp", 2, regexp},
    {"regexp_extract", 2, regexp_extract},
    {"regexp_replace_simple", 3, regexp_replace},
    {"demangle", 1, demangle},
    {"hash", -1, hash},
    {"reverse", 1, reverse},
    {"unhex", 1, unhex},
    {"base64_encode", 1, base64_encode},
    {"base64_decode", 1, base64_decode},
    {"to_timecode", 1, timecode},
};

int functions_register(sqlite3 *handle)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < ELEMENTS(functions) && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(handle, functions[i].name, functions[i].n_arguments,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                          NULL, functions[i].call, NULL, NULL, NULL);
    for (size_t i = 0; i < N_QUERIES && code == SQLITE_OK; i++)
        code = sqlite3_create_function_v2(handle, queries[i].name, queries[i].n_arguments,
                                          SQLITE_UTF8 | SQLITE_DETERMINISTIC, (void *)(uintptr_t)i,
                                          query_call, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code =
            sqlite3_create_function_v2(handle, "extract_arg", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                       NULL, extract_arg, NULL, NULL, NULL);
    return code;
}
