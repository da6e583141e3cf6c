// SPDX-License-Identifier: Apache-2.0
//
// Command lines: one table of options per verb, for the parser, --help, and suggestions for
// misspelt options. Each verb has -h and --help.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/nsec.h"

struct cli_option;

// Takes the value of an option, or an operand if `option` is NULL. Returns 0 or a negative errno
// with text.
typedef int (*cli_take_fn)(void *userdata, const struct cli_option *option, const char *value,
                           struct err *err);

struct cli_option {
    char short_name;       // 0: none
    const char *long_name; // without dashes; NULL: none
    const char *argument;  // name of the argument in --help; NULL: the option takes none
    const char *help;      // wrapped by cli_options_print(); NULL: not shown in --help
    struct cli_place {
        enum { CLI_NOWHERE, CLI_FLAG, CLI_TEXT, CLI_TIME, CLI_SIZE, CLI_NUMBER } kind;
        size_t offset;
    } sets;             // CLI_SETS(): member of the userdata that gets the value
    uint64_t min, max;  // bounds of the value; max 0: no limit. min 1: a text must not be empty
    const char *like;   // description of a valid value, for messages; NULL: the usual one of the
                        // kind
    cli_take_fn take;   // instead of `sets`. An option with neither is accepted without effect
    int id;             // for `take`
    bool is_named_only; // --help only names the option; the manual page explains it
    // Reason why a known option does not work here, and the alternative. NULL for all other
    // options.
    const char *refusal;
};

// The place of `member` in the userdata, a `type`. The member's type determines the kind of the
// value: bool (an option without argument), const char * (text, borrowed from argv), nsec_t (a
// time), uint64_t (a size), uint32_t or int32_t (a number).
// clang-format off
#define CLI_SETS(type, member)                                                                     \
    {_Generic(((type *)0)->member, bool: CLI_FLAG, const char *: CLI_TEXT, nsec_t: CLI_TIME,       \
              uint64_t: CLI_SIZE, uint32_t: CLI_NUMBER, int32_t: CLI_NUMBER),                      \
     offsetof(type, member)}
// clang-format on

// A table ends with a row without names and help. A row without names but with `help` is a heading
// in --help.

struct cli_command {
    const char *program, *verb;
    bool is_mode;                     // messages name only the program, not the verb
    const char *usage, *more;         // in --help, before and after the options; more may be NULL
    const struct cli_option *options; // without --help
    cli_take_fn operand;              // NULL: no operands
    int (*check)(void *userdata, struct err *err); // called after the last option; NULL: no check
    // Does the work. Returns an exit code, or a negative errno. The text in `err` is printed unless
    // the exit code is 0.
    int (*run)(void *userdata, struct err *err);
};

// A forbidden combination, for `check`. The last rule has no text.
struct cli_rule {
    bool is_broken;
    const char *text, *hint; // hint may be NULL
};

// Returns 0, or -EINVAL with the text of the first broken rule.
int cli_check(const struct cli_rule *rules, struct err *err);

#define CLI_HELPED 1

// Reads the command line, options and operands in order. Returns 0; CLI_HELPED if --help was
// printed; or the first failure: -EINVAL with text, or the error of `take` or `check`.
int cli_command_parse(const struct cli_command *command, int argc, char **argv, void *userdata,
                      struct err *err);

// Prints the error of a command line. `r` is the result of cli_command_parse(). Returns the exit
// code: CLI_HELPED is success; lack of memory is a failure, not wrong usage.
int cli_command_wrong(const struct cli_command *command, int r, struct err *err);

// Reads the command line, runs the command, and prints its errors. Returns the exit code.
int cli_command_main(const struct cli_command *command, int argc, char **argv, void *userdata);

// Prints the text in lines that fit a terminal. Each line begins at `column`, where the cursor must
// be at the call.
void cli_print_wrapped(const char *text, size_t column, FILE *out);

void cli_options_print(const struct cli_option *table, FILE *out);
