// SPDX-License-Identifier: Apache-2.0
//
// mmtrace: the recorder's verbs.
#include <string.h>

#include "common/elements.h"
#include "common/program.h"
#include "producer/cli/cli.h"
#include "producer/foreign/worker.h"

static const struct program_verb verbs[] = {
    {"daemon", NULL, "keep configs armed and wait for memory pressure", cli_daemon},
    {"record", NULL, "record a trace into a file", cli_record},
    {"heap", NULL, "profile the heap of native programs", cli_heap},
    {"cpu", NULL, "sample which functions take CPU time", cli_cpu},
    {"faults", NULL, "sample the functions that fault and make the kernel reclaim", cli_faults},
    {"java", NULL, "sample what a running Java program allocates", cli_java},
    {"trigger", NULL, "tell the tracing service that something has happened", cli_trigger},
    {"clone", NULL, "write the trace of a running session into a file", cli_clone},
    {"status", NULL, "show the tracing service and its sessions", cli_status},
    {"top", NULL, "show what memory does at this moment", cli_top},
    {"doctor", NULL, "say what recording lacks on this machine, and what mends it", cli_doctor},
    {"bugreport", NULL, "gather traces, memory state and kernel log in a zip", cli_bugreport},
    {"sources", NULL, "list the data sources that can be recorded", cli_sources},
};

int main(int argc, char **argv)
{
    static const struct program program = {
        .name = CLI_PROGRAM,
        .version = MMTRACE_VERSION,
        .noun = "command",
        .about = "Records what memory does on this machine, into traces for Perfetto's tools.\n",
        .more = "\n"
                "Examples:\n"
                "  mmtrace record -c mm_events.cfg -o trace.pftrace\n"
                "  mmtrace record -t 10s -o trace.pftrace 'vmscan/*' kmem/rss_stat\n"
                "  mmtrace record --help\n",
        .verbs = verbs,
        .n_verbs = ELEMENTS(verbs),
    };
    if (argc == 2 && strcmp(argv[0], FOREIGN_HELPER_NAME) == 0)
        return foreign_worker_main(argv[1], foreign_jobs);
    return program_main(&program, argc, argv);
}
