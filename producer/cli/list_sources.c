// SPDX-License-Identifier: Apache-2.0
//
// `mmtrace sources`: the data sources for the `data_sources` of a config.
#include "producer/sources/source.h"

#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "producer/cli/cli.h"

int cli_sources(int argc, char **argv)
{
    if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
        printf("usage: mmtrace sources\n"
               "\n"
               "Lists the data sources that a config can name. Each line has a name and what the\n"
               "source records.\n");
        return CLI_DONE;
    }
    if (argc > 1) {
        fprintf(stderr, "mmtrace: sources takes no arguments\n");
        return CLI_USAGE;
    }
    int width = 0;
    for (const struct source_class *const *class = source_classes; *class; class ++)
        if ((int)strlen((*class)->name) > width)
            width = (int)strlen((*class)->name);
    for (const struct source_class *const *class = source_classes; *class; class ++) {
        printf("%-*s  %s\n", width, (*class)->name, (*class)->summary);
        for (const char *const *alias = (*class)->aliases; alias && *alias; alias++)
            printf("%-*s  also called %s\n", width, "", *alias);
    }
    return fflush(stdout) == 0 ? CLI_DONE : CLI_FAILED;
}
