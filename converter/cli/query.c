// SPDX-License-Identifier: Apache-2.0
//
// mmsql query: SQL on a database, printed for people or for programs. The database is opened for
// reading only. A table for people needs to know its widths first, so that form holds the rows in
// memory; CSV and JSON are written as rows come.
#include <errno.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/cli/cli.h"

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

#define WIDTH_MAX 100 // columns of a cell in a table; longer text is cut

static const char help[] = "usage: mmsql query [--csv|--json] DB SQL\n"
                           "       mmsql query [--csv|--json] DB -f FILE\n"
                           "\n"
                           "Runs SQL on a database and prints what it returns. SQL may be several "
                           "statements; '-' reads them\n"
                           "from standard input. The database is never changed.\n"
                           "\n"
                           "  -f, --file FILE   read the SQL from FILE\n"
                           "      --csv         comma-separated values with a header line\n"
                           "      --json        an array of objects, a row each\n"
                           "  -h, --help        this text\n";

struct table_cell {
    char *text; // owned
    size_t width;
    bool right; // aligned
};
VEC_DEFINE(cell_vec, struct table_cell);

// Columns that UTF-8 text takes, and how many bytes of it fit into `max`.
static size_t text_width(const char *text, size_t max, size_t *ret_bytes)
{
    size_t width = 0, i = 0;
    for (; text[i]; i++) {
        bool begins = ((unsigned char)text[i] & 0xc0) != 0x80;
        if (begins && width == max)
            break;
        width += begins;
    }
    *ret_bytes = i;
    return width;
}

static void blob_add(struct strbuf *out, const uint8_t *bytes, int n)
{
    for (int i = 0; i < n; i++)
        strbuf_addf(out, "%02x", bytes[i]);
}

// A real number in the shortest form that reads back as itself.
static void real_add(struct strbuf *out, double value)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    strbuf_add_str(out, text);
    if (!strpbrk(text, ".eEni"))
        strbuf_add_str(out, ".0");
}

static void table_cell_make(sqlite3_stmt *statement, int column, struct strbuf *out)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        strbuf_add_str(out, "NULL");
        return;
    case SQLITE_FLOAT:
        real_add(out, sqlite3_column_double(statement, column));
        return;
    case SQLITE_BLOB:
        strbuf_add_str(out, "x'");
        blob_add(out, sqlite3_column_blob(statement, column),
                 sqlite3_column_bytes(statement, column));
        strbuf_add_str(out, "'");
        return;
    }
    const char *text = (const char *)sqlite3_column_text(statement, column);
    for (; text && *text; text++)
        if (*text == '\n')
            strbuf_add_str(out, "\\n");
        else
            strbuf_add_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
}

static int cell_push(struct cell_vec *cells, struct strbuf *text, bool right)
{
    size_t n_bytes;
    struct table_cell cell = {.text = strbuf_steal(text), .right = right};
    if (!cell.text)
        return -ENOMEM;
    cell.width = text_width(cell.text, WIDTH_MAX, &n_bytes);
    if (cell.text[n_bytes]) {
        text_width(cell.text, WIDTH_MAX - 3, &n_bytes);
        memcpy(cell.text + n_bytes, "...", 4); // at least three more bytes were there
    }
    int r = cell_vec_push(cells, cell);
    if (r < 0)
        free(cell.text);
    return r;
}

static void table_print(const struct cell_vec *cells, size_t n_columns)
{
    size_t n_rows = cells->n / n_columns;
    size_t *widths = calloc(n_columns, sizeof(*widths));
    if (!widths)
        return;
    for (size_t i = 0; i < cells->n; i++)
        if (cells->items[i].width > widths[i % n_columns])
            widths[i % n_columns] = cells->items[i].width;
    for (size_t row = 0; row < n_rows; row++) {
        for (size_t i = 0; i < n_columns; i++) {
            const struct table_cell *cell = &cells->items[row * n_columns + i];
            int pad = (int)(widths[i] - cell->width);
            bool last = i + 1 == n_columns;
            printf("%*s%s%*s%s", cell->right ? pad : 0, "", cell->text,
                   cell->right || last ? 0 : pad, "", last ? "\n" : "  ");
        }
        for (size_t i = 0; row == 0 && i < n_columns; i++) {
            for (size_t k = 0; k < widths[i]; k++)
                putchar('-');
            fputs(i + 1 == n_columns ? "\n" : "  ", stdout);
        }
    }
    free(widths);
}

