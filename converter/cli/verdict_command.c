// SPDX-License-Identifier: Apache-2.0
//
// mmsql verdict: prints the events of a trace in a few sentences.
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/confine.h"
#include "converter/cli/own_sandbox.h"
#include "converter/cli/query.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/cli/verdict_print.h"
#include "converter/verdict/verdict.h"

static const char help[] =
    "usage: mmsql verdict FILE...\n"
    "\n"
    "Prints at most five sentences for each trace, the most important first: which\n"
    "process was killed because memory ran out, what the trace lacks, when memory\n"
    "was short, which process waited most, which process grew, and how much was\n"
    "evicted and came back. Times are seconds from the start of the trace, with UTC\n"
    "if the trace has the real time. The table verdict of a database has the same\n"
    "sentences.\n"
    "\n"
    "FILE is a trace, a database, a bugreport, or another file that 'mmsql convert'\n"
    "reads; '-' is standard input.\n"
    "\n"
    "      --confined    give up root's rights and limit memory and time before\n"
    "                    reading\n"
    "      --no-cache    convert the trace anew, and keep nothing of it\n"
    "  -q, --quiet       print nothing for a trace without memory pressure\n"
    "  -h, --help        this text\n"
    "\n"
    "Example: mmsql verdict mm.pftrace\n"
    "\n"
    "Exit code: 0 the verdict is printed, also for a damaged trace; 1 a file\n"
    "could not be read, or has no trace; 2 wrong usage.\n";

static int verdict_run(const char *path, const struct trace_cache *cache, bool named, bool quiet)
{
    CLEANUP(question_closep) sqlite3 *handle = NULL;
    CLEANUP(verdicts_done) struct verdict_vec verdicts = {0};
    struct err err = {0};
    const struct limits defaults = {0};
    bool is_cut;
    if (question_open(path, &defaults, cache, &handle, &is_cut) != SQLITE_OK)
        return EXIT_FAILED;
    if (verdict_make(handle, 0, &verdicts, &err) < 0) {
        err_prefix(&err, 0, "%s", path);
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    if (!verdicts.n) {
        err_set(&err, -ENOENT, "%s: there is no trace in it", path);
        question_no_trace(path, &err);
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    bool one = named && verdicts.n == 1;
    char name[PATH_MAX];
    if (one)
        printf("%s:\n", str_printable(name, sizeof(name), path, strlen(path)));
    verdicts_print(stdout, &verdicts, one ? "  " : "", quiet ? VERDICT_WITHOUT_EMPTY : 0);
    return EXIT_DONE;
}

static int run_verdict(int argc, char **argv)
{
    struct options {
        bool confined, quiet, no_cache;
    } options = {0};
    static const struct verb_option rows[] = {
        {"confined", OPTION_FLAG, offsetof(struct options, confined)},
        {"no-cache", OPTION_FLAG, offsetof(struct options, no_cache)},
        {"quiet", OPTION_FLAG, offsetof(struct options, quiet), 'q'},
        {0},
    };
    struct err err = {0};
    int code = EXIT_DONE;
    if (!verb_options_read("verdict", help, rows, argc, argv, &options, &code))
        return code;
    if (optind == argc)
        return usage_error("verdict", "a trace, a database or a bugreport is needed");
    if (options.confined && confine(&err) < 0) {
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    const struct limits defaults = {.no_cache = options.confined || options.no_cache};
    struct own_sandbox sandbox = {.bounds_data = true};
    for (int i = optind; i < argc; i++) {
        own_sandbox_input(&sandbox, argv[i]);
        question_expect(argv[i], &defaults, &cache);
    }
    own_sandbox_cache(&sandbox, &cache);
    if (!own_sandbox_enter(&sandbox))
        return EXIT_FAILED;
    for (int i = optind; i < argc; i++)
        if (verdict_run(argv[i], &cache, argc - optind > 1, options.quiet) != EXIT_DONE)
            code = EXIT_FAILED;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    say("standard output: %s", strerror(errno));
    return EXIT_FAILED;
}

const struct program_verb verb_verdict = {
    .name = "verdict",
    .arguments = "FILE...",
    .summary = "say in a few sentences what happened in a trace",
    .run = run_verdict,
};
