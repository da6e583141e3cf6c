// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb, as a table.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "converter/ground/budget.h"

enum verb_option_kind {
    OPTION_FLAG,    // takes no value; a bool becomes true
    OPTION_CHOICE,  // takes no value; an enum becomes `value`
    OPTION_TEXT,    // const char *, borrowed
    OPTION_NUMBER,  // int64_t
    OPTION_NATURAL, // int64_t, not negative
    OPTION_SIZE,    // uint64_t, a size of at least `value` bytes
    OPTION_OWN,     // is given to `take`
};

enum { OPTION_IS_NO_NUMBER = -1 };

struct verb_option {
    const char *name; // NULL ends the table
    enum verb_option_kind kind;
    size_t at;   // offset in what the verb's options are read into
    char letter; // 0: none
    int value;
    // 0, OPTION_IS_NO_NUMBER, or what the program returns: then it has said why. Further arguments
    // may be taken at argv[optind].
    int (*take)(void *to, const struct verb_option *option, char *text, int argc, char **argv);
};

// --max-memory and --max-output, of each verb that converts: rows, and the help of a verb that
// converts a trace for the occasion. `limits` is a member of `type`.
#define LIMIT_OPTIONS(type)                                                                        \
    {"max-memory", OPTION_SIZE, offsetof(type, limits.memory), .value = BUDGET_MEMORY_MIN},        \
    {                                                                                              \
        "max-output", OPTION_SIZE, offsetof(type, limits.output), .value = BUDGET_OUTPUT_MIN       \
    }
#define LIMIT_HELP                                                                                 \
    "      --max-memory SIZE\n"                                                                    \
    "                       memory limit of the conversion of a trace\n"                           \
    "      --max-output SIZE\n"                                                                    \
    "                       disk limit of the conversion of a trace\n"

struct limits {
    uint64_t memory, output; // bytes; 0: see budget_open()
};

// Reads the options, and --help. Operands are at argv[optind] and behind. False: the program
// returns *ret_code, and all is said.
bool verb_options_read(const char *verb, const char *help, const struct verb_option *options,
                       int argc, char **argv, void *to, int *ret_code);
