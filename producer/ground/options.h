// SPDX-License-Identifier: Apache-2.0
//
// Command-line options from one table per verb: parsed, explained in --help, and suggested when one
// is misspelt.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

struct cli_option {
    int id;                // unique in the table, > 0
    char short_name;       // 0: none
    const char *long_name; // without dashes
    const char *argument;  // its name in --help; NULL: the option takes none
    const char *help;      // may have several lines; NULL: not shown in --help
    // The option is known and does not work here: why, and what to do. NULL for all others.
    const char *refusal;
    size_t sets; // CLI_SETS(): a bool that becomes true, and nobody is called; 0: none
};

// The place of `member` in the userdata, which is a `type`.
#define CLI_SETS(type, member) (offsetof(type, member) + 1)

// Tables end with id 0. A row without names but with `help` is a heading in --help.

// Calls `take` for each other option and each operand (id 0, `value` is the operand), in order. The
// first failure of `take`, or -EINVAL with text for what the table does not have.
int cli_options_parse(const struct cli_option *table, int argc, char **argv,
                      int (*take)(void *userdata, int id, const char *value, struct err *err),
                      void *userdata, struct err *err);

void cli_options_print(const struct cli_option *table, FILE *out);

// Says what is wrong with the command line: `r` is how reading it failed, `verb` NULL if messages
// of the program do not name it. Returns the exit code: no memory is nobody's wrong usage.
int cli_options_wrong(const char *program, const char *verb, int r, struct err *err);
