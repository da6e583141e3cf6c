// SPDX-License-Identifier: Apache-2.0
//
// Options that contradict each other are refused before anything is done: Android's tool ignored
// unknown options, and wrote lists that nobody wanted.
#include "producer/pintool/file_options.h"

#include <errno.h>
#include <stdio.h>

#include "common/pinlist.h"
#include "common/str.h"
#include "producer/ground/options.h"

enum {
    OPTION_HEADING = 1,
    OPTION_GEN_PROBE,
    OPTION_USE_PROBE,
    OPTION_ZIP,
    OPTION_PINCONFIG,
    OPTION_PID,
    OPTION_DUMP,
    OPTION_JSON,
    OPTION_MAP,
    OPTION_SVG,
    OPTION_OUTPUT,
    OPTION_QUOTA,
    OPTION_ALLOW_EMPTY,
    OPTION_EMIT_PINCONFIG,
    OPTION_WATCH,
    OPTION_TIMES,
    OPTION_VERBOSE,
    OPTION_HELP,
};

#define WATCH_MIN (10 * NSEC_PER_MSEC)

static const struct cli_option options_table[] = {
    {OPTION_HEADING, 0, NULL, NULL, "What pintool looks at:"},
    {OPTION_GEN_PROBE, 0, "gen-probe", NULL, "the pages that are in memory now"},
    {OPTION_ZIP, 0, "zip", NULL, "each entry of a zip (an APK)"},
    {OPTION_USE_PROBE, 0, "use-probe", "PINLIST",
     "with --zip: an older probe instead of a new one; an APK\ngives the list that is inside"},
    {OPTION_PINCONFIG, 0, "pinconfig", "FILE",
     "with --zip: only the ranges of a pinconfig.txt; without\na probe, all of them"},
    {OPTION_PID, 0, "pid", "PID", "the files that a process maps"},
    {OPTION_WATCH, 0, "watch", "SECONDS",
     "look every SECONDS and print the pages that came and\nwent, until Ctrl-C"},
    {OPTION_TIMES, 0, "times", "N", "with --watch: end after N looks"},
    {OPTION_HEADING, 0, NULL, NULL, "What pintool prints:"},
    {OPTION_DUMP, 0, "dump", NULL,
     "the ranges of zip entries, and of the files that\ndirectories or --pid lead to"},
    {OPTION_JSON, 0, "json", NULL, "everything, as JSON"},
    {OPTION_MAP, 0, "map", NULL,
     "one line for each file (or entry) with its densities:\n"
     ". nothing, : + * something, # all"},
    {OPTION_SVG, 0, "svg", "FILE", "the same as a picture"},
    {OPTION_HEADING, 0, NULL, NULL, "What pintool writes:"},
    {OPTION_OUTPUT, 'o', NULL, "FILE",
     "a pinlist.meta of the pages found; an empty list\nreplaces no other one"},
    {OPTION_ALLOW_EMPTY, 0, "allow-empty", NULL, "with -o: let an empty list replace another one"},
    {OPTION_QUOTA, 0, "quota", "BYTES",
     "with -o: at most BYTES, as in 40MB; the last range is\ncut"},
    {OPTION_EMIT_PINCONFIG, 0, "emit-pinconfig", "FILE",
     "with --zip: a pinconfig.txt of the pages found, relative\nto the entries, for later builds "
     "of "
     "the zip"},
    {OPTION_HEADING, 0, NULL, NULL, "Others:"},
    {OPTION_VERBOSE, 'v', NULL, NULL, "say what pintool does"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

void file_options_help(void)
{
    printf("usage: pintool file FILE... --gen-probe [OPTION...]\n"
           "       pintool file APP.apk --zip [--gen-probe] [--pinconfig FILE] [-o PINLIST]\n"
           "                    [OPTION...]\n"
           "       pintool file --pid PID [OPTION...]\n"
           "\n"
           "Shows which pages of files are in memory. A directory stands for the files\n"
           "below. '-' is standard input for a PINLIST or a pinconfig, and standard output\n"
           "for the files that pintool writes.\n");
    cli_options_print(options_table, stdout);
}

static int set_quota(struct file_options *options, const char *value, struct err *err)
{
    options->quota_bytes = PINLIST_NO_QUOTA;
    if (str_eq(value, "-1")) // no limit, as in Android's tool
        return 0;
    int r = str_parse_size(value, &options->quota_bytes);
    if (r < 0)
        return err_set(err, -EINVAL, "--quota %s: not a number of bytes", value);
    if (options->quota_bytes == 0)
        options->quota_bytes = PINLIST_NO_QUOTA;
    return 0;
}

static int set_pid(struct file_options *options, const char *value, struct err *err)
{
    uint32_t pid;
    if (str_parse_u32(value, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return err_set(err, -EINVAL, "--pid %s: no process id", value);
    options->pid = (int32_t)pid;
    return 0;
}

static int set_watch(struct file_options *options, const char *value, struct err *err)
{
    if (str_parse_duration(value, &options->watch) < 0 || options->watch < WATCH_MIN)
        return err_set(err, -EINVAL, "--watch %s: not a time of at least 10 ms", value);
    return 0;
}

static int set_times(struct file_options *options, const char *value, struct err *err)
{
    if (str_parse_u64(value, &options->watch_times) < 0 || options->watch_times == 0)
        return err_set(err, -EINVAL, "--times %s: not a number of looks", value);
    return 0;
}

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct file_options *options = userdata;
    switch (id) {
    case 0:
        return path_list_push(&options->paths, value) < 0 ? err_errno(err, -ENOMEM, "paths") : 0;
    case OPTION_GEN_PROBE:
        options->gen_probe = true;
        break;
    case OPTION_USE_PROBE:
        options->use_probe = value;
        break;
    case OPTION_ZIP:
        options->zip = true;
        break;
    case OPTION_PINCONFIG:
        options->pinconfig = value;
        break;
    case OPTION_PID:
        return set_pid(options, value, err);
    case OPTION_DUMP:
        options->dump = true;
        break;
    case OPTION_JSON:
        options->json = true;
        break;
    case OPTION_MAP:
        options->map = true;
        break;
    case OPTION_SVG:
        options->svg = value;
        break;
    case OPTION_OUTPUT:
        options->output = value;
        break;
    case OPTION_ALLOW_EMPTY:
        options->allow_empty = true;
        break;
    case OPTION_EMIT_PINCONFIG:
        options->emit_pinconfig = value;
        break;
    case OPTION_QUOTA:
        return set_quota(options, value, err);
    case OPTION_WATCH:
        return set_watch(options, value, err);
    case OPTION_TIMES:
        return set_times(options, value, err);
    case OPTION_VERBOSE:
        options->verbose = true;
        break;
    case OPTION_HELP:
        options->help = true;
        break;
    }
    return 0;
}

static bool is_stream(const char *path)
{
    return path && str_eq(path, "-");
}

// Returns what is wrong with "-" among the names, or NULL.
static const char *stream_conflict(const struct file_options *o)
{
    vec_foreach(&o->paths, path)
        if (is_stream(*path))
            return "\"-\": standard input has no pages of its own: name the file; ./- is one of "
                   "this name";
    if (is_stream(o->use_probe) && is_stream(o->pinconfig))
        return "standard input can be read once only: '-' is there twice";
    if (is_stream(o->output) + is_stream(o->svg) + is_stream(o->emit_pinconfig) > 1)
        return "standard output can take one file only: '-' is there twice";
    return NULL;
}

static const char *output_conflict(const struct file_options *o)
{
    bool one_file = o->paths.n == 1 && !o->pid;
    if (o->output && !one_file)
        return "-o writes the pinlist of one file";
    if (o->allow_empty && !o->output)
        return "--allow-empty is for -o";
    if (!o->emit_pinconfig)
        return NULL;
    if (!one_file || !o->zip)
        return "--emit-pinconfig is for one zip, with --zip";
    if (!o->gen_probe && !o->use_probe)
        return "--emit-pinconfig takes --gen-probe or --use-probe";
    return NULL;
}

static const char *conflict(const struct file_options *o)
{
    if (!o->paths.n && !o->pid)
        return "no file given";
    if (o->paths.n && o->pid)
        return "--pid finds its files itself";
    if (o->gen_probe && o->use_probe)
        return "either --gen-probe or --use-probe";
    if (o->use_probe && !o->zip)
        return "--use-probe is for zips, with --zip";
    if (o->pinconfig && !o->zip)
        return "--pinconfig is for zips, with --zip";
    if (o->pid && o->zip)
        return "either --pid or --zip";
    if (o->json && o->map)
        return "either --json or --map";
    if (o->watch_times && !o->watch)
        return "--times is for --watch";
    if (o->watch && (o->output || o->emit_pinconfig || o->map || o->svg || o->use_probe ||
                     o->pinconfig || o->dump))
        return "--watch goes with --zip, --pid, --json and -v only";
    bool looks = o->gen_probe || o->zip || o->pid || o->watch || o->json || o->map || o->svg;
    return looks ? NULL : "a file that is not a zip needs --gen-probe";
}

int file_options_parse(int argc, char **argv, struct file_options *ret, struct err *err)
{
    *ret = (struct file_options){.quota_bytes = PINLIST_NO_QUOTA};
    int r = cli_options_parse(options_table, argc, argv, take, ret, err);
    if (ret->help)
        return 0;
    const char *problem = r == 0 ? conflict(ret) : NULL;
    if (r == 0 && !problem)
        problem = output_conflict(ret);
    if (r == 0 && !problem)
        problem = stream_conflict(ret);
    if (problem)
        r = err_set(err, -EINVAL, "%s", problem);
    if (r < 0 && !err->hint[0])
        err_hint(err, r, "see pintool file --help");
    // Without a zip, or with --watch, the probe reads the page cache.
    if (r == 0 && (!ret->zip || ret->watch))
        ret->gen_probe = true;
    return r;
}

void file_options_done(struct file_options *options)
{
    path_list_done(&options->paths);
}
