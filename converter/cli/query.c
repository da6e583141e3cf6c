// SPDX-License-Identifier: Apache-2.0
//
// mmsql query: runs SQL on a database, or on a trace that is converted first. The database is
// opened for reading only; statements create temporary objects.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/file.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/conversion.h"
#include "converter/cli/interrupts.h"
#include "converter/cli/own_sandbox.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/shell.h"
#include "converter/cli/statements.h"
#include "converter/cli/streams.h"
#include "converter/cli/verb_options.h"
#include "converter/cli/verdict_print.h"
#include "converter/functions/functions.h"
#include "converter/ground/spill.h"
#include "converter/perfetto_sql/compat.h"
#include "converter/perfetto_sql/engine.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/tables/defend.h"

static const char help[] =
    "usage: mmsql query [OPTION]... DB|TRACE [SQL]\n"
    "\n"
    "Runs SQL on a database and prints the rows. A trace, or any other file that\n"
    "'mmsql convert' reads, is converted first. SQL may be several statements.\n"
    "Without SQL a prompt asks for it. The database is never changed, and SQL writes\n"
    "no file: VACUUM INTO is refused. '-' is standard input, for the database, the\n"
    "trace or the SQL.\n"
    "\n"
    "mmsql keeps the databases of traces below $XDG_CACHE_HOME/mmtrace, so that the\n"
    "next question to a trace is answered at once. MMTRACE_CACHE_SIZE limits their\n"
    "size (default 8g; 0: keep nothing).\n"
    "\n"
    "  -f, --file FILE   read the SQL from FILE\n"
    "      --csv         comma-separated values with a header line\n"
    "      --json        an array of objects, one for each row; several result\n"
    "                    sets are an array of these arrays\n"
    "      --json-lines  one object for each row, on a line of its own\n"
    "      --timing      print how long each statement took\n"
    "      --add-sql-package DIR[@NAME]\n"
    "                    add the .sql files below DIR as modules of the package NAME\n"
    "                    (the name of DIR); may be repeated\n"
    "      --override-sql-package DIR[@NAME]\n"
    "                    as --add-sql-package, but replaces the package NAME\n"
    "      --override-stdlib DIR\n"
    "                    take the standard library from DIR: each folder is a package\n"
    "      --compat      give trace_processor's values in the columns that differ\n"
    "                    from it on purpose (docs/tables.md names them)\n"
    "      --crop-track-events\n"
    "                    leave out track events before the trace's range of interest\n"
    "      --functions   list the functions beside SQLite's own\n"
    "  -q, --quiet       do not print the losses of the trace\n"
    "      --no-cache    convert the trace anew, and keep nothing of it\n"
    "      --max-memory SIZE\n"
    "                    memory limit of the conversion of a trace\n"
    "      --max-output SIZE\n"
    "                    disk limit of the conversion of a trace\n"
    "  -h, --help        this text\n"
    "\n"
    "Examples:\n"
    "  mmsql query trace.pftrace \"SELECT * FROM reclaim_by_process\"\n"
    "  mmsql query --csv trace.db \"SELECT pid, name FROM process\" > processes.csv\n"
    "\n"
    "Before the rows, standard error says what the traces lack: lost data, times that\n"
    "mean nothing, data that could not be read.\n"
    "\n"
    "A blank line separates several result sets, except with --json. The SQL is\n"
    "PerfettoSQL: CREATE PERFETTO TABLE, VIEW, FUNCTION, MACRO and INDEX, functions\n"
    "(--functions), and INCLUDE PERFETTO MODULE ('mmsql tables' lists modules) are\n"
    "built in. Other programs get the functions from the extension\n"
    "mmsql_functions.so.\n";

struct query {
    const char *path;
    const char *sql;  // NULL: read from `file`, or typed at the prompt
    const char *file; // NULL: none
    enum format format;
    bool timing, quiet, functions, compat, crops;
    const char *stdlib; // NULL: the built-in library
    struct option_texts added, overridden;
    struct limits limits;
};

// Returns true if the file begins as a database or cannot be read; all other files are tried as
// traces. A named pipe is not opened here, because its writer would take the close for the end of
// the reader.
static bool is_database(const char *path)
{
    char head[16] = {0};
    struct stat st;
    if (str_eq(path, "-") || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)))
        return false;
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
    return (n < 0 && errno != ESPIPE) || memcmp(head, "SQLite format 3", 16) == 0;
}

