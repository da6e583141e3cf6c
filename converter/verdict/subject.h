// SPDX-License-Identifier: Apache-2.0
//
// The trace that the rules of the verdict judge: queries on its data, and the notation of times,
// sizes and tasks.
#pragma once

#include <sqlite3.h>

#include "common/nsec.h"
#include "common/str.h"
#include "converter/verdict/finding.h"

#define TIME_MAX  (INT64_MAX / 2)
#define NOT_KNOWN ((int64_t)-1) // in place of an upid or utid that is not known

// SQL: machines of the trace with the id ?1.
#define OF_TRACE "IN (SELECT machine_id FROM trace_machine WHERE trace_id = ?1)"

struct subject {
    sqlite3 *db;        // borrowed
    int64_t trace_id;   // in this database
    int64_t start, end; // of the recording
    int64_t data_end;   // last moment with data
    bool has_realtime;
    int64_t realtime_offset; // real time minus trace time
    int64_t page_bytes;
    bool told_date;            // the text has a wall-clock time with its date already
    struct finding_vec *found; // borrowed
    int code;                  // SQLite's code of the first failure
    char problem[160];         // SQLite's message of this failure
};

// Prepares a query and binds the trace's id to ?1. The caller ends the query by subject_end().
// Returns NULL after a failure. The caller may use NULL like a query: SQLite ignores values that
// are bound to NULL, and subject_row() returns false.
sqlite3_stmt *subject_ask(struct subject *subject, const char *sql);
// Steps to the next row. Returns false at the end and after a failure.
bool subject_row(struct subject *subject, sqlite3_stmt *row);
void subject_end(sqlite3_stmt **row); // fit for CLEANUP()

// Reads the number in the first column of the first row. Returns false if there is no row or if the
// column is NULL.
bool subject_number(struct subject *subject, const char *sql, int64_t *ret);

// SQL: true if the trace had kernel events, and the conversion left out their rows (--no-ftrace).
// Other tables still have the rows that the conversion made from the events.
#define EVENTS_LEFT_OUT                                                                            \
    "NOT EXISTS (SELECT 1 FROM _arg_kind WHERE name IS NOT NULL) AND EXISTS (SELECT 1 FROM "       \
    "stats WHERE name GLOB 'ftrace_cpu_*' AND trace_id = ?1)"

// Name of the track with the sums of events that mmtrace could not keep.
#define NOT_KEPT_TRACK "Events not kept"

// Returns true if the config of the trace asks for the kernel event GROUP/NAME.
bool subject_was_to_record(struct subject *subject, const char *group, const char *name);

// Reads a time from a column. A trace or a database may have any time. The result is limited to
// TIME_MAX, so that the difference of two times, or a time plus some seconds, cannot overflow.
int64_t subject_time(sqlite3_stmt *row, int column);
int64_t time_bounded(int64_t ts);
// Returns a counter's value as a number within TIME_MAX; 0 for NaN.
int64_t count_bounded(double value);
// Adds `addend` to *sum, at most up to INT64_MAX. Neither may be negative.
void sum_add(int64_t *sum, int64_t addend);

// Adds a finding and takes ownership of the text. `dur` < 0: the finding has no time.
void subject_found(struct subject *subject, enum verdict_kind kind, enum verdict_severity severity,
                   int64_t ts, int64_t dur, struct strbuf *text, const char *query);

// Adds "3.21 s (2026-11-22 14:03:12 UTC)": the time from the start of the trace, and the wall-clock
// time. Only the first such text of a verdict has the date.
void text_time(struct strbuf *text, struct subject *subject, int64_t ts);
// Adds "3.21 s", without the wall-clock time.
void text_seconds(struct strbuf *text, const struct subject *subject, int64_t ts);
void text_duration(struct strbuf *text, int64_t ns);                                // "7.7 ms"
void text_bytes(struct strbuf *text, double bytes);                                 // "1.5 GiB"
void text_number(struct strbuf *text, int64_t number);                              // "1,234"
void text_times(struct strbuf *text, int64_t n, const char *one, const char *many); // "2 reclaims"

// Adds the text, with values in place of:
//   %T  a task (int64_t upid, int64_t utid), see text_task()
//   %A, %S  a time (int64_t), see text_time() and text_seconds()
//   %D  a duration (int64_t), %N a number (int64_t), %B bytes (double), %s a text
void text_tell(struct strbuf *text, struct subject *subject, const char *format, ...);

// Adds "dd (pid 74)": the process if it is known, else the thread. A negative id means unknown.
void text_task(struct strbuf *text, struct subject *subject, int64_t upid, int64_t utid);
