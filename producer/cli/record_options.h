// SPDX-License-Identifier: Apache-2.0
//
// The command line of `mmtrace record`.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "producer/cli/light_config.h"

struct record_options {
    const char *config_path; // "-": stdin; NULL: flags say what to record
    bool text;               // --txt
    const char *out_path;    // "-": stdout; NULL: the config's output_path
    bool no_clobber;
    bool check; // parse, check and print the config, record nothing
    bool quiet;
    bool help;
    struct light_config light; // its events are owned here
};

// -EINVAL with text: the command line is wrong.
int record_options_parse(int argc, char **argv, struct record_options *ret, struct err *err);

void record_options_print_help(void);
void record_options_done(struct record_options *options);
