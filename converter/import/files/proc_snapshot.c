// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of /proc, and the files that describe a snapshot: index.txt of a bugreport, version,
// and kernel.log. The files may come in any order.
//
// index.txt has the time at which /proc was read, in seconds since boot, which is trace time. If
// the traces of the report were shifted (--merge-clocks), the snapshot gets the same shift.
#include "converter/import/files/proc_snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/text.h"
#include "converter/tables/statement.h"

#define INDEX_HEAD    "bugreport of mmtrace "
#define VERSION_HEAD  "Linux version "
#define KERNEL_LOG    "kernel.log"
#define TEXT_MAX      ((size_t)8192) // bytes of a fact, or of a line of the kernel log
#define ASK_LINES     4096
#define LOG_LEVEL_MAX 7

const char *proc_file_name(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at; at++)
        if (*at == '/' || *at == '!')
            name = at + 1;
    return name;
}

static bool name_is_usual(const char *name)
{
    static const char *const names[] = {"buddyinfo", "index.txt", KERNEL_LOG, "meminfo", "slabinfo",
                                        "swaps",     "version",   "vmstat",   "zoneinfo"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (str_eq(names[i], name))
            return true;
    return false;
}

// Returns the length of the part of `path` that all files of a snapshot share: the archive or
// folder. A file with an unusual name (vmstat.1, vmstat.2) is a separate snapshot.
static size_t moment_size(const char *path)
{
    const char *end = path;
    for (const char *at = path; (at = strstr(at, PROC_FOLDER)); at++)
        if (at == path || at[-1] == '/' || at[-1] == '!')
            end = at;
    if (end == path && !str_starts_with(path, PROC_FOLDER)) {
        end = proc_file_name(path);
        const struct text folder = TEXT("pressure/");
        if (text_ends_with((struct text){path, (size_t)(end - path)}, folder))
            end -= folder.size;
        else if (!name_is_usual(end))
            return strlen(path);
    }
    while (end > path + 1 && (end[-1] == '/' || end[-1] == '!'))
        end--;
    return (size_t)(end - path);
}

int proc_snapshot_get(const struct file_import *in, int64_t *ret, struct err *err)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    CLEANUP(rows_close) struct rows rows = {0};
    size_t n = moment_size(in->path);
    const char *path = n ? in->path : ".";
    n = n ? n : 1;
    int code = sqlite3_prepare_v2(in->handle, "SELECT id FROM main.proc_snapshot WHERE path = ?",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(statement, 1, path, (int)n, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *ret = sqlite3_column_int64(statement, 0);
        return 0;
    }
    if (code != SQLITE_DONE)
        return err_set(err, -EIO, "proc_snapshot: %s", sqlite3_errmsg(in->handle));
    int r = rows_open(&rows, in->handle, TABLE_proc_snapshot, err);
    if (r < 0)
        return r;
    rows_text(&rows, COL_proc_snapshot_path, path, n);
    int64_t id = rows_put(&rows);
    r = rows_error(&rows, err);
    if (r == 0)
        *ret = id;
    return r;
}

// -- line by line --

bool proc_name_fits(struct span name)
{
    return name.at < name.end && text_size(name) <= PROC_NAME_MAX_BYTES && !text_is_binary(name);
}

bool proc_number(struct span word, int64_t *ret)
{
    uint64_t value;
    if (!text_decimal(word, &value) || value > INT64_MAX)
        return false;
    *ret = (int64_t)value;
    return true;
}

void proc_text(struct proc_import *import, size_t column, struct span text)
{
    rows_text(&import->rows, column, text.at, text_size(text));
}

void proc_row(struct proc_import *import)
{
    rows_int(&import->rows, import->how->snapshot_column, import->snapshot);
    rows_put(&import->rows);
}

static void import_done(struct proc_import *import)
{
    rows_close(&import->rows);
}

// Returns true if the snapshot has rows of the same kind already. An archive may have several files
// of the same name.
static bool is_loaded(const struct proc_import *import)
{
    char sql[256];
    enum table_id table = import->how->table;
    if (table == TABLE_proc_pressure) // pressure is several files
        return false;
    snprintf(sql, sizeof(sql), "SELECT 1 FROM main.%s WHERE proc_snapshot_id = %" PRId64 " LIMIT 1",
             table_defs[table].stored_name, import->snapshot);
    return sql_number(import->in->handle, sql, 0) == 1;
}

static int lines_take(struct proc_import *import, const uint8_t *bytes, size_t size,
                      struct err *err)
{
    struct file_import *in = import->in;
    struct lines lines = lines_over(bytes, size);
    struct span line;
    while (lines_next(&lines, &line)) {
        import->line = lines.number;
        const char *wrong = line.at < line.end ? import->how->take(import, line) : NULL;
        if (wrong)
            file_bad(in, lines.number, "%s", wrong);
        if (lines.number % ASK_LINES == 0 && !file_goes_on(in))
            return -ECANCELED;
    }
    return rows_error(&import->rows, err);
}

int proc_lines_import(struct file_import *in, const uint8_t *bytes, size_t size,
                      const struct proc_lines *how, void *state, struct err *err)
{
    CLEANUP(import_done) struct proc_import import = {.in = in, .how = how, .state = state};
    if (size > PROC_FILE_MAX_BYTES) {
        file_bad(in, 1, "the file is larger than any of /proc");
        return 0;
    }
    int r = proc_snapshot_get(in, &import.snapshot, err);
    if (r == 0 && is_loaded(&import)) {
        file_bad(in, 1, "there is another such file of the same moment");
        return 0;
    }
    if (r == 0)
        r = rows_open(&import.rows, in->handle, how->table, err);
    int before = sqlite3_total_changes(in->handle);
    if (r == 0)
        r = lines_take(&import, bytes, size, err);
    if (r == 0 && !in->n_bad && sqlite3_total_changes(in->handle) == before)
        file_bad(in, 1, "the file has no line of its kind");
    return r;
}

// -- facts about a snapshot --

enum fact {
    FACT_TS = 1,
    FACT_REALTIME,
    FACT_HOST,
    FACT_KERNEL,
    FACT_PROGRAM,
    N_FACTS,
};

struct moment_fact {
    bool is_known;
    int64_t number;
    struct span text; // `at` NULL: the fact is a number
};

// All zero: nothing is known.
struct facts {
    struct moment_fact of[N_FACTS];
};

static void fact_text(struct facts *facts, enum fact fact, struct span text)
{
    facts->of[fact].is_known = true;
    facts->of[fact].text = text;
}

static int fact_bind(sqlite3_stmt *statement, const struct facts *facts, int fact)
{
    char printable[TEXT_MAX];
    struct span text = facts->of[fact].text;
    if (!facts->of[fact].is_known)
        return sqlite3_bind_null(statement, fact);
    if (!text.at)
        return sqlite3_bind_int64(statement, fact, facts->of[fact].number);
    str_printable(printable, sizeof(printable), text.at, text_size(text));
    return sqlite3_bind_text(statement, fact, printable, -1, SQLITE_TRANSIENT);
}

// Sets the known facts; other facts stay. The first text about the kernel stays, because version
// has more detail than index.txt, which is at the end of a report.
static int facts_store(const struct file_import *in, const struct facts *facts, struct err *err)
{
    static const char sql[] =
        "UPDATE main.proc_snapshot SET ts = coalesce(?1 + coalesce((SELECT ts_shift FROM trace t "
        "WHERE substr(t.path, 1, length(proc_snapshot.path) + 1) = proc_snapshot.path || '!' "
        "ORDER BY id LIMIT 1), 0), ts), realtime_ns = coalesce(?2, realtime_ns), "
        "host = coalesce(?3, host), kernel = coalesce(kernel, ?4), "
        "program = coalesce(?5, program) WHERE id = ?6";
    CLEANUP(statement_finalizep) sqlite3_stmt *statement = NULL;
    int64_t id;
    int r = proc_snapshot_get(in, &id, err);
    if (r < 0)
        return r;
    int code = sqlite3_prepare_v2(in->handle, sql, -1, &statement, NULL);
    for (int fact = FACT_TS; fact < N_FACTS && code == SQLITE_OK; fact++)
        code = fact_bind(statement, facts, fact);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, N_FACTS, id);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    return code == SQLITE_DONE
               ? 0
               : err_set(err, -EIO, "proc_snapshot: %s", sqlite3_errmsg(in->handle));
}

