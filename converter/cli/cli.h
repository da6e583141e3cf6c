// SPDX-License-Identifier: Apache-2.0
//
// The verbs of mmsql. Each gets the arguments behind its name and returns an exit code: 0 done, 1
// failed, 2 usage.
#pragma once

#include <stddef.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct verb {
    const char *name;
    const char *arguments; // for the overview
    const char *summary;
    int (*run)(int argc, char **argv); // argv[0] is the verb
};

extern const struct verb verb_convert, verb_flamegraph, verb_memory, verb_pprof, verb_query,
    verb_tables;

// Says what is wrong with the arguments, and where to read more. Returns EXIT_USAGE.
__attribute__((format(printf, 2, 3))) int usage_error(const char *verb, const char *format, ...);
