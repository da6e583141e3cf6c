// SPDX-License-Identifier: Apache-2.0
//
// mmsql: converts traces to SQLite databases and queries the databases.
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/elements.h"
#include "common/memory.h"
#include "converter/cli/cli.h"
#include "converter/cli/say.h"

int usage_error(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "mmsql: ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (see 'mmsql %s --help')\n", verb);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    const struct program_verb verbs[] = {verb_convert,   verb_export, verb_flamegraph, verb_memory,
                                         verb_open,      verb_pprof,  verb_query,      verb_report,
                                         verb_symbolize, verb_tables, verb_verdict};
    const struct program program = {
        .name = "mmsql",
        .version = MMSQL_VERSION,
        .noun = "verb",
        .about = "Turns Perfetto traces into SQLite databases and queries them.\n",
        .verbs = verbs,
        .n_verbs = ELEMENTS(verbs),
    };
    signal(SIGXFSZ, SIG_IGN); // write() fails instead, and unfinished files are removed
    // No code reads SQLite's count of memory, and counting costs a lock for each allocation.
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    int code = program_main(&program, argc, argv);
    if (code == EXIT_DONE && memory_was_refused()) {
        say("out of memory: the output may be incomplete");
        return EXIT_FAILED;
    }
    return code;
}
