// SPDX-License-Identifier: Apache-2.0
//
// mmsql export: rows of tables, views and questions as CSV or JSON lines, and kernel events as text
// of systrace, for other programs. One row is in memory at a time. A file gets its name when it is
// complete (output_file.h). After a failure, the files that were complete before it stay.
#include <errno.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/cli/cli.h"
#include "converter/cli/modules.h"
#include "converter/cli/output_file.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/statements.h"
#include "converter/cli/verb_options.h"
#include "converter/functions/functions.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/tables/statement.h"

static const char help[] =
    "usage: mmsql export [OPTION]... DB|TRACE TABLE|SQL [-o FILE]\n"
    "       mmsql export [OPTION]... DB|TRACE [TABLE]... --folder DIR\n"
    "       mmsql export [OPTION]... DB|TRACE --format systrace [-o FILE]\n"
    "\n"
    "Writes rows for other programs: a table, a view, or the answer to a question in\n"
    "SQL. With --folder each TABLE becomes a file DIR/TABLE.csv (or .jsonl); without\n"
    "a TABLE, each table that has rows. As in SQL, names ignore case. A trace, or any\n"
    "other file that 'mmsql convert' reads, is converted first.\n"
    "\n"
    "      --format FORMAT  csv (default): values with commas, below a line of names;\n"
    "                       NULL is empty, an empty text is \"\"\n"
    "                       jsonl: a JSON object for each row, on a line of its own\n"
    "                       systrace: the kernel events, as the kernel's file 'trace'\n"
    "                       shows them; no TABLE. to_ftrace() makes the lines\n"
    "  -o, --output FILE    write there; '-', the default, is standard output.\n"
    "                       Without --format, FILE.jsonl gets JSON lines\n"
    "      --folder DIR     write files into this folder, which is made if missing\n"
    "      --max-rows N     write at most N rows of each table or answer\n" QUESTION_HELP
    "  -h, --help           this text\n"
    "\n"
    "Examples:\n"
    "  mmsql export trace.pftrace process -o process.csv\n"
    "  mmsql export trace.pftrace --format systrace -o trace.txt\n"
    "  mmsql export trace.pftrace --format jsonl \"SELECT ts, name FROM slice\"\n"
    "  mmsql export trace.pftrace --folder tables && duckdb -c \\\n"
    "    \"SELECT name, count(*) FROM 'tables/slice.csv' GROUP BY name\"\n"
    "\n"
    "Exit code: 0 written; 1 a failure; 2 wrong usage.\n";

VEC_DEFINE(name_vec, char *); // owned texts

struct options {
    const char *path, *output, *folder; // borrowed; NULL: none
    int64_t max_rows;                   // of a result; 0: all
    enum format format;
    bool has_format; // --format is given
    bool is_systrace;
    struct limits limits;
};

struct export
{
    const struct options *options;
    sqlite3 *handle;
    struct sql_packages packages;
    struct sql_engine *engine; // owned
};

static void export_done(struct export *export)
{
    export->engine = sql_engine_free(export->engine);
    packages_done(&export->packages);
    sqlite3_close(export->handle);
}

static void names_done(struct name_vec *names)
{
    vec_foreach(names, name)
        free(*name);
    name_vec_done(names);
}

static void sql_freep(char **sql)
{
    sqlite3_free(*sql);
}

static int engine_open(struct export *export)
{
    int code = functions_register(export->handle);
    if (code == SQLITE_OK)
        code = table_functions_register(export->handle);
    if (code == SQLITE_OK && packages_add_library(&export->packages) == 0 &&
        sql_engine_new(export->handle, &export->packages, &export->engine) == 0)
        return 0;
    say("functions: %s", code == SQLITE_OK ? strerror(ENOMEM) : sqlite3_errmsg(export->handle));
    return -EIO;
}

// Returns whether the database has a table or view of the name.
static bool is_table(sqlite3 *handle, const char *name)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(
            handle,
            "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?1 "
            "COLLATE NOCASE",
            -1, &row, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC);
    return sqlite3_step(row) == SQLITE_ROW;
}

