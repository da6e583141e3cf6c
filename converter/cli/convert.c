// SPDX-License-Identifier: Apache-2.0
//
// mmsql convert: converts traces into a database.
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/err.h"
#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/cli/conversion.h"
#include "converter/cli/interrupts.h"
#include "converter/cli/own_sandbox.h"
#include "converter/cli/say.h"
#include "converter/cli/streams.h"
#include "converter/cli/verb_options.h"
#include "converter/perfetto_sql/packages.h"
#include "converter/perfetto_sql/stored_modules.h"
#include "converter/symbols/symbolize.h"

static const char help[] =
    "usage: mmsql convert FILE... -o DB\n"
    "\n"
    "Converts Perfetto traces into an SQLite database with Perfetto's tables: slice,\n"
    "counter, thread, process, ftrace_event, args and others ('mmsql tables' lists\n"
    "them). Any SQLite program can open the database.\n"
    "\n"
    "FILE is a trace, or '-' for standard input. mmsql recognises by their content:\n"
    "packed files (gzip, zstd, xz), archives and bugreports (zip, tar), protobuf\n"
    "text, Chrome's JSON, ftrace text, systrace, perf.data, text of perf,\n"
    "simpleperf's reports, perf maps, allocation logs, pinlists, pinconfigs and files\n"
    "of /proc. mmsql replaces DB only if mmsql made DB. If the conversion fails, the\n"
    "old database stays as it was.\n"
    "\n"
    "  -o, --output DB           the database to write; '-' is standard output\n"
    "  -a, --append              add to DB; leave out files that are in DB already\n"
    "      --merge-clocks        bring all traces onto the clock of the first trace\n"
    "      --perf-map FILE       names of code made at run time; FILE is perf-PID.map\n"
    "      --pinlist FILE[=TARGET]\n"
    "                            pinned ranges (pinlist.meta) of the file TARGET\n"
    "      --pinconfig FILE      files and ranges to pin (pinconfig.txt)\n"
    "      --alloc-log FILE      log of Java allocations (tiallocsample)\n"
    "      --tables NAME[,NAME...]\n"
    "                            fill only these tables and views, and the tables\n"
    "                            about the trace as a whole; the others are empty\n"
    "      --no-args             no rows of args, of kernel events and all others\n"
    "      --no-ftrace           no rows of kernel events; keep the slices, counters\n"
    "                            and states that follow from the events\n"
    "      --no-sched            no sched_slice, thread_state, spurious wake-ups\n"
    "      --crop-track-events   leave out track events before the range of interest\n"
    "                            that a trace names\n"
    "      --symbols             names and source lines of frames, from files with\n"
    "                            the same build id (/usr/lib/debug, or in place)\n"
    "      --symbol-path DIR     as --symbols, plus files in DIR; may be repeated\n"
    "      --include MODULE,...  add the tables and views of modules of the SQL\n"
    "                            library, as tables; PACKAGE.* is all of a package\n"
    "      --compat              give trace_processor's values in the columns that\n"
    "                            differ from it on purpose (see docs/tables.md)\n"
    "      --max-memory SIZE     limit of memory; default: half of what is available\n"
    "      --max-output SIZE     limit of database and temporary files; default: the\n"
    "                            free room\n"
    "  -q, --quiet               no progress, no summary, no verdict, no losses\n"
    "  -h, --help                this text\n"
    "\n"
    "Examples:\n"
    "  mmsql convert trace.pftrace -o trace.db\n"
    "  mmsql convert report.zip -o report.db\n"
    "\n"
    "The table 'trace' lists the traces; machine_id and trace_id distinguish their\n"
    "rows. If a file is damaged, mmsql converts everything that can be read, prints\n"
    "the place of the damage, and ends with exit code 1.\n";

static void conversion_done(struct conversion *conversion)
{
    conversion_files_done(&conversion->files);
    path_vec_done(&conversion->symbols);
    path_vec_done(&conversion->modules);
}

static int no_memory(void)
{
    say("out of memory");
    return EXIT_FAILED;
}

