// SPDX-License-Identifier: Apache-2.0
//
// The command lines of `mmtrace cpu` and `mmtrace faults`, and their configs.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "producer/cli/process_lists.h"
#include "producer/ground/options.h"
#include "producer/service/config/config.h"

struct stacks_options {
    struct list_pids pids;
    struct list_names names;
    uint64_t frequency; // of samples of CPU time
    uint64_t period;    // minor faults for each sample
    uint32_t duration_ms;
    bool is_dwarf; // stacks of programs are followed by unwind tables
    bool no_kernel, no_reclaim, print_config, quiet, lines;
    const char *out_path;
    char **command; // borrowed, NULL-terminated; NULL: no program
};

extern const struct cli_command cpu_command, faults_command; // without `run`

// `command` is &cpu_command or &faults_command. Returns the result of cli_command_parse(). Call
// stacks_options_done() in each case.
int stacks_options_parse(const struct cli_command *command, int argc, char **argv,
                         struct stacks_options *ret, struct err *err);
void stacks_options_done(struct stacks_options *options);

// Makes the config. `child` is the program under test; 0: none. `has_tracepoints`: tracefs is
// there. Returns 0 or a negative errno with text.
int stacks_options_config(const struct cli_command *command, const struct stacks_options *options,
                          pid_t child, bool has_tracepoints, struct config *ret, struct err *err);
