// SPDX-License-Identifier: Apache-2.0
//
// Command-line options, from one table per verb: parsed, explained in --help, and suggested for
// misspelt options.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

struct cli_option {
    int id;                // unique in the table, > 0
    char short_name;       // 0: none
    const char *long_name; // without dashes
    const char *argument;  // name of the argument in --help; NULL: the option takes none
    const char *help;      // may have several lines; NULL: not shown in --help
    // Why a known option does not work here, and what to do. NULL for all other options.
    const char *refusal;
    size_t sets; // CLI_SETS(): a bool that becomes true, without a call of `take`; 0: none
};

// The place of `member` in the userdata, which is a `type`.
#define CLI_SETS(type, member) (offsetof(type, member) + 1)

// A table ends with id 0. A row without names but with `help` is a heading in --help.

// Calls `take` for each other option and each operand, in order; an operand has id 0 and is the
// `value`. Returns 0, the first failure of `take`, or -EINVAL with text for an option that is not
// in the table.
int cli_options_parse(const struct cli_option *table, int argc, char **argv,
                      int (*take)(void *userdata, int id, const char *value, struct err *err),
                      void *userdata, struct err *err);

void cli_options_print(const struct cli_option *table, FILE *out);

// Says what is wrong with the command line: `r` is how reading it failed, `verb` NULL if messages
// of the program do not name it. Returns the exit code: no memory is nobody's wrong usage.
int cli_options_wrong(const char *program, const char *verb, int r, struct err *err);
