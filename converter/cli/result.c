// SPDX-License-Identifier: Apache-2.0
//
// The table form needs column widths first, so it holds rows in memory, at most HELD_CELLS cells.
// Later rows are printed immediately, in these widths or wider. CSV and JSON rows are always
// printed immediately.
#include "converter/cli/result.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/vec.h"

#define HELD_CELLS 100000
#define WIDTH_MAX  100 // of a cell in a table, characters; longer text is cut

struct table_cell {
    char *text; // owned
    size_t width;
    bool right; // right-aligned
};
VEC_DEFINE(cell_vec, struct table_cell);

// Returns the width of UTF-8 text in characters, at most `max`. *ret_bytes: bytes of these
// characters.
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

// Appends a real number in the shortest form that reads back as the same number.
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

// Returns the text of a cell that is not NULL. Sets out->failed if memory ran out.
static const char *cell_string(sqlite3_stmt *statement, int column, struct strbuf *out)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    out->failed |= !text;
    return text ? text : "";
}

// The notation of cells in a form.
struct cell_form {
    const char *null, *blob_begin, *blob_end;
    const char *infinite; // text for a number that is not finite; NULL: print the number
    void (*text)(struct strbuf *out, const char *text);
};

static void cell_add(sqlite3_stmt *statement, int column, const struct cell_form *form,
                     struct strbuf *out)
{
    double real;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        strbuf_add_str(out, form->null);
        break;
    case SQLITE_INTEGER:
        strbuf_add_str(out, cell_string(statement, column, out));
        break;
    case SQLITE_FLOAT:
        real = sqlite3_column_double(statement, column);
        if (form->infinite && real - real != 0)
            strbuf_add_str(out, form->infinite);
        else
            real_add(out, real);
        break;
    case SQLITE_BLOB:
        strbuf_add_str(out, form->blob_begin);
        blob_add(out, sqlite3_column_blob(statement, column),
                 sqlite3_column_bytes(statement, column));
        strbuf_add_str(out, form->blob_end);
        break;
    default:
        form->text(out, cell_string(statement, column, out));
    }
}

static void table_text(struct strbuf *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            strbuf_add_str(out, "\\n");
        else
            strbuf_add_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
}

static const struct cell_form table_cells = {"NULL", "x'", "'", .text = table_text};

static int cell_push(struct cell_vec *cells, struct strbuf *text, bool right)
{
    size_t n_bytes;
    struct table_cell cell = {.text = strbuf_steal(text), .right = right};
    if (!cell.text)
        return -ENOMEM;
    cell.width = text_width(cell.text, WIDTH_MAX, &n_bytes);
    if (cell.text[n_bytes]) {
        text_width(cell.text, WIDTH_MAX - 3, &n_bytes);
        memcpy(cell.text + n_bytes, "...", 4); // the text had at least three more bytes
    }
    int r = cell_vec_push(cells, cell);
    if (r < 0)
        free(cell.text);
    return r;
}

FILE *result_output(const struct result_form *form)
{
    return form->out ? form->out : stdout;
}

static void output_begin(const struct result_form *form)
{
    if (form->begin)
        form->begin(form->userdata);
    if (form->apart)
        fputc('\n', result_output(form));
}

struct table_form {
    FILE *out; // borrowed
    size_t n_columns;
    size_t *widths; // owned
    bool with_head;
};

// Prints the held rows and empties `cells`.
static void table_print(struct table_form *form, struct cell_vec *cells)
{
    for (size_t i = 0; i < cells->n; i++)
        if (cells->items[i].width > form->widths[i % form->n_columns])
            form->widths[i % form->n_columns] = cells->items[i].width;
    for (size_t i = 0; i < cells->n; i++) {
        struct table_cell *cell = &cells->items[i];
        size_t column = i % form->n_columns;
        int pad = (int)(form->widths[column] - cell->width);
        bool last = column + 1 == form->n_columns;
        fprintf(form->out, "%*s%s%*s%s", cell->right ? pad : 0, "", cell->text,
                cell->right || last ? 0 : pad, "", last ? "\n" : "  ");
        free(cell->text);
        for (size_t k = 0; last && form->with_head && k < form->n_columns; k++) {
            for (size_t n = 0; n < form->widths[k]; n++)
                fputc('-', form->out);
            fputs(k + 1 == form->n_columns ? "\n" : "  ", form->out);
        }
        form->with_head &= !last;
    }
    cell_vec_clear(cells);
}