static void conversion_done(struct conversion *conversion)
{
    conversion_files_done(&conversion->files);
}

// A trace that is converted for one question
struct trace_order {
    const char *path;
    const struct limits *limits;
    struct selection selection;
};

// Converts the trace into an unnamed database. `output`: the name beside which the working folder
// is made. All queries have the same name, so a query removes the working folders of killed
// queries. `kept` as in struct conversion.
static int trace_convert(const struct trace_order *order, const char *output,
                         struct working_folder *kept, sqlite3 **ret, bool *ret_is_cut,
                         struct err *err)
{
    CLEANUP(conversion_done)
    struct conversion conversion = {.quiet = true,
                                    .output = output,
                                    .opened = ret,
                                    .kept = kept,
                                    .limits = *order->limits,
                                    .selection = order->selection,
                                    .goes_on = interrupts_none};
    struct conversion_result result = {0};
    int r = conversion_files_push(&conversion.files, (struct conversion_file){.path = order->path});
    if (r == 0)
        r = conversion_run(&conversion, &result, err);
    *ret_is_cut = result.is_cut;
    return r;
}

// Returns true if the conversion may succeed outside the cache: the disk is full, or rights are
// missing.
static bool is_of_the_place(int r)
{
    return r == -ENOSPC || r == -EDQUOT || r == -EFBIG || r == -EIO || r == -EROFS ||
           r == -EACCES || r == -EPERM || r == -ENOENT || r == -ENAMETOOLONG;
}

// Converts the trace in the cache, and keeps the database there unless a limit cut the trace or the
// file changed. Returns false if the trace is to be converted elsewhere.
static bool trace_convert_cached(const struct trace_order *order, const struct trace_cache *cache,
                                 const struct cached_trace *trace, sqlite3 **ret, bool *ret_is_cut,
                                 int *ret_r, struct err *err)
{
    CLEANUP(strbuf_done) struct strbuf messages = {0};
    struct working_folder folder = {.fd = -1};
    bool has_limits = order->limits->memory || order->limits->output;
    CLEANUP(freep) char *output = NULL;
    if (asprintf(&output, "%s/new", cache->keeper.place.path) < 0) {
        output = NULL;
        return false;
    }
    say_hold(&messages);
    int r = trace_convert(order, output, &folder, ret, ret_is_cut, err);
    say_hold(NULL);
    if ((*ret_is_cut && !has_limits) || is_of_the_place(r)) {
        sqlite3_close(STEAL(*ret));
        working_folder_remove(&folder);
        *err = (struct err){0};
        return false;
    }
    if (messages.size)
        fputs(messages.text, stderr);
    if (r == 0 && !*ret_is_cut && interrupts_none(NULL))
        trace_cache_ask(cache, trace, &messages, &folder);
    working_folder_remove(&folder);
    *ret_r = r;
    return true;
}

// Says that the file is no database either. The file is named once.
static void failure_name(const char *path, int r, struct err *err)
{
    const char *name = str_eq(path, "-") ? STDIN_NAME : path;
    size_t size = strlen(name);
    bool is_named = strncmp(err->text, name, size) == 0 && str_starts_with(err->text + size, ": ");
    if (r == -ENODATA) // an empty file is neither
        return;
    if (is_named)
        memmove(err->text, err->text + size + 2, strlen(err->text + size + 2) + 1);
    err_prefix(err, r, "%s: not a database; as a trace", name);
}

// Opens the database of a trace: the cache's database, or a new database.
static int trace_open(const struct trace_order *order, const struct trace_cache *cache,
                      sqlite3 **ret, bool *ret_is_cut)
{
    CLEANUP(freep) char *output = NULL;
    CLEANUP(cached_trace_done) struct cached_trace trace = {0};
    const char *folder = temporary_folder(NULL);
    struct err err = {0};
    int r = 0;
    if (cache->refusal)
        say("%s", cache->refusal);
    bool is_cacheable = cached_trace_of(cache, order->path, order->limits,
                                        order->selection.crops_track_events, &trace);
    if (is_cacheable && trace_cache_find(&trace, ret))
        return SQLITE_OK;
    if (asprintf(&output, "%s/mmsql-query", folder) < 0) {
        output = NULL;
        say("%s", strerror(ENOMEM));
        return SQLITE_NOMEM;
    }
    interrupts_note();
    if (!is_cacheable || !cache->keeper.pid || !trace_cache_has_room(cache, order->path, folder) ||
        !trace_convert_cached(order, cache, &trace, ret, ret_is_cut, &r, &err))
        r = trace_convert(order, output, NULL, ret, ret_is_cut, &err);
    if (!interrupts_let() && r == 0) // after the last check of the conversion
        r = err_set(&err, -ECANCELED, "interrupted; nothing was written");
    if (r < 0) {
        failure_name(order->path, r, &err);
        err_print(&err, "mmsql");
    }
    return r < 0 ? SQLITE_ERROR : SQLITE_OK;
}

