// SPDX-License-Identifier: Apache-2.0
//
// A program with several verbs: prints its overview and dispatches the command line to a verb.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The exit codes: the work is done; the work failed; the command line is wrong.
enum { PROGRAM_DONE = 0, PROGRAM_FAILED = 1, PROGRAM_USAGE = 2 };

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
    const char *noun;  // what the first argument is called, for example "command"
    const char *about; // paragraphs between the usage line and the verbs
    const char *more;  // paragraphs behind the verbs
    const struct program_verb *verbs;
    size_t n_verbs;
    bool bare_is_help; // without arguments: print the overview and return 0; otherwise that is a
                       // usage error
};

// Finds the verb and runs it. Returns main()'s exit code. Opens descriptors 0 to 2 first if they
// are closed: otherwise an output file could take the place of stderr and receive messages.
int program_main(const struct program *program, int argc, char **argv);