// Appends the names of the tables that have rows. Names that begin with "_" or "sqlite_" are
// internal; a table that is stored as "_NAME" has the view NAME. ftrace_event is stored as args.
static int tables_list(sqlite3 *handle, struct name_vec *ret)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int r = 0, code = sqlite3_prepare_v2(
                   handle,
                   "SELECT name FROM sqlite_master m WHERE name NOT GLOB '_*' AND name NOT GLOB "
                   "'sqlite_*' AND (type = 'table' OR type = 'view' AND (name = 'ftrace_event' OR "
                   "EXISTS (SELECT 1 FROM sqlite_master s WHERE s.type = 'table' AND s.name = '_' "
                   "|| m.name))) ORDER BY name",
                   -1, &row, NULL);
    while (r == 0 && code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        CLEANUP(statement_finalizep) sqlite3_stmt *first = NULL;
        CLEANUP(sql_freep)
        char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\" LIMIT 1", sqlite3_column_text(row, 0));
        code = sql ? sqlite3_prepare_v2(handle, sql, -1, &first, NULL) : SQLITE_NOMEM;
        if (code == SQLITE_OK && sqlite3_step(first) == SQLITE_ROW) {
            char *name = strdup((const char *)sqlite3_column_text(row, 0));
            r = name ? name_vec_push(ret, name) : -ENOMEM;
        }
    }
    if (r == 0 && code == SQLITE_DONE)
        return 0;
    say("%s", r < 0 ? strerror(-r) : sqlite3_errmsg(handle));
    return -EIO;
}

// Appends the public names of tables and views.
static int names_read(sqlite3 *handle, struct name_vec *ret)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int r = 0, code = sqlite3_prepare_v2(handle,
                                         "SELECT name FROM sqlite_master WHERE type IN ('table', "
                                         "'view') AND name NOT GLOB '_*'",
                                         -1, &row, NULL);
    while (r == 0 && code == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
        char *name = strdup(column_text(row, 0));
        r = name ? name_vec_push(ret, name) : -ENOMEM;
    }
    return r;
}

// Prints that there is no table of the name, and a similar name of the database or the library.
static int table_missing(const struct export *export, const char *name)
{
    CLEANUP(names_done) struct name_vec names = {0};
    CLEANUP(freep) char *lower = str_lower(name);
    CLEANUP(freep) char *in_library = lower ? module_nearest(&export->packages, lower) : NULL;
    const char *near = NULL;
    if (in_library && str_eq(in_library, lower)) {
        say("%s: not in the database, a module has it ('mmsql tables %s' explains it)", name,
            lower);
        return EXIT_FAILED;
    }
    if (lower && names_read(export->handle, &names) == 0)
        near = str_nearest(lower, (const char *const *)names.items, names.n);
    if (!near)
        near = in_library;
    say("%s: no such table or view (%s%s%s)", name, near ? "did you mean '" : "",
        near ? near : "'mmsql tables' lists them", near ? "'?" : "");
    return EXIT_FAILED;
}

// Returns whether a word can only be a name: it has no character that SQL needs.
static bool is_name(const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    return word[strspn(word, letters)] == '\0';
}

struct filling {
    struct export *export;
    const char *sql;
};

static int rows_fill(void *userdata, FILE *out, struct err *err)
{
    const struct filling *filling = userdata;
    const struct options *options = filling->export->options;
    const struct result_form form = {
        .format = options->format, .out = out, .max_rows = options->max_rows};
    struct result_sets sets = {.form = &form, .single = true};
    (void)err;
    if (statements_run(filling->export->engine, "", filling->sql, &sets, false) != EXIT_DONE)
        return -EIO; // the message is printed
    if (sets.n == 0) {
        say("the SQL asks for no rows: a SELECT is needed");
        return -EIO;
    }
    return 0;
}

// Writes an event as one line: its texts come from the trace, and may have ends of lines.
static void line_write(const char *line, FILE *out)
{
    for (; *line; line++)
        fputc((unsigned char)*line < ' ' && *line != '\t' ? ' ' : *line, out);
    fputc('\n', out);
}

