// SPDX-License-Identifier: Apache-2.0
//
// Names come from untrusted traces. This file replaces characters that are not printable.
#include "converter/verdict/subject.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/elements.h"

#define NAME_SIZE 64

// Copies the message of a failure, which SQLite keeps only until its next call.
static void problem_note(struct subject *subject)
{
    if (subject->code != SQLITE_OK)
        snprintf(subject->problem, sizeof(subject->problem), "%s", sqlite3_errmsg(subject->db));
}

sqlite3_stmt *subject_ask(struct subject *subject, const char *sql)
{
    sqlite3_stmt *row = NULL;
    if (subject->code != SQLITE_OK)
        return NULL;
    subject->code = sqlite3_prepare_v2(subject->db, sql, -1, &row, NULL);
    problem_note(subject);
    if (row && sqlite3_bind_parameter_count(row) > 0)
        sqlite3_bind_int64(row, 1, subject->trace_id);
    return row;
}

bool subject_row(struct subject *subject, sqlite3_stmt *row)
{
    int code = row ? sqlite3_step(row) : SQLITE_DONE;
    if (code != SQLITE_ROW && code != SQLITE_DONE && subject->code == SQLITE_OK) {
        subject->code = code;
        problem_note(subject);
    }
    return code == SQLITE_ROW;
}

void subject_end(sqlite3_stmt **row)
{
    sqlite3_finalize(*row);
    *row = NULL;
}

bool subject_number(struct subject *subject, const char *sql, int64_t *ret)
{
    CLEANUP(subject_end) sqlite3_stmt *row = subject_ask(subject, sql);
    if (!subject_row(subject, row) || sqlite3_column_type(row, 0) == SQLITE_NULL)
        return false;
    *ret = sqlite3_column_int64(row, 0);
    return true;
}

int64_t time_bounded(int64_t ts)
{
    return ts < -TIME_MAX ? -TIME_MAX : ts > TIME_MAX ? TIME_MAX : ts;
}

int64_t subject_time(sqlite3_stmt *row, int column)
{
    return time_bounded(sqlite3_column_int64(row, column));
}

int64_t count_bounded(double value)
{
    const double max = (double)TIME_MAX;
    return value >= max     ? TIME_MAX
           : value <= -max  ? -TIME_MAX
           : value == value ? (int64_t)value
                            : 0;
}

void sum_add(int64_t *sum, int64_t addend)
{
    if (__builtin_add_overflow(*sum, addend, sum))
        *sum = INT64_MAX;
}

// Configs name an event GROUP/NAME, NAME, or GROUP/*.
bool subject_was_to_record(struct subject *subject, const char *group, const char *name)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row =
        subject_ask(subject, "SELECT 1 FROM metadata WHERE name = 'trace_config_pbtxt' "
                             "AND coalesce(trace_id, ?1) = ?1 AND (instr(str_value, ?3 || '\"') OR "
                             "instr(str_value, '\"' || ?2 || '/*\"') OR instr(str_value, "
                             "'atrace_categories: \"memreclaim\"') AND ?2 = 'vmscan')");
    sqlite3_bind_text(row, 2, group, -1, SQLITE_STATIC);
    sqlite3_bind_text(row, 3, name, -1, SQLITE_STATIC);
    return subject_row(subject, row);
}

void subject_found(struct subject *subject, enum verdict_kind kind, enum verdict_severity severity,
                   int64_t ts, int64_t dur, struct strbuf *text, const char *query)
{
    struct finding finding = {
        .kind = kind,
        .severity = severity,
        .trace_id = subject->trace_id,
        .has_time = dur >= 0,
        .ts = dur >= 0 ? ts : 0,
        .dur = dur >= 0 ? dur : 0,
        .text = strbuf_steal(text),
        .query = query,
    };
    if (finding.text && finding_vec_push(subject->found, finding) == 0)
        return;
    free(finding.text);
    subject->code = SQLITE_NOMEM;
}

void text_seconds(struct strbuf *text, const struct subject *subject, int64_t ts)
{
    double seconds = ((double)ts - (double)subject->start) / (double)NSEC_PER_SEC;
    strbuf_addf(text, "%.2f s", seconds);
}

void text_time(struct strbuf *text, struct subject *subject, int64_t ts)
{
    char clock[64];
    struct tm parts;
    int64_t real;
    text_seconds(text, subject, ts);
    if (!subject->has_realtime || __builtin_add_overflow(ts, subject->realtime_offset, &real))
        return;
    time_t seconds = (time_t)(real / NSEC_PER_SEC);
    const char *format = subject->told_date ? " (%H:%M:%S UTC)" : " (%Y-%m-%d %H:%M:%S UTC)";
    if (real < 0 || !gmtime_r(&seconds, &parts) || !strftime(clock, sizeof(clock), format, &parts))
        return;
    subject->told_date = true;
    strbuf_add_str(text, clock);
}