// Splits FILE=TARGET in place. Returns 0 or -ENOMEM.
static int file_add(struct conversion *conversion, char *path, const char *option)
{
    struct conversion_file file = {
        .path = path,
        .format = option ? file_format_of_option(option) : NULL,
    };
    char *equals = option && str_eq(option, "pinlist") ? strchr(path, '=') : NULL;
    if (equals) {
        *equals = '\0';
        file.argument = equals + 1;
    }
    return conversion_files_push(&conversion->files, file);
}

struct convert_options {
    struct conversion conversion;
    bool no_args, no_ftrace, no_sched;
};

static int take_file(void *to, const struct verb_option *option, char *text, int argc, char **argv)
{
    (void)argc, (void)argv;
    return file_add(to, text, option->name) < 0 ? no_memory() : 0;
}

static int take_tables(void *to, const struct verb_option *option, char *text, int argc,
                       char **argv)
{
    (void)option, (void)argc, (void)argv;
    struct err err = {0};
    if (selection_keep(&((struct conversion *)to)->selection, text, &err) == 0)
        return 0;
    err_print(&err, "mmsql");
    return EXIT_USAGE;
}

// Splits the list in place.
static int take_modules(void *to, const struct verb_option *option, char *text, int argc,
                        char **argv)
{
    (void)option, (void)argc, (void)argv;
    struct conversion *conversion = to;
    char *rest = text;
    for (char *name; (name = strsep(&rest, ", "));)
        if (*name && path_vec_push(&conversion->modules, name) < 0)
            return no_memory();
    return 0;
}

static int take_symbol_path(void *to, const struct verb_option *option, char *text, int argc,
                            char **argv)
{
    (void)option, (void)argc, (void)argv;
    struct conversion *conversion = to;
    conversion->symbolize = true;
    return path_vec_push(&conversion->symbols, text) < 0 ? no_memory() : 0;
}

#define AT(member) offsetof(struct convert_options, member)

// Reads the options. Returns false if the program must return *ret_code.
static bool options_read(int argc, char **argv, struct conversion *conversion, int *ret_code)
{
    static const struct verb_option rows[] = {
        {"output", OPTION_TEXT, AT(conversion.output), 'o'},
        {"append", OPTION_FLAG, AT(conversion.append), 'a'},
        {"merge-clocks", OPTION_FLAG, AT(conversion.merge_clocks)},
        {"tables", OPTION_OWN, .take = take_tables},
        {"no-args", OPTION_FLAG, AT(no_args)},
        {"no-ftrace", OPTION_FLAG, AT(no_ftrace)},
        {"no-sched", OPTION_FLAG, AT(no_sched)},
        {"crop-track-events", OPTION_FLAG, AT(conversion.selection.crops_track_events)},
        {"perf-map", OPTION_OWN, .take = take_file},
        {"pinlist", OPTION_OWN, .take = take_file},
        {"pinconfig", OPTION_OWN, .take = take_file},
        {"alloc-log", OPTION_OWN, .take = take_file},
        {"include", OPTION_OWN, .take = take_modules},
        {"compat", OPTION_FLAG, AT(conversion.compat)},
        {"symbols", OPTION_FLAG, AT(conversion.symbolize)},
        {"symbol-path", OPTION_OWN, .take = take_symbol_path},
        {"quiet", OPTION_FLAG, AT(conversion.quiet), 'q'},
        LIMIT_OPTIONS(struct conversion),
        {0},
    };
    struct convert_options options = {.conversion = *conversion};
    bool good = verb_options_read("convert", help, rows, argc, argv, &options, ret_code);
    *conversion = options.conversion;
    if (!good)
        return false;
    if (options.no_args)
        selection_drop_args(&conversion->selection);
    if (options.no_ftrace)
        selection_drop_ftrace(&conversion->selection);
    if (options.no_sched)
        selection_drop_sched(&conversion->selection);
    for (int i = optind; i < argc; i++)
        if (file_add(conversion, argv[i], NULL) < 0) {
            *ret_code = no_memory();
            return false;
        }
    if (!conversion->files.n)
        *ret_code = usage_error("convert", "a trace is needed");
    else if (!conversion->output)
        *ret_code = usage_error("convert", "-o DB is missing");
    return conversion->files.n && conversion->output;
}