// Writes the kernel events as lines of systrace, in the order of time.
static int events_fill(void *userdata, FILE *out, struct err *err)
{
    const struct export *export = userdata;
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int64_t n_max = export->options->max_rows ? export->options->max_rows : INT64_MAX, n = 0;
    int code = sqlite3_prepare_v2(
        export->handle, "SELECT to_ftrace(id) FROM ftrace_event ORDER BY ts, id", -1, &row, NULL);
    if (code == SQLITE_OK)
        fputs("# tracer: nop\n#\n", out);
    while (code == SQLITE_OK && n < n_max && sqlite3_step(row) == SQLITE_ROW && !ferror(out)) {
        line_write(column_text(row, 0), out);
        n++;
    }
    if (row)
        code = sqlite3_reset(row);
    if (code != SQLITE_OK)
        return err_set(err, -EIO, "kernel events: %s", sqlite3_errmsg(export->handle));
    if (n == 0)
        return err_set(err, -ENODATA, "the trace has no kernel events (linux.ftrace records them)");
    return 0;
}

typedef int (*write_fn)(const char *path, output_fill_fn fill, void *userdata);

static int one_write(struct export *export, const char *word, write_fn write, const char *output)
{
    CLEANUP(sql_freep) char *sql = NULL;
    if (is_table(export->handle, word))
        sql = sqlite3_mprintf("SELECT * FROM \"%w\"", word);
    else if (is_name(word))
        return table_missing(export, word);
    else
        sql = sqlite3_mprintf("%s", word);
    if (!sql) {
        say("%s", strerror(ENOMEM));
        return EXIT_FAILED;
    }
    struct filling filling = {.export = export, .sql = sql};
    return write(output, rows_fill, &filling);
}

// Returns whether a name of the database is safe as a name of a file. A database can come from
// anybody: a name could lead elsewhere, look like an option or a hidden file, or change the
// terminal that shows the folder.
static bool is_file_name(const char *name)
{
    for (const char *at = name; *at; at++)
        if (*at == '/' || (unsigned char)*at < ' ' || *at == 0x7f)
            return false;
    return *name && *name != '-' && *name != '.';
}

static int folder_write(struct export *export, const struct name_vec *names)
{
    static const char *const endings[] = {[FORMAT_CSV] = "csv", [FORMAT_JSON_LINES] = "jsonl"};
    int code = EXIT_DONE;
    vec_foreach(names, name) {
        CLEANUP(freep) char *path = NULL;
        if (asprintf(&path, "%s/%s.%s", export->options->folder, *name,
                     endings[export->options->format]) < 0) {
            path = NULL;
            say("%s", strerror(ENOMEM));
            return EXIT_FAILED;
        }
        if (!is_table(export->handle, *name))
            return table_missing(export, *name);
        if (!is_file_name(*name)) {
            say("%s: the name of this table cannot be the name of a file", *name);
            return EXIT_FAILED;
        }
        code = one_write(export, *name, output_file_write_here, path);
        if (code != EXIT_DONE)
            return code;
    }
    return code;
}

// Enters the sandbox, which may write the output, or any file in the folder.
static bool sandbox_enter(const struct options *options, struct trace_cache *cache)
{
    CLEANUP(freep) char *any = NULL;
    const char *output = options->output;
    struct err err = {0};
    if (options->folder) {
        if (folder_make(options->folder, 0755, &err) < 0) {
            err_print(&err, "mmsql");
            return false;
        }
        if (asprintf(&any, "%s/table", options->folder) < 0)
            any = NULL;
        output = any;
    }
    return question_sandbox(options->path, output, &options->limits, cache);
}

static int export_run(const struct options *options, char **words, size_t n)
{
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    CLEANUP(export_done) struct export export = {.options = options};
    CLEANUP(names_done) struct name_vec names = {0};
    bool is_cut;
    if (!sandbox_enter(options, &cache) ||
        question_open(options->path, &options->limits, &cache, &export.handle, &is_cut) !=
            SQLITE_OK ||
        engine_open(&export) < 0)
        return EXIT_FAILED;
    for (size_t i = 0; i < n && options->folder; i++) {
        char *name = strdup(words[i]);
        if (!name || name_vec_push(&names, name) < 0)
            return EXIT_FAILED;
    }
    if (options->folder && n == 0 && tables_list(export.handle, &names) < 0)
        return EXIT_FAILED;
    int code = options->folder ? folder_write(&export, &names)
               : options->is_systrace
                   ? output_file_write(options->output, events_fill, &export)
                   : one_write(&export, words[0], output_file_write, options->output);
    return is_cut ? EXIT_FAILED : code;
}

