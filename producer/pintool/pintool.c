// SPDX-License-Identifier: Apache-2.0
//
// pintool: its modes. Without a mode it prints its help and succeeds, as Android's tool does.
#include <stdio.h>
#include <string.h>

#include "common/elements.h"
#include "common/program.h"
#include "common/sandbox.h"
#include "common/str.h"
#include "producer/pintool/pintool.h"

#define DATA_BYTES_MAX ((uint64_t)2 << 30)

static const struct program_verb modes[] = {
    {"file", "FILE... [OPTION...]", "show which pages of files are in memory; write pinlists",
     pintool_file},
    {"pinlist", "PINLIST [OPTION...]", "show what a pinlist.meta names", pintool_pinlist},
    {"measure", "FILE... [OPTION...] -- COMMAND",
     "run a command on a cold cache and show which pages it needs", pintool_measure},
    {"suggest", "TRACE-OR-DB --file FILE --quota BYTES -o PINLIST",
     "choose the pages to pin, from a recording", pintool_suggest},
    {"lock", "PINLIST FILE", "keep the pages that a pinlist names in memory, until Ctrl-C",
     pintool_lock},
    {"preload", "PINLIST FILE", "read in the pages that a pinlist names", pintool_preload},
};

// Gives up all rights that neither the mode nor a parser needs, before a list is read. A measured
// command is the user's, and runs as it would without pintool.
static int sandbox_enter(const char *mode)
{
    if (str_eq(mode, "measure") || !sandbox_is_wanted())
        return 0;
    sandbox_data(DATA_BYTES_MAX);
    int r = sandbox_calls(str_eq(mode, "suggest") ? SANDBOX_RUNS_PROGRAMS : 0);
    return sandbox_is_unavailable(r) ? 0 : r;
}

int main(int argc, char **argv)
{
    static const struct program program = {
        .name = PINTOOL,
        .version = MMTRACE_VERSION,
        .noun = "mode",
        .about = "Shows which pages of files are in memory, and makes lists of pages to keep.\n",
        .verbs = modes,
        .n_verbs = ELEMENTS(modes),
        .bare_is_help = true,
    };
    int r = argc > 1 ? sandbox_enter(argv[1]) : 0;
    if (r == 0)
        return program_main(&program, argc, argv);
    fprintf(stderr,
            PINTOOL ": the sandbox cannot be entered: %s (MMTRACE_SANDBOX=off runs without it)\n",
            strerror(-r));
    return PROGRAM_FAILED;
}