static int table_run(sqlite3_stmt *statement)
{
    size_t n = (size_t)sqlite3_column_count(statement);
    struct cell_vec cells = {0};
    int r = 0, code = SQLITE_ROW;
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct strbuf name = {0};
        strbuf_add_str(&name, sqlite3_column_name(statement, (int)i));
        r = cell_push(&cells, &name, false);
    }
    while (r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        for (size_t i = 0; r == 0 && i < n; i++) {
            struct strbuf text = {0};
            int type = sqlite3_column_type(statement, (int)i);
            table_cell_make(statement, (int)i, &text);
            r = cell_push(&cells, &text, type == SQLITE_INTEGER || type == SQLITE_FLOAT);
        }
    }
    if (r == 0 && code == SQLITE_DONE)
        table_print(&cells, n);
    vec_foreach(&cells, cell)
        free(cell->text);
    cell_vec_done(&cells);
    return r < 0 ? SQLITE_NOMEM : code;
}

static void csv_text(struct strbuf *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n") && *text) {
        strbuf_add_str(out, text);
        return;
    }
    strbuf_add_char(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            strbuf_add_char(out, '"');
        strbuf_add_char(out, *text);
    }
    strbuf_add_char(out, '"');
}

static void csv_cell(sqlite3_stmt *statement, int column, struct strbuf *out)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        break;
    case SQLITE_FLOAT:
        real_add(out, sqlite3_column_double(statement, column));
        break;
    case SQLITE_BLOB:
        blob_add(out, sqlite3_column_blob(statement, column),
                 sqlite3_column_bytes(statement, column));
        break;
    default: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        csv_text(out, text ? text : "");
    }
    }
}

static void json_text(struct strbuf *out, const char *text)
{
    strbuf_add_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            strbuf_addf(out, "\\%c", c);
        else if (c < ' ')
            strbuf_addf(out, "\\u%04x", c);
        else
            strbuf_add_char(out, *text);
    }
    strbuf_add_char(out, '"');
}

static void json_cell(sqlite3_stmt *statement, int column, struct strbuf *out)
{
    double real;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        strbuf_add_str(out, "null");
        break;
    case SQLITE_INTEGER:
        strbuf_add_str(out, (const char *)sqlite3_column_text(statement, column));
        break;
    case SQLITE_FLOAT:
        real = sqlite3_column_double(statement, column);
        if (real - real == 0)
            real_add(out, real);
        else
            strbuf_add_str(out, "null"); // JSON has no infinity
        break;
    case SQLITE_BLOB:
        strbuf_add_char(out, '"');
        blob_add(out, sqlite3_column_blob(statement, column),
                 sqlite3_column_bytes(statement, column));
        strbuf_add_char(out, '"');
        break;
    default: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        json_text(out, text ? text : "");
    }
    }
}

static int rows_run(sqlite3_stmt *statement, enum format format)
{
    int n = sqlite3_column_count(statement), code;
    CLEANUP(strbuf_done) struct strbuf line = {0};
    bool csv = format == FORMAT_CSV, first = true;
    for (int i = 0; csv && i < n; i++) {
        strbuf_add_str(&line, i ? "," : "");
        csv_text(&line, sqlite3_column_name(statement, i));
    }
    if (csv)
        puts(line.text ? line.text : "");
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        strbuf_clear(&line);
        strbuf_add_str(&line, csv ? "" : first ? "[\n{" : ",\n{");
        first = false;
        for (int i = 0; i < n; i++) {
            strbuf_add_str(&line, i ? "," : "");
            if (csv) {
                csv_cell(statement, i, &line);
                continue;
            }
            json_text(&line, sqlite3_column_name(statement, i));
            strbuf_add_char(&line, ':');
            json_cell(statement, i, &line);
        }
        if (line.failed)
            return SQLITE_NOMEM;
        fputs(line.text ? line.text : "", stdout);
        fputs(csv ? "\n" : "}", stdout);
        if (ferror(stdout))
            return SQLITE_IOERR;
    }
    if (!csv)
        fputs(first ? "[]\n" : "\n]\n", stdout);
    return code;
}

