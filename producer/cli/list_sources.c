// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace sources`: the data sources for the `data_sources` of a config.
#include "producer/sources/source.h"

#include <stdio.h>
#include <string.h>

#include "producer/cli/cli.h"
#include "producer/ground/options.h"

static int list(void *userdata, struct err *err)
{
    (void)userdata;
    (void)err;
    int width = 0;
    for (const struct source_class *const *class = source_classes; *class; class ++)
        if ((int)strlen((*class)->name) > width)
            width = (int)strlen((*class)->name);
    for (const struct source_class *const *class = source_classes; *class; class ++) {
        printf("%-*s  %s\n", width, (*class)->name, (*class)->summary);
        for (const char *const *alias = (*class)->aliases; alias && *alias; alias++)
            printf("%-*s  also called %s\n", width, "", *alias);
    }
    return fflush(stdout) == 0 ? PROGRAM_DONE : PROGRAM_FAILED;
}

static const struct cli_command command = {
    .program = CLI_PROGRAM,
    .verb = "sources",
    .usage = "usage: mmtrace sources\n"
             "\n"
             "Lists the data sources that a config can name. Each line has a name and what the\n"
             "source records.\n"
             "\n",
    .more = "\nExample: mmtrace sources | grep heap\n",
    .options = (const struct cli_option[]){{0}},
    .run = list,
};

int cli_sources(int argc, char **argv)
{
    return cli_command_main(&command, argc, argv, NULL);
}
