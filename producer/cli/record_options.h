// SPDX-License-Identifier: Apache-2.0
//
// The command line of `mmtrace record`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/cli/light_config.h"

// What is to be done; all but recording takes no config.
enum record_action {
    RECORD_ACTION_RECORD,
    RECORD_ACTION_ATTACH,      // to the session with `key`, and wait for its end
    RECORD_ACTION_IS_DETACHED, // whether there is a session with `key`
    RECORD_ACTION_CLONE,
    RECORD_ACTION_QUERY,
    RECORD_ACTION_QUERY_RAW,
};

struct record_options {
    enum record_action action;
    const char *config_path; // "-": stdin; NULL: flags say what to record
    bool text;               // --txt
    const char *out_path;    // "-": stdout; NULL: the config's output_path
    bool no_clobber;
    bool no_verdict;
    bool check; // parse, check and print the config, record nothing
    bool quiet;
    bool help;
    bool no_daemon;         // record in this process whatever runs elsewhere
    bool background;        // return as soon as everything is ready to start
    bool background_wait;   // or when the data sources have started
    int notify_fd;          // tell here when they have started; -1: nowhere
    const char *detach_key; // leave the session to the service; NULL: do not
    const char *key;        // of ATTACH and IS_DETACHED
    bool stop;              // ATTACH: and end it
    uint64_t clone_id;      // CLONE: 0: by clone_name
    const char *clone_name;
    bool clone_for_bugreport;
    struct light_config light; // its events are owned here
};

// -EINVAL with text: the command line is wrong.
int record_options_parse(int argc, char **argv, struct record_options *ret, struct err *err);

void record_options_print_help(void);
void record_options_done(struct record_options *options);
