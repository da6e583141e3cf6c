// SPDX-License-Identifier: Apache-2.0
//
// A program with several verbs: prints its overview and dispatches the command line to a verb.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Exit codes: success; failure of the work; wrong command line.
enum { PROGRAM_DONE = 0, PROGRAM_FAILED = 1, PROGRAM_USAGE = 2 };

// Arguments of the scripts in completions/. The first, after the program's name, prints the verbs.
// The second, as the only argument of a verb, prints the options of the verb.
#define PROGRAM_COMPLETE_VERBS   "--complete-verbs"
#define PROGRAM_COMPLETE_OPTIONS "--complete-options"

struct program_verb {
    const char *name;
    const char *arguments; // for --help; NULL: name and summary share a line
    const char *summary;   // one line for --help
    // Runs the verb. argv[0] is the verb's name. Prints its own errors and returns an exit code.
    int (*run)(int argc, char **argv);
};

struct program {
    const char *name;
    const char *version;
    const char *noun;  // name of the first argument, for example "command"
    const char *about; // paragraphs between the usage line and the verbs, for --help
    const char *more;  // paragraphs after the verbs
    const struct program_verb *verbs;
    size_t n_verbs;
    bool bare_is_help; // without arguments: print the overview and return 0; false: a command
                       // line without arguments is a usage error
};

// Runs the verb of the command line. Returns main()'s exit code. Closed descriptors from 0 to 2 are
// opened first: otherwise an output file could become stderr and receive messages.
int program_main(const struct program *program, int argc, char **argv);