static int row_take(sqlite3_stmt *statement, struct cell_vec *cells)
{
    int r = 0;
    for (int i = 0; r == 0 && i < sqlite3_column_count(statement); i++) {
        struct strbuf text = {0};
        int type = sqlite3_column_type(statement, i);
        cell_add(statement, i, &table_cells, &text);
        r = cell_push(cells, &text, type == SQLITE_INTEGER || type == SQLITE_FLOAT);
    }
    return r;
}

static int table_run(sqlite3_stmt *statement, const struct result_form *form)
{
    struct table_form table = {.out = result_output(form),
                               .n_columns = (size_t)sqlite3_column_count(statement),
                               .with_head = true};
    struct cell_vec cells = {0};
    int r = 0, code = SQLITE_ROW;
    table.widths = calloc(table.n_columns, sizeof(*table.widths));
    if (!table.widths)
        return SQLITE_NOMEM;
    for (size_t i = 0; r == 0 && i < table.n_columns; i++) {
        struct strbuf name = {0};
        strbuf_add_str(&name, sqlite3_column_name(statement, (int)i));
        r = cell_push(&cells, &name, false);
    }
    bool begun = false;
    while (r == 0 && !ferror(table.out) && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        r = row_take(statement, &cells);
        if (r < 0 || cells.n < (begun ? 1 : HELD_CELLS))
            continue;
        if (!begun)
            output_begin(form);
        begun = true;
        table_print(&table, &cells);
    }
    if (r == 0 && code == SQLITE_DONE && !begun)
        output_begin(form);
    if (r == 0 && code == SQLITE_DONE)
        table_print(&table, &cells);
    vec_foreach(&cells, cell)
        free(cell->text);
    cell_vec_done(&cells);
    free(table.widths);
    return r < 0 ? SQLITE_NOMEM : ferror(table.out) ? SQLITE_DONE : code;
}

static int64_t rows_of(const struct result_form *form)
{
    return form->max_rows ? form->max_rows : INT64_MAX;
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

static const struct cell_form csv_cells = {"", "", "", .text = csv_text};

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

// JSON has no infinity.
static const struct cell_form json_cells = {"null", "\"", "\"", "null", json_text};

static int csv_run(sqlite3_stmt *statement, const struct result_form *form)
{
    int n = sqlite3_column_count(statement), code = SQLITE_DONE;
    int64_t left = rows_of(form);
    CLEANUP(strbuf_done) struct strbuf line = {0};
    FILE *out = result_output(form);
    output_begin(form);
    for (int i = 0; i < n; i++) {
        strbuf_add_str(&line, i ? "," : "");
        csv_text(&line, sqlite3_column_name(statement, i));
    }
    strbuf_add_char(&line, '\n');
    fputs(line.text ? line.text : "", out);
    while (left-- > 0 && !ferror(out) && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        strbuf_clear(&line);
        for (int i = 0; i < n; i++) {
            strbuf_add_str(&line, i ? "," : "");
            cell_add(statement, i, &csv_cells, &line);
        }
        strbuf_add_char(&line, '\n');
        if (line.failed)
            return SQLITE_NOMEM;
        fputs(line.text, out);
    }
    return ferror(out) || code == SQLITE_ROW ? SQLITE_DONE : code;
}

static void json_row(sqlite3_stmt *statement, struct strbuf *out)
{
    strbuf_add_char(out, '{');
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        strbuf_add_str(out, i ? "," : "");
        json_text(out, sqlite3_column_name(statement, i));
        strbuf_add_char(out, ':');
        cell_add(statement, i, &json_cells, out);
    }
    strbuf_add_char(out, '}');
}

static int json_run(sqlite3_stmt *statement, const struct result_form *form)
{
    CLEANUP(strbuf_done) struct strbuf line = {0};
    FILE *out = result_output(form);
    bool lines = form->format == FORMAT_JSON_LINES, first = true;
    int code = SQLITE_DONE;
    int64_t left = rows_of(form);
    output_begin(form);
    while (left-- > 0 && !ferror(out) && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        strbuf_clear(&line);
        strbuf_add_str(&line, lines ? "" : first ? "[\n" : ",\n");
        json_row(statement, &line);
        strbuf_add_str(&line, lines ? "\n" : "");
        if (line.failed)
            return SQLITE_NOMEM;
        fputs(line.text, out);
        first = false;
    }
    if (!lines)
        fputs(first ? "[]\n" : "\n]\n", out);
    return ferror(out) || code == SQLITE_ROW ? SQLITE_DONE : code;
}

int result_print(struct sqlite3_stmt *statement, const struct result_form *form)
{
    if (form->format == FORMAT_TABLE)
        return table_run(statement, form);
    return form->format == FORMAT_CSV ? csv_run(statement, form) : json_run(statement, form);
}
