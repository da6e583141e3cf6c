// SPDX-License-Identifier: Apache-2.0
//
// `pintool pinlist`. Prints the lines that scripts for Android's tool read: `start=N bytes=N` for a
// range and `total_bytes_to_pin=N` for a summary, each under a heading.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "producer/ground/options.h"
#include "producer/pintool/json.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/pintool.h"

struct command_line {
    const char *path;
    bool dump, summary, json, verbose;
};

#define SETS(member) CLI_SETS(struct command_line, member)

static const struct cli_option options[] = {
    {0, "dump", NULL, "print the ranges; the default", SETS(dump)},
    {0, "summary", NULL, "print how many bytes the list names in all", SETS(summary)},
    {0, "json", NULL, "print both, as JSON", SETS(json)},
    {'v', NULL, NULL, "say what pintool does", SETS(verbose)},
    {0},
};

static int take_path(void *userdata, const struct cli_option *option, const char *value,
                     struct err *err)
{
    struct command_line *line = userdata;
    (void)option;
    if (line->path)
        return err_set(err, -EINVAL, "\"%s\": a pinlist is given already", value);
    line->path = value;
    return 0;
}

static int check(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    return line->path ? 0 : err_set(err, -EINVAL, "no pinlist given");
}

static void print_text(const struct command_line *line, const struct pinlist *list)
{
    if (line->dump || !line->summary) {
        puts("--pinlist memory ranges--");
        vec_foreach(list, range)
            printf("start=%" PRIu32 " bytes=%" PRIu32 "\n", range->offset, range->length);
    }
    if (line->summary)
        printf("--pinlist summary--\ntotal_bytes_to_pin=%" PRIu64 "\n", pinlist_total_bytes(list));
}

static int run(void *userdata, struct err *err)
{
    const struct command_line *line = userdata;
    CLEANUP(pinlist_done) struct pinlist list = {0};
    if (line->verbose && !line->json)
        printf("Setting file to dump: %s\n", line->path);
    int r = pinlist_file_read(line->path, &list, NULL, err);
    if (r < 0)
        return r;
    if (line->json)
        json_pinlist(&(struct json){.out = stdout}, NULL, line->path, &list);
    else
        print_text(line, &list);
    return pintool_close_stdout();
}

static const struct cli_command command = {
    .program = PINTOOL,
    .verb = "pinlist",
    .is_mode = true,
    .usage = "usage: pintool pinlist PINLIST [OPTION...]\n"
             "       pintool pinlist APP.apk [OPTION...]\n"
             "\n"
             "Shows what a pinlist names. An APK has its list inside, as assets/pinlist.meta;\n"
             "'-' reads the list from standard input.\n"
             "\n",
    .more = "\nExample: pintool pinlist pinlist.meta --json\n",
    .options = options,
    .operand = take_path,
    .check = check,
    .run = run,
};

int pintool_pinlist(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, &(struct command_line){0});
}
