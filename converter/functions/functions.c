// SPDX-License-Identifier: Apache-2.0
#include "converter/functions/functions.h"

#include "common/elements.h"

SQLITE_EXTENSION_INIT3

const struct function_doc function_docs[] = {
    {"EXTRACT_ARG(arg_set_id, key)", "the value of a key of an arg set, as a number or text"},
    {"TRACE_START(), TRACE_END(), TRACE_DUR()", "bounds of the trace (ns)"},
    {"ABS_TIME_STR(ts)", "real time of a moment, as YYYY-MM-DDTHH:MM:SS.nnnnnnnnn"},
    {"TO_REALTIME(ts), TO_MONOTONIC(ts)", "a moment on another clock (ns)"},
    {"TO_TIMECODE(dur)", "a time as HH:MM:SS mmm uuu nnn"},
    {"TIME_FROM_NS(n), _US, _MS, _S, _MIN, _H, TIME_TO_...", "times from and to other units"},
    {"STR_SPLIT(text, separator, n)", "part n of a text, from 0; NULL if there are fewer"},
    {"REGEXP(pattern, text[, flags])",
     "1 if the pattern is found in the text; also: text REGEXP pattern; flag i: in any case"},
    {"REGEXP_EXTRACT(text, pattern)", "what the pattern, or its first group, matches"},
    {"REGEXP_REPLACE_SIMPLE(text, pattern, by)", "the text with all matches replaced"},
    {"DEMANGLE(name)", "the readable form of a C++ name; NULL for other text"},
    {"PERCENTILE(value, p), MEDIAN(value)",
     "aggregate: p% of the values are below the result; PERCENTILE_CONT and _DISC take 0 to 1"},
    {"HASH(value, ...)", "a number made of the values"},
    {"REVERSE(text), UNHEX(text)", "the text backwards; the value of a text of hexadecimal digits"},
    {"LN(x), EXP(x), SQRT(x)", "logarithm, power of e, square root; NULL if x has none"},
    {"LAST_NON_NULL(x) OVER (...)", "the last value in the window that is not NULL"},
    {"VALUE_AT_MAX_TS(ts, value)", "the value at the latest time of all rows"},
    {"EXTRACT_METADATA(name)", "a value of the table metadata; also: EXTRACT_METADATA_FOR_MACHINE, "
                               "_FOR_TRACE(id, name)"},
    {"TO_FTRACE(id)", "a kernel event as the line of text that systrace has"},
    {"CONCAT(value, ...), CONCAT_WS(separator, value, ...)",
     "the values, except NULL, as one text; also where SQLite is older than 3.44"},
    {"OCTET_LENGTH(value), UNISTR(text), UNISTR_QUOTE(value)",
     "number of bytes; the text of \\uXXXX; a value as SQL without control characters"},
    {"BASE64_ENCODE(bytes), BASE64_DECODE(text)", "base64"},
    {"SLICE_IS_ANCESTOR(a, b)", "1 if slice a is around slice b"},
    {"ANCESTOR_SLICE(id), DESCENDANT_SLICE(id)", "table: the slices around a slice; inside it"},
    {"ANCESTOR_STACK_PROFILE_CALLSITE(id)", "table: the call sites that lead to a call site"},
    {"CAT_STACKS(outermost, ..., innermost)", "a stack made of names and stacks, a BLOB"},
    {"STACK_FROM_STACK_PROFILE_CALLSITE(id), STACK_FROM_STACK_PROFILE_FRAME(id)",
     "the stack of a call site; of one frame"},
    {"EXPERIMENTAL_PROFILE(stack, type, unit, value, ...)",
     "aggregate: a profile for pprof, a BLOB; equal stacks are added up"},
    {"FOLLOWING_FLOW(id), PRECEDING_FLOW(id), DIRECTLY_CONNECTED_FLOW(id)",
     "table: flows from a slice and the slices inside it, and on from their targets; flows to a "
     "slice "
     "and the slices around it, and back from their origins; flows of the slice alone"},
    {"EXPERIMENTAL_SLICE_LAYOUT('track,...'), EXPERIMENTAL_FLAT_SLICE(start, end)",
     "table: lines to draw the slices of several tracks on; the deepest slice at each time"},
    {"EXPERIMENTAL_ANNOTATED_CALLSTACK(id)",
     "table: a call site and its callers, and how Android's runtime executed each of them"},
    {"EXPERIMENTAL_FLAMEGRAPH(type, ts, times, upid, upids, focus)",
     "table: a flame graph of a heap profile ('native'), of CPU samples ('perf', times such as "
     "'>=5,<9') or of a heap graph ('graph')"},
    {"PERFETTO_TABLE_INFO('table')", "table: the columns of a table with their types"},
    {"CREATE VIRTUAL TABLE x USING SPAN_JOIN(a PARTITIONED p, b PARTITIONED p)",
     "the times that rows of both tables have in common, with the columns of both; also "
     "SPAN_LEFT_JOIN and SPAN_OUTER_JOIN"},
    {NULL, NULL},
};

static int add(sqlite3 *handle, const char *name, const struct scalar_function *function, int flags)
{
    return sqlite3_create_function_v2(handle, name, function->n_arguments, SQLITE_UTF8 | flags,
                                      NULL, function->call, NULL, NULL, NULL);
}

int scalar_functions_add(sqlite3 *handle, const struct scalar_function *functions, size_t n)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < n && code == SQLITE_OK; i++) {
        int flags =
            (functions[i].traits & READS_DATABASE ? 0 : SQLITE_INNOCUOUS) | SQLITE_DETERMINISTIC;
        char name[64];
        code = add(handle, functions[i].name, &functions[i], flags);
        sqlite3_snprintf(sizeof(name), name, "__intrinsic_%s", functions[i].name);
        if (code == SQLITE_OK && (functions[i].traits & IS_INTRINSIC))
            code = add(handle, name, &functions[i], flags);
    }
    return code;
}

void string_result(sqlite3_context *context, sqlite3_str *text)
{
    int code = sqlite3_str_errcode(text);
    const char *value = sqlite3_str_value(text);
    if (code == SQLITE_OK)
        sqlite3_result_text(context, value ? value : "", sqlite3_str_length(text),
                            SQLITE_TRANSIENT);
    else
        sqlite3_result_error_code(context, code);
    sqlite3_free(sqlite3_str_finish(text));
}

int functions_register(sqlite3 *handle)
{
    static int (*const families[])(sqlite3 * handle) = {
        text_functions_register,   encoding_functions_register, regexp_functions_register,
        math_functions_register,   clock_functions_register,    query_functions_register,
        window_functions_register, args_functions_register,     package_functions_register,
        ftrace_functions_register, newer_functions_register,
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < ELEMENTS(families) && code == SQLITE_OK; i++)
        code = families[i](handle);
    return code;
}