static int take_format(void *to, const struct verb_option *option, char *text, int argc,
                       char **argv)
{
    (void)option, (void)argc, (void)argv;
    struct options *options = to;
    bool is_csv = str_eq(text, "csv"), is_lines = str_eq(text, "jsonl");
    options->format = is_lines ? FORMAT_JSON_LINES : FORMAT_CSV;
    options->has_format = true;
    options->is_systrace = str_eq(text, "systrace");
    return is_csv || is_lines || options->is_systrace
               ? 0
               : usage_error("export", "--format %s: not csv, jsonl or systrace", text);
}

// Chooses the format by the ending of the output's name, if --format is missing. Returns 0, or an
// exit code if the ending belongs to another format.
static int format_of_name(struct options *options)
{
    static const char *const others[] = {
        "arrow", "avro", "db",  "duckdb",  "feather", "gz",  "html", "ipc",  "json", "md",  "ods",
        "orc",   "pb",   "sql", "parquet", "sqlite",  "tsv", "xls",  "xlsx", "xml",  "zip", "zst"};
    const char *slash = options->output ? strrchr(options->output, '/') : NULL;
    const char *dot = options->output ? strrchr(slash ? slash : options->output, '.') : NULL;
    if (options->has_format || !dot)
        return 0;
    if (strcasecmp(dot + 1, "jsonl") == 0 || strcasecmp(dot + 1, "ndjson") == 0)
        options->format = FORMAT_JSON_LINES;
    for (size_t i = 0; i < ELEMENTS(others); i++)
        if (strcasecmp(dot + 1, others[i]) == 0)
            return usage_error("export",
                               "-o %s: export writes CSV, JSON lines or systrace, nothing else: "
                               "name the file .csv or .jsonl, or give --format",
                               options->output);
    return 0;
}

static int run_export(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"format", OPTION_OWN, .take = take_format, .values = "csv|jsonl|systrace"},
        {"output", OPTION_TEXT, offsetof(struct options, output), 'o'},
        {"folder", OPTION_TEXT, offsetof(struct options, folder)},
        {"max-rows", OPTION_NATURAL, offsetof(struct options, max_rows), .value = 1},
        QUESTION_OPTIONS(struct options),
        {0},
    };
    struct options options = {.format = FORMAT_CSV};
    int code;
    if (!verb_options_read("export", help, rows, argc, argv, &options, &code))
        return code;
    int n = argc - optind;
    if (n < 1)
        return usage_error("export", "a database or a trace is needed");
    if (options.folder && options.output)
        return usage_error("export", "--output and --folder do not go together");
    if (options.folder && !*options.folder)
        return usage_error("export", "--folder is empty");
    if (options.is_systrace && (options.folder || n != 1))
        return usage_error("export", "--format systrace writes the kernel events: no table, no SQL "
                                     "and no --folder goes with it");
    if (!options.folder && !options.is_systrace && n != 2)
        return usage_error("export", n == 1 ? "a table or SQL is needed, or --folder"
                                            : "several tables go into a --folder");
    if (!options.folder && !options.is_systrace && !*argv[optind + 1])
        return usage_error("export", "the name of the table, or the SQL, is empty");
    code = format_of_name(&options);
    if (code)
        return code;
    options.path = argv[optind];
    return export_run(&options, argv + optind + 1, (size_t)n - 1);
}

const struct program_verb verb_export = {
    .name = "export",
    .arguments = "[OPTION]... DB|TRACE TABLE|SQL [-o FILE]",
    .summary = "write tables and answers as CSV or JSON lines, events as systrace",
    .run = run_export,
};
