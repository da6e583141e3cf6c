// SPDX-License-Identifier: Apache-2.0
//
// pintool: its modes. Without one it explains itself and is content, as the tool has always done.
#include "common/program.h"
#include "producer/pintool/pintool.h"

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

int main(int argc, char **argv)
{
    static const struct program program = {
        .name = PINTOOL,
        .version = MMTRACE_VERSION,
        .noun = "mode",
        .about = "Shows which pages of files are in memory, and makes lists of pages to keep.\n",
        .verbs = modes,
        .n_verbs = sizeof(modes) / sizeof(modes[0]),
        .bare_is_help = true,
    };
    return program_main(&program, argc, argv);
}