static bool head_is(const uint8_t *bytes, size_t size, const char *head)
{
    size_t n = strlen(head);
    return size >= n && memcmp(bytes, head, n) == 0;
}

// -- index.txt --

// Reads "1234.567" as nanoseconds.
static bool seconds_read(struct span word, int64_t *ret)
{
    const char *dot = memchr(word.at, '.', text_size(word));
    struct span whole = {word.at, dot ? dot : word.end};
    int64_t seconds, fraction = 0;
    if (!proc_number(whole, &seconds) || seconds >= INT64_MAX / NSEC_PER_SEC)
        return false;
    if (dot) {
        int n = 0;
        for (const char *at = dot + 1; at < word.end && n < 9; at++, n++) {
            if (!is_digit(*at))
                return false;
            fraction = fraction * 10 + (*at - '0');
        }
        for (; n < 9; n++)
            fraction *= 10;
    }
    *ret = seconds * NSEC_PER_SEC + fraction;
    return true;
}

// Reads "2026-11-22T13:00:00Z", with or without a fraction.
static bool time_read(struct span word, int64_t *ret)
{
    char text[40];
    struct tm tm = {0};
    int n = 0;
    size_t size = text_size(word);
    if (size < 20 || size >= sizeof(text) || word.end[-1] != 'Z')
        return false;
    memcpy(text, word.at, size - 1);
    text[size - 1] = '\0';
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &n) != 6 ||
        n != 19 || tm.tm_year < 1970 || tm.tm_year > 2200 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
        tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    int64_t fraction = 0;
    char zero[40];
    snprintf(zero, sizeof(zero), "0%s", text + n);
    if (text[n] && !seconds_read((struct span){zero, zero + strlen(zero)}, &fraction))
        return false;
    *ret = (int64_t)timegm(&tm) * NSEC_PER_SEC + fraction;
    return true;
}

