// SPDX-License-Identifier: Apache-2.0
//
// The command line of `pintool file`, checked for contradictions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/vec.h"
#include "producer/ground/options.h"

VEC_DEFINE(path_list, const char *);

struct file_options {
    struct path_list paths; // borrowed strings
    int32_t pid;            // 0: none
    bool gen_probe, dump, zip, verbose, json, map, allow_empty;
    // Borrowed; NULL: not given; "-" is a standard stream.
    const char *use_probe, *pinconfig, *output, *svg, *emit_pinconfig;
    uint64_t quota_bytes; // PINLIST_NO_QUOTA: none
    nsec_t watch;         // 0: look once
    uint32_t watch_times; // 0: until interrupted
};

extern const struct cli_command file_command; // without its `run`

// Returns what cli_command_parse() returns. Call file_options_done() in each case.
int file_options_parse(int argc, char **argv, struct file_options *ret, struct err *err);
void file_options_done(struct file_options *options); // fit for CLEANUP()