static int database_open(const char *path, sqlite3 **ret)
{
    if (access(path, R_OK) < 0) {
        say("%s: unable to open: %s", path, strerror(errno));
        return SQLITE_CANTOPEN;
    }
    int code = handle_open_reading(path, ret);
    if (code == SQLITE_NOTADB)
        say("%s: not a database (make one with 'mmsql convert TRACE -o DB')", path);
    else if (code != SQLITE_OK)
        say("%s: %s", path, sqlite3_errmsg(*ret));
    return code;
}

void question_closep(sqlite3 **handle)
{
    sqlite3_close(*handle);
}

// Opens a database from standard input. SQLite opens the file before its name is removed.
static int stdin_open(sqlite3 **ret)
{
    CLEANUP(stream_file_done) struct stream_file stream = {0};
    struct err err = {0};
    int r = stream_file_make(&stream, &err);
    if (r == 0)
        r = stream_file_fill(&stream, &err);
    if (r == 0)
        return database_open(stream.file, ret);
    err_print(&err, "mmsql");
    return SQLITE_CANTOPEN;
}

// Returns true if question_open() would open `path` as a database, and false if it would convert
// the file. Consumes no input.
static bool question_is_database(const char *path)
{
    return str_eq(path, "-") ? stdin_is_database() : is_database(path);
}

void question_no_trace(const char *path, struct err *err)
{
    if (question_is_database(path))
        err_hint(err, 0, "'mmsql query %s' shows what the database has", path);
    else
        err_hint(err, 0, "'mmsql convert %s -o x.db' makes a database of what it has", path);
}

void question_expect(const char *path, const struct limits *limits, struct trace_cache *cache)
{
    if (!limits->no_cache && !question_is_database(path))
        trace_cache_open(cache, path, limits, false);
}

// Returns whether the output is one of the files that are read. Prints the message.
static bool is_input(const char *output, const char *const *paths, size_t n)
{
    for (size_t i = 0; output && i < n; i++)
        if (file_is_same(output, paths[i])) {
            say("%s: the output would replace the input %s (choose another name for the output)",
                output, paths[i]);
            return true;
        }
    return false;
}

bool question_sandbox(const char *path, const char *output, const struct limits *limits,
                      struct trace_cache *cache)
{
    return questions_sandbox(&path, 1, output, limits, cache);
}