// The line of SQL that an error is in, with a caret under the place.
static void sql_error_print(sqlite3 *handle, const char *sql, const char *statement)
{
    int offset = -1;
#if SQLITE_VERSION_NUMBER >= 3038000
    offset = sqlite3_error_offset(handle);
#endif
    fprintf(stderr, "mmsql: %s\n", sqlite3_errmsg(handle));
    if (offset < 0)
        return;
    const char *at = statement + offset, *line = at;
    while (line > sql && line[-1] != '\n')
        line--;
    int number = 1;
    for (const char *c = sql; c < line; c++)
        number += *c == '\n';
    int prefix = fprintf(stderr, "  line %d: ", number);
    fprintf(stderr, "%.*s\n%*s^\n", (int)strcspn(line, "\n"), line, prefix + (int)(at - line), "");
}

static int statements_run(sqlite3 *handle, const char *sql, enum format format)
{
    const char *rest = sql;
    while (*rest) {
        sqlite3_stmt *statement = NULL;
        const char *begin = rest;
        int code = sqlite3_prepare_v2(handle, rest, -1, &statement, &rest);
        if (code != SQLITE_OK) {
            sql_error_print(handle, sql, begin);
            return EXIT_FAILED;
        }
        if (!statement) // blanks or a comment
            continue;
        if (!sqlite3_column_count(statement))
            code = sqlite3_step(statement);
        else
            code = format == FORMAT_TABLE ? table_run(statement) : rows_run(statement, format);
        sqlite3_finalize(statement);
        if (code != SQLITE_DONE) {
            fprintf(stderr, "mmsql: %s\n",
                    code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(handle));
            return EXIT_FAILED;
        }
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    fprintf(stderr, "mmsql: standard output: %s\n", strerror(errno));
    return EXIT_FAILED;
}

// The whole of a file, or of standard input for "-". Freed by the caller; NULL with errno set.
static char *text_read(const char *path)
{
    CLEANUP(fclosep)
    FILE *file = str_eq(path, "-") ? fdopen(dup(STDIN_FILENO), "r") : fopen(path, "re");
    if (!file)
        return NULL;
    struct strbuf text = {0};
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        strbuf_add(&text, chunk, n);
    if (ferror(file)) {
        strbuf_done(&text);
        return NULL;
    }
    return strbuf_steal(&text);
}

static void closep(sqlite3 **handle)
{
    sqlite3_close(*handle);
}

static int query(const char *path, const char *sql, const char *file, enum format format)
{
    CLEANUP(freep) char *read = NULL;
    if (file && !(read = text_read(file))) {
        fprintf(stderr, "mmsql: %s: %s\n", file, strerror(errno));
        return EXIT_FAILED;
    }
    CLEANUP(closep) sqlite3 *handle = NULL;
    int code = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(handle, "SELECT 1 FROM sqlite_master", NULL, NULL, NULL);
    if (code == SQLITE_NOTADB)
        fprintf(stderr, "mmsql: %s: not a database (make one with 'mmsql convert TRACE -o DB')\n",
                path);
    else if (code != SQLITE_OK)
        fprintf(stderr, "mmsql: %s: %s\n", path, sqlite3_errmsg(handle));
    return code == SQLITE_OK ? statements_run(handle, read ? read : sql, format) : EXIT_FAILED;
}

static int run_query(int argc, char **argv)
{
    enum { OPTION_CSV = 256, OPTION_JSON };
    static const struct option options[] = {
        {"csv", no_argument, NULL, OPTION_CSV},
        {"json", no_argument, NULL, OPTION_JSON},
        {"file", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    enum format format = FORMAT_TABLE;
    const char *file = NULL;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "f:h", options, NULL)) != -1) {
        switch (option) {
        case OPTION_CSV:
            format = FORMAT_CSV;
            break;
        case OPTION_JSON:
            format = FORMAT_JSON;
            break;
        case 'f':
            file = optarg;
            break;
        case 'h':
            fputs(help, stdout);
            return EXIT_DONE;
        default:
            return usage_error("query", "%s: not an option, or it lacks its value",
                               argv[optind - 1]);
        }
    }
    int n = argc - optind;
    if (n < 1)
        return usage_error("query", "a database is needed");
    if (file ? n != 1 : n != 2)
        return usage_error("query", file
                                        ? "SQL comes from the file; nothing may follow the database"
                                        : "SQL is needed behind the database, as one argument");
    const char *sql = file ? NULL : argv[optind + 1];
    if (sql && str_eq(sql, "-"))
        file = "-";
    return query(argv[optind], sql, file, format);
}

const struct verb verb_query = {
    .name = "query",
    .arguments = "[--csv|--json] DB SQL",
    .summary = "run SQL on a database",
    .run = run_query,
};
