// SPDX-License-Identifier: Apache-2.0
//
// mmsql convert: a trace into a database.
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/nsec.h"
#include "converter/cli/cli.h"
#include "converter/import/import.h"
#include "converter/input/input.h"
#include "converter/tables/database.h"

#define PROGRESS_PERIOD (100 * NSEC_PER_MSEC)

static const char help[] =
    "usage: mmsql convert TRACE -o DB\n"
    "\n"
    "Reads a Perfetto trace and writes an SQLite database with Perfetto's tables: slice, counter,\n"
    "thread, process, ftrace_event, args and others ('mmsql tables' lists them). Any SQLite "
    "program\n"
    "can open it.\n"
    "\n"
    "TRACE is a file, or '-' for standard input; gzip is recognised. DB is replaced if mmsql made "
    "it;\n"
    "no other file is ever overwritten, and DB appears only when the conversion is through.\n"
    "\n"
    "  -o, --output DB   the database to write\n"
    "  -q, --quiet       no progress and no summary\n"
    "  -h, --help        this text\n"
    "\n"
    "Of a damaged trace everything that can be read is converted; the exit code is 1 then, and "
    "the\n"
    "message says where the damage is.\n";

struct progress {
    bool shown;
    nsec_t next;
};

static volatile sig_atomic_t interrupted; // set by the signal handler

static void on_signal(int signal_number)
{
    interrupted = signal_number;
}

static bool progress_show(void *userdata, double done)
{
    struct progress *progress = userdata;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    if (progress->shown && now >= progress->next) {
        fprintf(stderr, "\rconverting %3.0f %%", done * 100);
        progress->next = now + PROGRESS_PERIOD;
    }
    return !interrupted;
}

static bool goes_on(void *userdata)
{
    (void)userdata;
    return !interrupted;
}

// The folder of `path`, for temporary files. Freed by the caller; NULL: no memory.
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static int damage_print(const char *trace, const struct input *input,
                        const struct trace_result *result)
{
    int code = EXIT_DONE;
    if (input_damage(input)) {
        fprintf(stderr, "mmsql: %s: %s; converted what could be read\n", trace,
                input_damage(input));
        code = EXIT_FAILED;
    }
    if (result->truncated) {
        fprintf(stderr,
                "mmsql: %s: the trace ends or breaks at offset %" PRIu64 ", in packet %" PRIu64
                "; the %" PRIu64 " bytes from there on are left out\n",
                trace, result->truncated_offset, result->n_packets,
                input_size(input) - result->truncated_offset);
        code = EXIT_FAILED;
    }
    if (result->n_damaged) {
        fprintf(stderr, "mmsql: %s: packet %" PRIu64 " at offset %" PRIu64 " is damaged: %s", trace,
                result->first_damaged_packet, result->first_damaged_offset,
                trace_problem_text(result->first_damage));
        if (result->n_damaged > 1)
            fprintf(stderr, "; %" PRIu64 " are damaged in all", result->n_damaged);
        fprintf(stderr, "; what could be read is converted\n");
        code = EXIT_FAILED;
    }
    return code;
}

static void summary_print(const char *path, const struct input *input, const struct database *db,
                          const struct trace_result *result, nsec_t taken)
{
    uint64_t n_rows = 0;
    for (enum table_id table = 0; table < N_TABLES; table++)
        n_rows += database_n_rows(db, table);
    fprintf(stderr, "%s: %" PRIu64 " packets (%.1f MB) -> %" PRIu64 " rows (%.1f MB) in %.2f s\n",
            path, result->n_packets, (double)input_size(input) / 1e6, n_rows,
            (double)database_n_bytes(db) / 1e6, (double)taken / (double)NSEC_PER_SEC);
}

DEFINE_CLEANUP(input_freep, struct input, input_free);
DEFINE_CLEANUP(database_freep, struct database, database_free);

static int convert(const char *trace, const char *output, bool quiet)
{
    struct err err = {0};
    CLEANUP(input_freep) struct input *input = NULL;
    CLEANUP(database_freep) struct database *db = NULL;
    CLEANUP(freep) char *folder = folder_of(output);
    struct trace_result result;
    struct progress progress = {.shown = !quiet && isatty(STDERR_FILENO)};
    nsec_t start = nsec_now(CLOCK_MONOTONIC);
    int r = input_open(trace, folder, goes_on, NULL, &err, &input);
    if (r == 0 && !input_size(input))
        r = err_set(&err, -EINVAL, "%s: empty", trace);
    if (r == 0)
        r = database_create(output, &err, &db);
    if (r == 0)
        r = import_trace(db, input, folder, progress_show, &progress, &err, &result);
    if (progress.next)
        fprintf(stderr, "\r\033[K");
    if (r == 0 && !result.n_packets) {
        err_set(&err, -EBADMSG, "%s: not a Perfetto trace", trace);
        r = err_hint(&err, -EBADMSG, "it does not begin with a packet");
    }
    if (r == 0)
        r = database_finish(db, goes_on, NULL, &err);
    if (r == -ECANCELED)
        err_set(&err, r, "interrupted; nothing was written");
    if (r < 0) {
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    int code = damage_print(trace, input, &result);
    if (!quiet)
        summary_print(output, input, db, &result, nsec_now(CLOCK_MONOTONIC) - start);
    return code;
}

static int run_convert(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *output = NULL;
    bool quiet = false;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "o:qh", options, NULL)) != -1) {
        switch (option) {
        case 'o':
            output = optarg;
            break;
        case 'q':
            quiet = true;
            break;
        case 'h':
            fputs(help, stdout);
            return EXIT_DONE;
        default:
            return usage_error("convert", "%s: not an option, or it lacks its value",
                               argv[optind - 1]);
        }
    }
    if (optind + 1 != argc)
        return usage_error("convert", "one trace is needed, %d given", argc - optind);
    if (!output)
        return usage_error("convert", "-o DB is missing");
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN); // a closed stderr is no reason to leave a temporary file behind
    return convert(argv[optind], output, quiet);
}

const struct verb verb_convert = {
    .name = "convert",
    .arguments = "TRACE -o DB",
    .summary = "convert a trace into an SQLite database",
    .run = run_convert,
};