static void index_line(struct facts *facts, struct span line)
{
    struct moment_fact *ts = &facts->of[FACT_TS], *moment = &facts->of[FACT_REALTIME];
    struct span word = word_take(&line);
    if (text_is(word, "host")) {
        fact_text(facts, FACT_HOST, line);
    } else if (text_is(word, "kernel")) {
        fact_text(facts, FACT_KERNEL, line);
    } else if (text_is(word, "proc")) { // proc       1234.567890123 s after boot, TIME
        ts->is_known = seconds_read(word_take(&line), &ts->number);
        moment->is_known = time_read(last_word_take(&line), &moment->number);
    } else if (text_is(word, "uptime") && !ts->is_known) {
        ts->is_known = seconds_read(word_take(&line), &ts->number);
    } else if (text_is(word, "finished") && !moment->is_known) {
        moment->is_known = time_read(word_take(&line), &moment->number);
    }
}

static bool index_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    (void)path;
    return head_is(bytes, size, INDEX_HEAD);
}

// Reads up to the second blank line. The rest is text for readers.
static int index_import(struct file_import *in, const uint8_t *bytes, size_t size, struct err *err)
{
    struct facts facts = {0};
    struct lines lines = lines_over(bytes, size);
    struct span line, program = {0};
    size_t n_blank = 0;
    while (n_blank < 2 && lines_next(&lines, &line)) {
        n_blank += line.at == line.end;
        if (lines.number > 1 && text_size(line) < TEXT_MAX)
            index_line(&facts, line);
        else if (lines.number == 1 && text_size(line) < TEXT_MAX)
            program.at = line.at + strlen("bugreport of "), program.end = line.end;
    }
    if (program.at < program.end)
        fact_text(&facts, FACT_PROGRAM, program);
    return facts_store(in, &facts, err);
}

const struct file_format file_format_bugreport_index = {
    .name = "bugreport index",
    .option = "bugreport-index",
    .recognise = index_recognise,
    .import = index_import,
    .of_moment = true,
};

// -- version --

static bool version_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    return str_eq(proc_file_name(path), "version") && head_is(bytes, size, VERSION_HEAD);
}

static int version_import(struct file_import *in, const uint8_t *bytes, size_t size,
                          struct err *err)
{
    struct facts facts = {0};
    struct lines lines = lines_over(bytes, size);
    struct span line;
    if (lines_next(&lines, &line) && text_size(line) < TEXT_MAX)
        fact_text(&facts, FACT_KERNEL, line);
    else
        file_bad(in, 1, "the line is longer than any kernel's version");
    return facts_store(in, &facts, err);
}

const struct file_format file_format_proc_version = {
    .name = "/proc/version",
    .option = "proc-version",
    .recognise = version_recognise,
    .import = version_import,
    .of_moment = true,
};

// -- kernel.log --

// Reads "<6>[   12.345678] text". False: the line has another format.
static bool log_line_read(struct span line, int64_t *ret_level, int64_t *ret_ts,
                          struct span *ret_text)
{
    if (text_size(line) < 5 || line.at[0] != '<' || line.at[1] < '0' ||
        line.at[1] > '0' + LOG_LEVEL_MAX || line.at[2] != '>' || line.at[3] != '[')
        return false;
    const char *close = memchr(line.at, ']', text_size(line));
    if (!close)
        return false;
    struct span stamp = text_trim_start((struct span){line.at + 4, close});
    if (!seconds_read(stamp, ret_ts))
        return false;
    *ret_level = line.at[1] - '0';
    *ret_text = (struct span){close + 1, line.end};
    if (ret_text->at < ret_text->end && *ret_text->at == ' ')
        ret_text->at++;
    return true;
}

static const char *kernel_log_line(struct proc_import *import, struct span line)
{
    int64_t level, ts;
    struct span text;
    if (text_size(line) > TEXT_MAX)
        return "the line is longer than 8 KiB";
    if (!log_line_read(line, &level, &ts, &text))
        return "not <level>[seconds] text";
    rows_int(&import->rows, COL_kernel_log_level, level);
    rows_int(&import->rows, COL_kernel_log_monotonic_ns, ts);
    proc_text(import, COL_kernel_log_text, text);
    proc_row(import);
    return NULL;
}

static bool kernel_log_recognise(const char *path, const uint8_t *bytes, size_t size)
{
    struct lines lines = lines_over(bytes, size);
    struct span line, text;
    int64_t level, ts;
    return str_eq(proc_file_name(path), KERNEL_LOG) && lines_next(&lines, &line) &&
           log_line_read(line, &level, &ts, &text);
}

const struct file_format file_format_kernel_log = {
    .name = "kernel log",
    .option = "kernel-log",
    .recognise = kernel_log_recognise,
    .lines = {TABLE_kernel_log, COL_kernel_log_proc_snapshot_id, kernel_log_line},
    .of_moment = true,
};
