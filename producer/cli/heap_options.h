// SPDX-License-Identifier: Apache-2.0
//
// The command line of `mmtrace heap`, and its config.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/cli/process_lists.h"
#include "producer/ground/options.h"
#include "producer/service/config/config.h"

struct heap_options {
    struct list_pids pids;
    struct list_names names, heaps;
    uint64_t interval_bytes, shmem_bytes;
    uint32_t duration_ms, continuous_ms, block_timeout_us;
    bool no_block, all_heaps, dump_at_max, no_running, no_startup, no_children;
    bool snapshot, print_config, quiet, lines;
    const char *out_path;
    char **command; // borrowed, NULL-terminated; NULL: no program
};

extern const struct cli_command heap_command; // without `run`

// Returns the result of cli_command_parse(). Call heap_options_done() in each case.
int heap_options_parse(int argc, char **argv, struct heap_options *ret, struct err *err);
void heap_options_done(struct heap_options *options);

int heap_options_config(const struct heap_options *options, struct config *ret, struct err *err);
