// SPDX-License-Identifier: Apache-2.0
//
// The verbs of mmsql. A verb gets the arguments after its name and returns an exit code: 0 done, 1
// failed, 2 wrong usage.
#pragma once

#include "common/program.h"

enum { EXIT_DONE = PROGRAM_DONE, EXIT_FAILED = PROGRAM_FAILED, EXIT_USAGE = PROGRAM_USAGE };

extern const struct program_verb verb_convert, verb_export, verb_flamegraph, verb_memory, verb_open,
    verb_pprof, verb_query, verb_report, verb_symbolize, verb_tables, verb_verdict;

// Prints the error in the arguments and a pointer to --help. Returns EXIT_USAGE.
__attribute__((format(printf, 2, 3))) int usage_error(const char *verb, const char *format, ...);