bool questions_sandbox(const char *const *paths, size_t n, const char *output,
                       const struct limits *limits, struct trace_cache *cache)
{
    struct own_sandbox sandbox = {.bounds_data = true};
    if (is_input(output, paths, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        question_expect(paths[i], limits, cache);
        own_sandbox_input(&sandbox, paths[i]);
    }
    own_sandbox_output(&sandbox, output);
    own_sandbox_cache(&sandbox, cache);
    return own_sandbox_enter(&sandbox);
}

int question_open(const char *path, const struct limits *limits, const struct trace_cache *cache,
                  sqlite3 **ret, bool *ret_is_cut)
{
    const struct trace_order order = {.path = path, .limits = limits};
    *ret_is_cut = false;
    if (!question_is_database(path))
        return trace_open(&order, cache, ret, ret_is_cut);
    return str_eq(path, "-") ? stdin_open(ret) : database_open(path, ret);
}

static int source_open(const struct query *query, const struct trace_cache *cache, sqlite3 **ret,
                       bool *ret_is_cut)
{
    const struct trace_order order = {.path = query->path,
                                      .limits = &query->limits,
                                      .selection.crops_track_events = query->crops};
    if (!query->crops)
        return question_open(query->path, &query->limits, cache, ret, ret_is_cut);
    *ret_is_cut = false;
    if (!question_is_database(query->path))
        return trace_open(&order, cache, ret, ret_is_cut);
    say("%s: a database: --crop-track-events is for a trace, which is converted (give the option "
        "to 'mmsql convert')",
        query->path);
    return SQLITE_MISUSE;
}

// Enters the sandbox of a query. SQL may attach other databases, and the prompt runs a pager and
// keeps a history.
static bool query_sandbox(const struct query *query, struct trace_cache *cache)
{
    bool asks = !query->sql && !query->file;
    struct own_sandbox sandbox = {
        .reads_all = true, .writes_all = asks, .runs_programs = asks, .bounds_data = !asks};
    if (!query->limits.no_cache && !question_is_database(query->path))
        trace_cache_open(cache, query->path, &query->limits, query->crops);
    own_sandbox_input(&sandbox, query->path);
    own_sandbox_cache(&sandbox, cache);
    return own_sandbox_enter(&sandbox);
}

DEFINE_CLEANUP(engine_freep, struct sql_engine, sql_engine_free);

// Adds the library, and the packages that the options name.
static bool packages_fill(struct sql_packages *packages, const struct query *query)
{
    struct err err = {0};
    int r = query->stdlib ? packages_override_all(packages, query->stdlib, &err)
                          : packages_add_library(packages);
    vec_foreach(&query->added, path)
        r = r < 0 ? r : packages_add(packages, *path, false, &err);
    vec_foreach(&query->overridden, path)
        r = r < 0 ? r : packages_add(packages, *path, true, &err);
    if (r < 0 && !err.text[0])
        err_errno(&err, r, "packages");
    if (r < 0)
        err_print(&err, "mmsql");
    return r == 0;
}

// Sets the room for tables and indexes that SQL makes, and for sorting. SQLite uses files when this
// room is full.
static int room_give(sqlite3 *handle)
{
    return sqlite3_exec(handle, "PRAGMA main.cache_size=-65536; PRAGMA temp.cache_size=-262144",
                        NULL, NULL, NULL);
}

// Returns whether the text begins with a command of the prompt. Prints the message.
static bool is_command(const char *sql, const char *path)
{
    const char *word = sql ? sql + strspn(sql, " \t\r\n") : "";
    size_t n = strcspn(word, " \t\r\n;");
    if (*word != '.' || n < 2 || strchr("0123456789", word[1]))
        return false;
    say("%.*s: a command with a dot is for the prompt ('mmsql query %s' opens it; 'mmsql tables' "
        "lists the tables)",
        (int)n, word, path);
    return true;
}

static int query_run(const struct query *query)
{
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    if (!query_sandbox(query, &cache))
        return EXIT_FAILED;
    CLEANUP(freep) char *read = NULL;
    if (query->file && !(read = text_read(query->file))) {
        say("%s: %s", query->file, strerror(errno));
        return EXIT_FAILED;
    }
    const char *sql = read ? read : query->sql, *name = read ? query->file : "";
    if (is_command(sql, query->path))
        return EXIT_FAILED;
    CLEANUP(question_closep) sqlite3 *handle = NULL;
    bool is_cut,
        is_converted = !question_is_database(query->path); // damage is reported already
    int code = source_open(query, &cache, &handle, &is_cut);
    if (code != SQLITE_OK)
        return EXIT_FAILED;
    if (!query->quiet)
        health_read_print(handle, is_converted);
    code = room_give(handle);
    if (code == SQLITE_OK)
        code = functions_register(handle);
    if (code == SQLITE_OK)
        code = table_functions_register(handle);
    if (code != SQLITE_OK) {
        say("functions: %s", sqlite3_errmsg(handle));
        return EXIT_FAILED;
    }
    if (query->compat && compat_views_make(handle) < 0) {
        say("--compat: %s", sqlite3_errmsg(handle));
        return EXIT_FAILED;
    }
    CLEANUP(packages_done) struct sql_packages packages = {0};
    CLEANUP(engine_freep) struct sql_engine *engine = NULL;
    if (!packages_fill(&packages, query))
        return EXIT_FAILED;
    if (sql_engine_new(handle, &packages, &engine) < 0) {
        say("functions of PerfettoSQL: out of memory");
        return EXIT_FAILED;
    }
    const struct result_form form = {.format = query->format};
    struct result_sets sets = {.form = &form};
    int result = sql ? statements_run(engine, name, sql, &sets, query->timing)
                     : shell_run(handle, engine, query->path, query->format, query->timing);
    return result == EXIT_DONE && sql && is_cut ? EXIT_FAILED : result;
}

// Reads the operands after the options, and runs the query.
static int operands_read(struct query *query, int argc, char **argv)
{
    int n = argc - optind;
    if (n < 1)
        return usage_error("query", "a database or a trace is needed");
    if (query->file ? n != 1 : n > 2)
        return usage_error("query", query->file
                                        ? "SQL comes from the file; nothing may follow the database"
                                        : "SQL is one argument after the database");
    query->path = argv[optind];
    query->sql = n == 2 ? argv[optind + 1] : NULL;
    if (query->sql && str_eq(query->sql, "-"))
        query->file = "-";
    if (str_eq(query->path, "-") && !query->sql && !query->file)
        return usage_error("query", "SQL is needed where standard input has the database or trace");
    if (str_eq(query->path, "-") && query->file && str_eq(query->file, "-"))
        return usage_error("query", "standard input can be read once only: '-' is there twice");
    return query_run(query);
}

// Returns true for SQL that begins with a comment: the name of an option has no blanks.
static bool is_comment(const char *argument)
{
    const char *end = argument + strcspn(argument, "= \t\r\n");
    return str_starts_with(argument, "--") && *end && *end != '=';
}

// Copies the arguments. SQL that begins with a comment comes last, after "--", so that the SQL is
// not read as an option. Returns NULL if memory ran out.
static char **arguments_arrange(int argc, char **argv, int *ret_n)
{
    static char end_of_options[] = "--";
    char **arranged = calloc((size_t)argc + 3, sizeof(*arranged)), *sql = NULL;
    bool at_end = false;
    int n = 0;
    for (int i = 0; arranged && i < argc; i++) {
        if (!at_end && !sql && is_comment(argv[i])) {
            sql = argv[i];
            continue;
        }
        at_end |= str_eq(argv[i], end_of_options);
        arranged[n++] = argv[i];
    }
    if (arranged && sql && !at_end)
        arranged[n++] = end_of_options;
    if (arranged && sql)
        arranged[n++] = sql;
    *ret_n = n;
    return arranged;
}

static int run_query(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"csv", OPTION_CHOICE, offsetof(struct query, format), .value = FORMAT_CSV},
        {"json", OPTION_CHOICE, offsetof(struct query, format), .value = FORMAT_JSON},
        {"json-lines", OPTION_CHOICE, offsetof(struct query, format), .value = FORMAT_JSON_LINES},
        {"timing", OPTION_FLAG, offsetof(struct query, timing)},
        {"compat", OPTION_FLAG, offsetof(struct query, compat)},
        {"crop-track-events", OPTION_FLAG, offsetof(struct query, crops)},
        {"functions", OPTION_FLAG, offsetof(struct query, functions)},
        {"file", OPTION_TEXT, offsetof(struct query, file), 'f'},
        {"add-sql-package", OPTION_TEXTS, offsetof(struct query, added)},
        {"override-sql-package", OPTION_TEXTS, offsetof(struct query, overridden)},
        {"override-stdlib", OPTION_TEXT, offsetof(struct query, stdlib)},
        {"quiet", OPTION_FLAG, offsetof(struct query, quiet), 'q'},
        QUESTION_OPTIONS(struct query),
        {0},
    };
    struct query query = {.format = FORMAT_TABLE};
    int code, n;
    char **arguments = arguments_arrange(argc, argv, &n);
    if (!arguments) {
        say("%s", strerror(ENOMEM));
        return EXIT_FAILED;
    }
    if (verb_options_read("query", help, rows, n, arguments, &query, &code))
        code = query.functions ? functions_print() : operands_read(&query, n, arguments);
    free(arguments);
    option_texts_done(&query.added);
    option_texts_done(&query.overridden);
    return code;
}

const struct program_verb verb_query = {
    .name = "query",
    .arguments = "[--csv|--json|--json-lines] DB|TRACE [SQL]",
    .summary = "run SQL on a database or a trace, or open a prompt",
    .run = run_query,
};
