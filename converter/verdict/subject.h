// SPDX-License-Identifier: Apache-2.0
//
// The trace that is judged, for the rules of the verdict: questions to the database about it, and
// how its times, sizes and tasks are spelled.
#pragma once

#include <sqlite3.h>

#include "common/nsec.h"
#include "common/str.h"
#include "converter/verdict/finding.h"

#define TIME_MAX  (INT64_MAX / 2)
#define NOT_KNOWN ((int64_t)-1) // instead of an upid or utid

// Machines of the trace: questions take its number as ?1.
#define OF_TRACE "IN (SELECT machine_id FROM trace_machine WHERE trace_id = ?1)"

struct subject {
    sqlite3 *db;      // borrowed
    int64_t trace_id; // in this database
    int64_t start, end;
    bool has_realtime;
    int64_t realtime_offset; // real time minus trace time
    int64_t page_bytes;
    bool told_date;            // a wall-clock time was told with its date
    struct finding_vec *found; // borrowed
    int code;                  // SQLite's code of the first failure
    char problem[160];         // what SQLite said then
};

// A prepared question with the trace's number bound to ?1; NULL after a failure, which SQLite binds
// no values to, and subject_row() has no row of. Ended by
// subject_end().
sqlite3_stmt *subject_ask(struct subject *subject, const char *sql);
// Whether there is another row.
bool subject_row(struct subject *subject, sqlite3_stmt *row);
void subject_end(sqlite3_stmt **row); // fit for CLEANUP()

// The number in the first column of the first row; false: there is none, or it is NULL.
bool subject_number(struct subject *subject, const char *sql, int64_t *ret);

// SQL: the trace had kernel events, and the conversion left their rows out (--no-ftrace). What was
// made of them is in other tables, where it has to be looked for among everything else.
#define EVENTS_LEFT_OUT                                                                            \
    "NOT EXISTS (SELECT 1 FROM _arg_kind WHERE name IS NOT NULL) AND EXISTS (SELECT 1 FROM "       \
    "stats WHERE name GLOB 'ftrace_cpu_*' AND trace_id = ?1)"

// The track with the sums of events that mmtrace could not keep.
#define NOT_KEPT_TRACK "Events not kept"

// Whether the config of the trace asks for the kernel event GROUP/NAME.
bool subject_was_to_record(struct subject *subject, const char *group, const char *name);

// A time in a column. A trace or a database may claim any time; this one is within TIME_MAX, so
// that the difference of two times, or a time and some seconds, cannot overflow.
int64_t subject_time(sqlite3_stmt *row, int column);
int64_t time_bounded(int64_t ts);
// What a counter says, as a number within TIME_MAX; 0 of what is no number.
int64_t count_bounded(double value);
// *sum += addend, at most INT64_MAX. Neither is negative.
void sum_add(int64_t *sum, int64_t addend);

// Adds a finding and takes over the text. `dur` < 0: it has no time.
void subject_found(struct subject *subject, enum verdict_kind kind, enum verdict_severity severity,
                   int64_t ts, int64_t dur, struct strbuf *text, const char *query);

// "3.21 s (2026-11-22 14:03:12 UTC)": from the start of the trace; the date once in a verdict.
void text_time(struct strbuf *text, struct subject *subject, int64_t ts);
// "3.21 s", without the clock on the wall.
void text_seconds(struct strbuf *text, const struct subject *subject, int64_t ts);
void text_duration(struct strbuf *text, int64_t ns);                                // "7.7 ms"
void text_bytes(struct strbuf *text, double bytes);                                 // "1.5 GiB"
void text_number(struct strbuf *text, int64_t number);                              // "1,234"
void text_times(struct strbuf *text, int64_t n, const char *one, const char *many); // "2 reclaims"

// Adds the text, with values in the place of:
//   %T  a task (int64_t upid, int64_t utid), see text_task()
//   %A, %S  a time (int64_t), see text_time() and text_seconds()
//   %D  a duration (int64_t), %N a number (int64_t), %B bytes (double), %s a text
void text_tell(struct strbuf *text, struct subject *subject, const char *format, ...);

// "dd (pid 74)"; of a process if it is known, else of the thread. Negative: not known.
void text_task(struct strbuf *text, struct subject *subject, int64_t upid, int64_t utid);
