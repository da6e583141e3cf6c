// SPDX-License-Identifier: Apache-2.0
//
// mmsql: traces to SQLite, and questions about them.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/str.h"
#include "converter/cli/cli.h"

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct verb *const verbs[] = {&verb_convert, &verb_flamegraph, &verb_memory,
                                           &verb_pprof,   &verb_query,      &verb_tables};

static void overview(FILE *to)
{
    fprintf(to, "usage: mmsql VERB ...\n\n"
                "Turn Perfetto traces into SQLite databases and query them.\n\n");
    for (size_t i = 0; i < N_VERBS; i++)
        fprintf(to, "  mmsql %s %s\n      %s\n", verbs[i]->name, verbs[i]->arguments,
                verbs[i]->summary);
    fprintf(to, "\n'mmsql VERB --help' tells more.\n");
}

int usage_error(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "mmsql: ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (see 'mmsql %s%s--help')\n", verb ? verb : "", verb ? " " : "");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        overview(stderr);
        return EXIT_USAGE;
    }
    if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help")) {
        overview(stdout);
        return EXIT_DONE;
    }
    if (str_eq(argv[1], "--version")) {
        printf("mmsql %s\n", MMSQL_VERSION);
        return EXIT_DONE;
    }
    const char *names[N_VERBS];
    for (size_t i = 0; i < N_VERBS; i++) {
        if (str_eq(argv[1], verbs[i]->name))
            return verbs[i]->run(argc - 1, argv + 1);
        names[i] = verbs[i]->name;
    }
    const char *near = str_nearest(argv[1], names, N_VERBS);
    return usage_error(NULL, "%s: no such verb%s%s%s", argv[1], near ? "; did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
}
