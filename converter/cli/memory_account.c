// SPDX-License-Identifier: Apache-2.0
//
// mmsql memory: prints the view memory_account, process by process, at the last reading or at the
// time of --at.
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/tables/statement.h"

#define TEXT_WIDTH  64
#define TEXT_COLUMN 36

static const char help[] =
    "usage: mmsql memory [OPTION]... DB|TRACE\n"
    "\n"
    "Compares the memory that heap profiles show as allocated with the memory that\n"
    "the processes have, and names the differences. The view memory_account has the\n"
    "same for SQL.\n"
    "\n"
    "      --pid PID        show this process (default: all that were profiled)\n"
    "      --process NAME   show the processes that match (* and ?)\n"
    "      --at TS          show the last reading up to TS (ns; default: the end of\n"
    "                       the trace)\n" QUESTION_HELP "  -h, --help           this text\n"
    "\n"
    "Example: mmsql memory heap.pftrace\n";

struct options {
    const char *path, *process; // borrowed; NULL: none
    int64_t pid;                // -1: all
    int64_t at;
    struct limits limits;
};

static const char lines_sql[] =
    "SELECT upid, pid, coalesce(process_name, ''), ts, layer, part, bytes, meaning, "
    "(ts - coalesce((SELECT min(coalesce(m.int_value, b.start_ts)) FROM process p "
    "JOIN machine_bounds b ON b.machine_id = p.machine_id LEFT JOIN metadata m "
    "ON m.trace_id = b.trace_id AND m.name = 'tracing_started_ns' WHERE p.upid = a.upid), "
    "(SELECT start_ts FROM trace_bounds))) / 1e9 FROM memory_account a "
    "WHERE (?1 < 0 OR pid = ?1) AND (?2 IS NULL OR process_name GLOB ?2) "
    "AND ts = (SELECT max(ts) FROM memory_account b WHERE b.upid = a.upid AND b.ts <= ?3)";

static const struct {
    const char *layer, *heading;
} headings[] = {
    {"profile", "What the profile has seen"},
    {"allocator", "What the allocator holds"},
    {"process", "What the process has in memory"},
    {"difference", "The difference"},
};

// Breaks the text between words and indents the further lines.
static void wrapped_print(const char *text)
{
    size_t left = strlen(text);
    while (left > TEXT_WIDTH) {
        size_t n = TEXT_WIDTH;
        while (n > 0 && text[n] != ' ')
            n--;
        n = n ? n : TEXT_WIDTH;
        printf("%.*s\n%*s", (int)n, text, TEXT_COLUMN, "");
        text += n + (text[n] == ' ');
        left = strlen(text);
    }
    printf("%s\n", text);
}

static void heading_print(const char *layer)
{
    const char *heading = layer;
    for (size_t i = 0; i < ELEMENTS(headings); i++)
        if (str_eq(headings[i].layer, layer))
            heading = headings[i].heading;
    printf("\n  %s\n", heading);
}

struct place {
    int64_t upid; // -1: before the first
    char layer[32];
    bool was_looked_at; // the process has memory readings
};

// Prints a note if the trace has no memory readings of the last process.
static void end_print(const struct place *place)
{
    if (place->upid < 0 || place->was_looked_at)
        return;
    heading_print("process");
    printf("    %-18s %10s  ", "not known", "");
    wrapped_print(
        "the trace has no reading of the process's memory: perhaps the process ended too early; "
        "with more dumps (mmtrace heap -c) there are more readings");
}

static void line_print(sqlite3_stmt *row, struct place *place)
{
    char name[256], part[64];
    const char *layer = column_text(row, 4);
    if (sqlite3_column_int64(row, 0) != place->upid) {
        end_print(place);
        str_printable(name, sizeof(name), column_text(row, 2), strlen(column_text(row, 2)));
        printf("%s%s (%lld), %.3f s after the recording began, in kB\n",
               place->upid < 0 ? "" : "\n", *name ? name : "process",
               (long long)sqlite3_column_int64(row, 1), sqlite3_column_double(row, 8));
        *place = (struct place){0};
    }
    place->was_looked_at |= str_eq(layer, "process");
    place->upid = sqlite3_column_int64(row, 0);
    if (!str_eq(place->layer, layer))
        heading_print(layer);
    snprintf(place->layer, sizeof(place->layer), "%s", layer);
    str_printable(part, sizeof(part), column_text(row, 5), strlen(column_text(row, 5)));
    printf("    %-18s %10.1f  ", part, (double)sqlite3_column_int64(row, 6) / 1024);
    wrapped_print(column_text(row, 7));
}

static int memory_print(sqlite3 *handle, const struct options *options, struct place *place)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(handle, lines_sql, -1, &row, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int64(row, 1, options->pid);
    sqlite3_bind_text(row, 2, options->process, -1, SQLITE_STATIC);
    sqlite3_bind_int64(row, 3, options->at);
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        line_print(row, place);
    end_print(place);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int memory_run(const struct options *options)
{
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    CLEANUP(question_closep) sqlite3 *handle = NULL;
    struct place place = {.upid = -1};
    bool is_cut;
    if (!question_sandbox(options->path, NULL, &options->limits, &cache) ||
        question_open(options->path, &options->limits, &cache, &handle, &is_cut) != SQLITE_OK)
        return EXIT_FAILED;
    if (memory_print(handle, options, &place) != SQLITE_OK) {
        say("%s: %s", options->path, sqlite3_errmsg(handle));
        return EXIT_FAILED;
    }
    if (place.upid < 0) {
        say("%s: no heap profile that matches", options->path);
        return EXIT_FAILED;
    }
    return fflush(stdout) == 0 && !is_cut ? EXIT_DONE : EXIT_FAILED;
}

static int run_memory(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"pid", OPTION_NATURAL, offsetof(struct options, pid)},
        {"process", OPTION_TEXT, offsetof(struct options, process)},
        {"at", OPTION_NUMBER, offsetof(struct options, at)},
        QUESTION_OPTIONS(struct options),
        {0},
    };
    struct options options = {.pid = -1, .at = INT64_MAX};
    int code;
    if (!verb_options_read("memory", help, rows, argc, argv, &options, &code))
        return code;
    if (argc - optind != 1)
        return usage_error("memory", "one database or trace is needed");
    options.path = argv[optind];
    return memory_run(&options);
}

const struct program_verb verb_memory = {
    .name = "memory",
    .arguments = "[OPTION]... DB|TRACE",
    .summary = "compare heap profiles with what processes have in memory",
    .run = run_memory,
};