// Returns an error text if uses of "-" conflict, or NULL.
static const char *stream_conflict(const struct conversion *conversion)
{
    size_t n = 0;
    vec_foreach(&conversion->files, file)
        n += str_eq(file->path, "-");
    if (n > 1)
        return "standard input can be read once only: '-' is there several times";
    if (!str_eq(conversion->output, "-"))
        return NULL;
    if (conversion->append)
        return "--append needs a file: standard output has no database to add to";
    if (isatty(STDOUT_FILENO))
        return "a terminal cannot show a database: redirect standard output, or name a file";
    return NULL;
}

static int convert(struct conversion *conversion, struct conversion_result *ret, struct err *err)
{
    CLEANUP(stream_file_done) struct stream_file stream = {0};
    if (!str_eq(conversion->output, "-"))
        return conversion_run(conversion, ret, err);
    int r = stream_file_make(&stream, err);
    if (r < 0)
        return r;
    conversion->output = stream.file;
    conversion->shown = "standard output";
    r = conversion_run(conversion, ret, err);
    return r < 0 ? r : stream_file_pour(&stream, err);
}

// Resolves symbolic links, so that the conversion replaces the target and not the link. Refuses a
// file that is not regular, because root would replace a device.
static int output_resolve(struct conversion *conversion, struct output_place *ret, struct err *err)
{
    struct stat st;
    if (str_eq(conversion->output, "-"))
        return 0;
    int r = output_place_find(conversion->output, true, ret, err);
    if (r < 0)
        return r;
    if (stat(ret->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        err_set(err, -EINVAL, "%s: not a regular file", conversion->output);
        return err_hint(err, -EINVAL, "'-o -' writes to standard output");
    }
    conversion->shown = conversion->output;
    conversion->output = ret->path;
    return 0;
}

// Enters the sandbox. With --symbols, the paths of read files come from the trace, so any file may
// be read.
static bool sandbox_enter(const struct conversion *conversion)
{
    struct own_sandbox sandbox = {.reads_all = conversion->symbolize};
    vec_foreach(&conversion->files, file)
        own_sandbox_input(&sandbox, file->path);
    own_sandbox_output(&sandbox, conversion->output);
    return own_sandbox_enter(&sandbox);
}

// Checks the modules before the work begins.
static int modules_read(struct conversion *conversion, struct sql_packages *packages,
                        struct err *err)
{
    if (!conversion->modules.n)
        return 0;
    conversion->packages = packages;
    int r = packages_add_library(packages);
    return r < 0 ? err_errno(err, r, "--include")
                 : modules_check(packages, conversion->modules.items, conversion->modules.n, err);
}

static int run_convert(int argc, char **argv)
{
    CLEANUP(conversion_done) struct conversion conversion = {.goes_on = interrupts_none};
    struct err err = {0};
    struct conversion_result result = {0};
    int code;
    if (!options_read(argc, argv, &conversion, &code))
        return code;
    const char *conflict = stream_conflict(&conversion);
    if (conflict)
        return usage_error("convert", "%s", conflict);
    if (conversion.symbolize && !symbolize_is_built_in()) {
        say("this mmsql is built without libdw and cannot read symbols (leave out --symbols and "
            "--symbol-path)");
        return EXIT_FAILED;
    }
    CLEANUP(packages_done) struct sql_packages packages = {0};
    CLEANUP(output_place_done) struct output_place place = {.end = PATH_END_INIT};
    if (modules_read(&conversion, &packages, &err) < 0 ||
        output_resolve(&conversion, &place, &err) < 0) {
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    if (!sandbox_enter(&conversion))
        return EXIT_FAILED;
    interrupts_note();
    signal(SIGPIPE, SIG_IGN); // a closed stderr must not leave a temporary file behind
    if (convert(&conversion, &result, &err) < 0) {
        if (place.path)
            output_place_error(&place, -1, &err);
        err_print(&err, "mmsql");
        return EXIT_FAILED;
    }
    return result.is_partial ? EXIT_FAILED : EXIT_DONE;
}

const struct program_verb verb_convert = {
    .name = "convert",
    .arguments = "FILE... -o DB",
    .summary = "convert traces, and other files, into an SQLite database",
    .run = run_convert,
};
