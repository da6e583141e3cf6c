// SPDX-License-Identifier: Apache-2.0
//
// mmsql report: a page that shows the events of a trace, or the difference of two traces.
#include <errno.h>
#include <getopt.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/output_file.h"
#include "converter/cli/query.h"
#include "converter/cli/report_tables.h"
#include "converter/cli/say.h"
#include "converter/cli/verb_options.h"
#include "converter/report/report.h"

#define INPUTS_MAX 2

static const char help[] =
    "usage: mmsql report [OPTION]... FILE [FILE] -o REPORT.html\n"
    "\n"
    "Writes one HTML page that shows what happened: the verdict, and below it the\n"
    "memory, its pressure, who reclaimed, processes, page cache and heaps, on one\n"
    "time axis. The page needs no network and no other file. With two FILEs the\n"
    "report compares the first trace of each.\n"
    "\n"
    "FILE is a trace, a database, a bugreport, or another file that 'mmsql convert'\n"
    "reads. The page shows the last eight traces of a file with several. The page of\n"
    "a database of 'mmsql convert --pinlist' also shows how the pinlist did.\n"
    "\n"
    "  -o, --output REPORT  write there; '-', the default, is standard output. A\n"
    "                       terminal gets no page: --text is for it\n"
    "      --text           write text instead: the verdict, and tables\n" QUESTION_HELP
    "  -h, --help           this text\n"
    "\n"
    "Example: mmsql report before.pftrace after.pftrace -o difference.html\n";

struct options {
    const char *output;
    bool text;
    struct limits limits;
};

static void handles_close(sqlite3 *(*handles)[INPUTS_MAX])
{
    for (size_t i = 0; i < INPUTS_MAX; i++)
        sqlite3_close((*handles)[i]);
}

struct page {
    const struct options *options;
    const struct report_input *inputs;
    size_t n;
};

static int page_fill(void *userdata, FILE *out, struct err *err)
{
    const struct page *page = userdata;
    bool compares = page->n > 1;
    int r = !page->options->text ? report_write(page->inputs, page->n, compares, out, err)
            : compares           ? report_text_compare(page->inputs, out, err)
                                 : report_text_print(page->inputs, page->n, out, err);
    if (r == -ENOENT && !compares) // without a trace
        question_no_trace(page->inputs[0].name, err);
    return r;
}

static int report_run(const struct options *options, char **paths, size_t n)
{
    CLEANUP(trace_cache_done) struct trace_cache cache = {0};
    CLEANUP(handles_close) sqlite3 *handles[INPUTS_MAX] = {0};
    struct report_input inputs[INPUTS_MAX] = {0};
    bool is_cut = false;
    if (!questions_sandbox((const char *const *)paths, n, options->output, &options->limits,
                           &cache))
        return EXIT_FAILED;
    for (size_t i = 0; i < n; i++) {
        bool this_is_cut;
        if (question_open(paths[i], &options->limits, &cache, &handles[i], &this_is_cut) !=
            SQLITE_OK)
            return EXIT_FAILED;
        is_cut |= this_is_cut;
        inputs[i] = (struct report_input){.name = paths[i], .handle = handles[i]};
    }
    struct page page = {.options = options, .inputs = inputs, .n = n};
    int code = output_file_write(options->output, page_fill, &page);
    return is_cut ? EXIT_FAILED : code;
}

static int run_report(int argc, char **argv)
{
    static const struct verb_option rows[] = {
        {"output", OPTION_TEXT, offsetof(struct options, output), 'o'},
        {"text", OPTION_FLAG, offsetof(struct options, text)},
        QUESTION_OPTIONS(struct options),
        {0},
    };
    struct options options = {0};
    int code;
    if (!verb_options_read("report", help, rows, argc, argv, &options, &code))
        return code;
    size_t n = (size_t)(argc - optind);
    if (n < 1 || n > INPUTS_MAX)
        return usage_error("report", "one trace or database is needed, or two to compare");
    if (n == 2 && str_eq(argv[optind], "-") && str_eq(argv[optind + 1], "-"))
        return usage_error("report", "standard input can be read once only: '-' is there twice");
    if (!options.text && (!options.output || str_eq(options.output, "-")) && isatty(STDOUT_FILENO))
        return usage_error("report", "a terminal cannot show a page: -o FILE is needed, or --text");
    return report_run(&options, argv + optind, n);
}

const struct program_verb verb_report = {
    .name = "report",
    .arguments = "FILE [FILE] -o REPORT.html",
    .summary = "show what happened on one HTML page, or compare two traces",
    .run = run_report,
};
