// SPDX-License-Identifier: Apache-2.0
//
// mmsql tables: what the databases hold, from the schema itself.
#include <stdio.h>

#include "common/str.h"
#include "converter/cli/cli.h"
#include "converter/tables/schema.h"

static const char help[] =
    "usage: mmsql tables [NAME]\n"
    "\n"
    "Lists the tables of a converted database, or the columns of one of them.\n";

static int columns_print(const char *name)
{
    const struct table_def *def = table_def_find(name);
    if (!def) {
        const char *names[N_TABLES];
        for (size_t i = 0; i < N_TABLES; i++)
            names[i] = table_defs[i].name;
        const char *near = str_nearest(name, names, N_TABLES);
        fprintf(stderr, "mmsql: %s: no such table%s%s%s\n", name, near ? " (did you mean '" : "",
                near ? near : "", near ? "'?)" : "");
        return EXIT_FAILED;
    }
    printf("%s: %s\n\n", def->name, def->doc);
    for (size_t i = 0; i < def->n_columns; i++)
        if (!def->columns[i].hidden)
            printf("  %-26s %-8s %s\n", def->columns[i].name,
                   column_type_name(def->columns[i].type), def->columns[i].doc);
    return EXIT_DONE;
}

static int run_tables(int argc, char **argv)
{
    if (argc == 2 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (argc > 2)
        return usage_error("tables", "at most one table at a time");
    if (argc == 2)
        return columns_print(argv[1]);
    for (size_t i = 0; i < N_TABLES; i++)
        printf("%-24s %s\n", table_defs[i].name, table_defs[i].doc);
    return EXIT_DONE;
}

const struct verb verb_tables = {
    .name = "tables",
    .arguments = "[NAME]",
    .summary = "explain the tables and their columns",
    .run = run_tables,
};
