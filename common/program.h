// SPDX-License-Identifier: Apache-2.0
//
// A program of several verbs: its overview, and the way from the command line to one of them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Exit codes: the work is done; it failed; the command line is wrong.
enum { PROGRAM_DONE = 0, PROGRAM_FAILED = 1, PROGRAM_USAGE = 2 };

struct program_verb {
    const char *name;
    const char *arguments; // for --help; NULL: name and summary share a line
    const char *summary;   // one line for --help
    // argv[0] is the verb's name. Prints its own errors; returns an exit code.
    int (*run)(int argc, char **argv);
};

struct program {
    const char *name;
    const char *version;
    const char *noun;  // what the first argument is, "command"
    const char *about; // paragraphs between the usage line and the verbs
    const char *more;  // paragraphs behind all
    const struct program_verb *verbs;
    size_t n_verbs;
    bool bare_is_help; // without arguments: the overview, and done; else a wrong command line
};

// Finds the verb and leaves everything to it. Before that, descriptors 0 to 2 are taken: a caller
// may have closed them, and an output file in their place would receive what is printed. Returns
// main()'s exit code.
int program_main(const struct program *program, int argc, char **argv);
