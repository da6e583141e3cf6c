// SPDX-License-Identifier: Apache-2.0
//
// `pintool pinlist`. Its lines are those that scripts for Android's tool read: `start=N bytes=N`
// for a range and `total_bytes_to_pin=N` for a summary, each under a heading.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "producer/ground/options.h"
#include "producer/pintool/json.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/pintool.h"

enum {
    OPTION_DUMP = 1,
    OPTION_SUMMARY,
    OPTION_JSON,
    OPTION_VERBOSE,
    OPTION_HELP,
};

static const struct cli_option options[] = {
    {OPTION_DUMP, 0, "dump", NULL, "print the ranges; the default"},
    {OPTION_SUMMARY, 0, "summary", NULL, "print how many bytes the list names in all"},
    {OPTION_JSON, 0, "json", NULL, "print both, as JSON"},
    {OPTION_VERBOSE, 'v', NULL, NULL, "say what pintool does"},
    {OPTION_HELP, 'h', "help", NULL, "this text"},
    {0},
};

struct command_line {
    const char *path;
    bool dump, summary, json, verbose, help;
};

static int take(void *userdata, int id, const char *value, struct err *err)
{
    struct command_line *line = userdata;
    if (id == 0 && line->path)
        return err_set(err, -EINVAL, "\"%s\": there is a pinlist already", value);
    if (id == 0)
        line->path = value;
    line->dump |= id == OPTION_DUMP;
    line->summary |= id == OPTION_SUMMARY;
    line->json |= id == OPTION_JSON;
    line->verbose |= id == OPTION_VERBOSE;
    line->help |= id == OPTION_HELP;
    return 0;
}

static void print_json(const char *path, const struct pinlist *list)
{
    struct json json = {.out = stdout};
    json_object_begin(&json, NULL);
    json_text(&json, "path", path);
    json_u64(&json, "total_bytes", pinlist_total_bytes(list));
    json_array_begin(&json, "ranges");
    vec_foreach(list, range) {
        json_object_begin(&json, NULL);
        json_u64(&json, "offset", range->offset);
        json_u64(&json, "bytes", range->length);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
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

int pintool_pinlist(int argc, char **argv)
{
    struct command_line line = {0};
    struct err err = {0};
    int r = cli_options_parse(options, argc, argv, take, &line, &err);
    if (line.help) {
        printf("usage: pintool pinlist PINLIST [OPTION...]\n"
               "       pintool pinlist APP.apk [OPTION...]\n"
               "\n"
               "Shows what a pinlist names. An APK has its list inside, as assets/pinlist.meta;\n"
               "'-' reads the list from standard input.\n"
               "\n");
        cli_options_print(options, stdout);
        return PINTOOL_DONE;
    }
    if (r == 0 && !line.path)
        r = err_hint(&err, err_set(&err, -EINVAL, "no pinlist given"),
                     "see pintool pinlist --help");
    if (r < 0)
        return cli_options_wrong(PINTOOL, NULL, r, &err);
    if (line.verbose && !line.json)
        printf("Setting file to dump: %s\n", line.path);
    CLEANUP(pinlist_done) struct pinlist list = {0};
    if (pinlist_file_read(line.path, &list, NULL, &err) < 0) {
        err_print(&err, PINTOOL);
        return PINTOOL_FAILED;
    }
    if (line.json)
        print_json(line.path, &list);
    else
        print_text(&line, &list);
    return pintool_close_stdout();
}