void text_duration(struct strbuf *text, int64_t ns)
{
    double value = (double)ns;
    if (ns < NSEC_PER_MSEC)
        strbuf_addf(text, "%.0f us", value / 1e3);
    else if (ns < 10 * NSEC_PER_MSEC)
        strbuf_addf(text, "%.1f ms", value / 1e6);
    else if (ns < NSEC_PER_SEC)
        strbuf_addf(text, "%.0f ms", value / 1e6);
    else
        strbuf_addf(text, ns < 100 * NSEC_PER_SEC ? "%.1f s" : "%.0f s", value / 1e9);
}

void text_bytes(struct strbuf *text, double bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double value = bytes / 1024;
    for (; value >= 1000 && unit + 1 < ELEMENTS(units); unit++)
        value /= 1024;
    strbuf_addf(text, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void text_number(struct strbuf *text, int64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRId64, number);
    for (int i = 0; i < n; i++) {
        strbuf_add_char(text, digits[i]);
        if (digits[i] != '-' && i + 1 < n && (n - i - 1) % 3 == 0)
            strbuf_add_char(text, ',');
    }
}

void text_times(struct strbuf *text, int64_t n, const char *one, const char *many)
{
    text_number(text, n);
    strbuf_addf(text, " %s", n == 1 ? one : many);
}

// Returns the name of a program without its folder.
static const char *base_name(const char *name)
{
    const char *slash = *name == '/' ? strrchr(name, '/') : NULL;
    return slash && slash[1] ? slash + 1 : name;
}

static void name_add(struct strbuf *text, const char *name, const char *number, int64_t id)
{
    char printable[NAME_SIZE];
    name = base_name(name ? name : "");
    if (*name)
        strbuf_addf(text, "%s (%s %" PRId64 ")",
                    str_printable(printable, sizeof(printable), name, strlen(name)), number, id);
    else
        strbuf_addf(text, "%s task without a name (%s %" PRId64 ")", text->size ? "a" : "A", number,
                    id);
}

// Adds a task. If the process has no name, the text has the name of the thread.
void text_task(struct strbuf *text, struct subject *subject, int64_t upid, int64_t utid)
{
    CLEANUP(subject_end)
    sqlite3_stmt *row = subject_ask(
        subject, "SELECT p.name, p.pid, t.name, t.tid FROM (SELECT ?2 AS upid, ?3 AS utid) w "
                 "LEFT JOIN thread t ON t.utid = w.utid "
                 "LEFT JOIN process p ON p.upid = coalesce(w.upid, t.upid)");
    if (upid >= 0)
        sqlite3_bind_int64(row, 2, upid);
    if (utid >= 0)
        sqlite3_bind_int64(row, 3, utid);
    if (!subject_row(subject, row))
        return;
    const char *process = (const char *)sqlite3_column_text(row, 0);
    const char *thread = (const char *)sqlite3_column_text(row, 2);
    if (sqlite3_column_type(row, 1) != SQLITE_NULL)
        name_add(text, process && *process ? process : thread, "pid", sqlite3_column_int64(row, 1));
    else if (sqlite3_column_type(row, 3) != SQLITE_NULL)
        name_add(text, thread, "tid", sqlite3_column_int64(row, 3));
    else
        strbuf_addf(text, "%s task that is not known", text->size ? "a" : "A");
}

static void value_add(struct strbuf *text, struct subject *subject, char kind, va_list *values)
{
    if (kind == 's') {
        strbuf_add_str(text, va_arg(*values, const char *));
        return;
    }
    if (kind == 'B') {
        text_bytes(text, va_arg(*values, double));
        return;
    }
    int64_t number = va_arg(*values, int64_t);
    if (kind == 'T')
        text_task(text, subject, number, va_arg(*values, int64_t));
    else if (kind == 'A')
        text_time(text, subject, number);
    else if (kind == 'S')
        text_seconds(text, subject, number);
    else if (kind == 'D')
        text_duration(text, number);
    else
        text_number(text, number);
}

void text_tell(struct strbuf *text, struct subject *subject, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    for (const char *value; (value = strchr(format, '%')); format = value + 2) {
        strbuf_add(text, format, (size_t)(value - format));
        value_add(text, subject, value[1], &values);
    }
    va_end(values);
    strbuf_add_str(text, format);
}
