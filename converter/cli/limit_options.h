// SPDX-License-Identifier: Apache-2.0
//
// --max-memory and --max-output, of each verb that converts.
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

enum { OPTION_MAX_MEMORY = 512, OPTION_MAX_OUTPUT };

// For the array of getopt_long().
#define LIMIT_OPTIONS                                                                              \
    {"max-memory", required_argument, NULL, OPTION_MAX_MEMORY},                                    \
    {                                                                                              \
        "max-output", required_argument, NULL, OPTION_MAX_OUTPUT                                   \
    }

// For the help of a verb that converts a trace for the occasion.
#define LIMIT_HELP                                                                                 \
    "      --max-memory SIZE\n"                                                                    \
    "                       memory limit of the conversion of a trace\n"                           \
    "      --max-output SIZE\n"                                                                    \
    "                       disk limit of the conversion of a trace\n"

struct limits {
    uint64_t memory, output; // bytes; 0: see budget_open()
};

// Whether `option` is one of the two, and *ret_code is 0, or what the program is to return because
// `text` is no size.
bool limit_option_take(const char *verb, int option, const char *text, struct limits *limits,
                       int *ret_code);
