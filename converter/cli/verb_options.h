// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb, as a table.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "converter/ground/budget.h"

VEC_DEFINE(option_texts, const char *); // borrowed texts

enum verb_option_kind {
    OPTION_FLAG,    // takes no value; a bool becomes true
    OPTION_CHOICE,  // takes no value; an enum becomes `value`
    OPTION_TEXT,    // const char *, borrowed
    OPTION_TEXTS,   // struct option_texts; each use of the option adds a text
    OPTION_NUMBER,  // int64_t
    OPTION_NATURAL, // int64_t, at least `value`
    OPTION_SIZE,    // uint64_t, a size of at least `value` bytes
    OPTION_OWN,     // the function `take` handles the option
};

struct verb_option {
    const char *name; // NULL ends the table
    enum verb_option_kind kind;
    size_t at;   // offset in the struct of the verb's options
    char letter; // 0: none
    int value;
    int max;            // of OPTION_NATURAL; 0: none
    const char *values; // for completion: "A|B"; NULL: see the help
    // Returns 0, or the program's exit code after a message. The function may take further
    // arguments at argv[optind].
    int (*take)(void *to, const struct verb_option *option, char *text, int argc, char **argv);
};

// LIMIT_OPTIONS: rows for --max-memory and --max-output of the verbs that convert.
// QUESTION_OPTIONS: these rows and --no-cache, for the verbs that query a trace; QUESTION_HELP:
// their help text. `type` has a member `limits`.
#define LIMIT_OPTIONS(type)                                                                        \
    {"max-memory", OPTION_SIZE, offsetof(type, limits.memory), .value = BUDGET_MEMORY_MIN},        \
    {                                                                                              \
        "max-output", OPTION_SIZE, offsetof(type, limits.output), .value = BUDGET_OUTPUT_MIN       \
    }
#define QUESTION_OPTIONS(type)                                                                     \
    {"no-cache", OPTION_FLAG, offsetof(type, limits.no_cache)}, LIMIT_OPTIONS(type)
#define QUESTION_HELP                                                                              \
    "      --no-cache       convert the trace anew, and keep nothing of it\n"                      \
    "      --max-memory SIZE\n"                                                                    \
    "                       memory limit of the conversion of a trace\n"                           \
    "      --max-output SIZE\n"                                                                    \
    "                       disk limit of the conversion of a trace\n"

struct limits {
    uint64_t memory, output; // bytes; 0: see budget_open()
    bool no_cache;           // of converted traces (trace_cache.h)
};

// Reads the options, and --help. `help` has a line for each option, with the name of its argument:
// completion by shells gets both from there. The operands begin at argv[optind]. Returns false if
// the program must return *ret_code; messages are printed already.
bool verb_options_read(const char *verb, const char *help, const struct verb_option *options,
                       int argc, char **argv, void *to, int *ret_code);
