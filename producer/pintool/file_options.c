// SPDX-License-Identifier: Apache-2.0
//
// Options that contradict each other are refused before anything is done: Android's tool ignored
// unknown options, and wrote unwanted lists.
#include "producer/pintool/file_options.h"

#include <errno.h>
#include <stdio.h>

#include "common/pinlist.h"
#include "common/str.h"
#include "producer/pintool/pintool.h"

#define WATCH_MIN (10 * NSEC_PER_MSEC)

static int take_quota(void *userdata, const struct cli_option *option, const char *value,
                      struct err *err)
{
    uint64_t *quota = &((struct file_options *)userdata)->quota_bytes;
    (void)option;
    *quota = PINLIST_NO_QUOTA;
    if (!str_eq(value, "-1") && str_parse_size(value, quota) < 0) // -1: as in Android's tool
        return err_set(err, -EINVAL, "--quota %s: not a number of bytes", value);
    if (*quota == 0)
        *quota = PINLIST_NO_QUOTA;
    return 0;
}

static int take_path(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct file_options *options = userdata;
    (void)option;
    return path_list_push(&options->paths, value) < 0 ? err_errno(err, -ENOMEM, "paths") : 0;
}

#define SETS(member) CLI_SETS(struct file_options, member)

static const struct cli_option options_table[] = {
    {.help = "What pintool looks at:"},
    {0, "gen-probe", NULL, "the pages that are in memory now", SETS(gen_probe)},
    {0, "zip", NULL, "each entry of a zip (an APK)", SETS(zip)},
    {0, "use-probe", "PINLIST",
     "with --zip: take the pages from PINLIST, not from memory; an APK stands for the list inside",
     SETS(use_probe)},
    {0, "pinconfig", "FILE",
     "with --zip: only the ranges of a pinconfig.txt; without a probe, all pages of these ranges",
     SETS(pinconfig)},
    {0, "pid", "PID", "the files that a process maps", SETS(pid), .min = 1, .max = INT32_MAX,
     .like = "the id of a process"},
    {0, "watch", "SECONDS",
     "look every SECONDS and print the pages that came and went, until Ctrl-C", SETS(watch),
     .min = WATCH_MIN, .like = "at least 10ms"},
    {0, "times", "N", "with --watch: end after N looks", SETS(watch_times), .min = 1},
    {.help = "What pintool prints:"},
    {0, "dump", NULL,
     "the ranges of zip entries, and of the files that directories or --pid lead to", SETS(dump)},
    {0, "json", NULL, "everything, as JSON", SETS(json)},
    {0, "map", NULL,
     "one line for each file (or entry) with its densities: . nothing, : + * something, # all",
     SETS(map)},
    {0, "svg", "FILE", "the densities of --map as a picture", SETS(svg)},
    {.help = "What pintool writes:"},
    {'o', NULL, "FILE",
     "a pinlist.meta of the pages found; an empty list does not replace another list",
     SETS(output)},
    {0, "allow-empty", NULL, "with -o: let an empty list replace another one", SETS(allow_empty)},
    {0, "quota", "BYTES", "with -o: at most BYTES, as in 40MB; the last range is cut",
     .take = take_quota},
    {0, "emit-pinconfig", "FILE",
     "with --zip: a pinconfig.txt of the pages found, relative to the entries, for later builds of "
     "the zip",
     SETS(emit_pinconfig)},
    {.help = "Others:"},
    {'v', NULL, NULL, "say what pintool does", SETS(verbose)},
    {0},
};

static int check(void *userdata, struct err *err)
{
    const struct file_options *o = userdata;
    bool one_file = o->paths.n == 1 && !o->pid, names_stream = false;
    bool looks = o->gen_probe || o->zip || o->pid || o->watch || o->json || o->map || o->svg;
    vec_foreach(&o->paths, path)
        names_stream |= path_is_stream(*path);
    const struct cli_rule rules[] = {
        {!o->paths.n && !o->pid, "no file given"},
        {o->paths.n && o->pid, "--pid finds its files itself"},
        {o->gen_probe && o->use_probe, "either --gen-probe or --use-probe"},
        {o->use_probe && !o->zip, "--use-probe is for zips, with --zip"},
        {o->pinconfig && !o->zip, "--pinconfig is for zips, with --zip"},
        {o->pid && o->zip, "either --pid or --zip"},
        {o->json && o->map, "either --json or --map"},
        {o->watch_times && !o->watch, "--times is for --watch"},
        {o->watch && (o->output || o->emit_pinconfig || o->map || o->svg || o->use_probe ||
                      o->pinconfig || o->dump),
         "--watch goes with --zip, --pid, --json and -v only"},
        {!looks, "a file that is not a zip needs --gen-probe"},
        {o->output && !one_file, "-o writes the pinlist of one file"},
        {o->allow_empty && !o->output, "--allow-empty is for -o"},
        {o->emit_pinconfig && (!one_file || !o->zip),
         "--emit-pinconfig is for one zip, with --zip"},
        {o->emit_pinconfig && !o->gen_probe && !o->use_probe,
         "--emit-pinconfig takes --gen-probe or --use-probe"},
        {names_stream, "\"-\": standard input has no pages of its own: name the file; ./- is the "
                       "file called -"},
        {path_is_stream(o->use_probe) && path_is_stream(o->pinconfig),
         "standard input can be read once only: '-' is there twice"},
        {path_is_stream(o->output) + path_is_stream(o->svg) + path_is_stream(o->emit_pinconfig) > 1,
         "standard output can take one file only: '-' is there twice"},
        {0},
    };
    return cli_check(rules, err);
}

const struct cli_command file_command = {
    .program = PINTOOL,
    .verb = "file",
    .is_mode = true,
    .usage = "usage: pintool file FILE... --gen-probe [OPTION...]\n"
             "       pintool file APP.apk --zip [--gen-probe] [--pinconfig FILE] [-o PINLIST]\n"
             "                    [OPTION...]\n"
             "       pintool file --pid PID [OPTION...]\n"
             "\n"
             "Shows which pages of files are in memory. A directory stands for the files\n"
             "below. '-' is standard input for a PINLIST or a pinconfig, and standard output\n"
             "for the files that pintool writes.\n",
    .more = "\n"
            "Examples:\n"
            "  pintool file /usr/lib/x86_64-linux-gnu/libc.so.6 --gen-probe --map\n"
            "  pintool file APP.apk --zip --gen-probe --dump -o pinlist.meta\n",
    .options = options_table,
    .operand = take_path,
    .check = check,
};

int file_options_parse(int argc, char **argv, struct file_options *ret, struct err *err)
{
    *ret = (struct file_options){.quota_bytes = PINLIST_NO_QUOTA};
    int r = cli_command_parse(&file_command, argc, argv, ret, err);
    // Without a zip, or with --watch, the probe reads the page cache.
    if (r == 0 && (!ret->zip || ret->watch))
        ret->gen_probe = true;
    return r;
}

void file_options_done(struct file_options *options)
{
    path_list_done(&options->paths);
}
