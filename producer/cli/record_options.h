// SPDX-License-Identifier: Apache-2.0
//
// The command line of `mmtrace record`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "common/str.h"
#include "producer/ground/options.h"
#include "producer/service/config/config.h"

// The config of -t, -b, -s and bare event names, if no config file is given.
struct light_config {
    nsec_t duration;         // ns; 0: not given
    uint64_t buffer_bytes;   // 0: the default, 32 MiB
    uint64_t max_file_bytes; // bytes; 0: all data stay in the buffer until the end
    char **events;           // borrowed: "group/name", "group/*"
    size_t n_events;
};

#define LIGHT_CONFIG_DURATION     (10 * NSEC_PER_SEC)
#define LIGHT_CONFIG_BUFFER_BYTES ((uint64_t)32 << 20)

int light_config_make(const struct light_config *light, struct config *ret, struct err *err);

// Appends ` FIELD: "VALUE"` to the text of a config, with the necessary escapes.
void light_config_add_string(struct strbuf *text, const char *field, const char *value);

// Loads the text of a config that options describe.
int light_config_load(const struct strbuf *text, struct config *ret, struct err *err);

// Applies -t, -b and -s to the config of a file. -t replaces the config's triggers. -b requires a
// config with one buffer. Returns 0, or a negative errno with text.
int light_config_override(const struct light_config *light, struct config *config, struct err *err);

// The action of the command line. Only RECORD_ACTION_RECORD takes a config.
enum record_action {
    RECORD_ACTION_RECORD,
    RECORD_ACTION_ATTACH,      // attach to the session with `key` and wait for its end
    RECORD_ACTION_IS_DETACHED, // tell whether a session with `key` exists
    RECORD_ACTION_CLONE,
    RECORD_ACTION_QUERY,
    RECORD_ACTION_QUERY_RAW,
};

struct record_options {
    enum record_action action;
    const char *config_path; // "-": stdin; NULL: flags describe the config
    bool text;               // --txt
    const char *out_path;    // "-": stdout; NULL: output_path of the config
    bool no_clobber;
    bool no_verdict;
    bool check; // parse, check and print the config, record nothing
    bool quiet;
    bool no_daemon;         // record in this process, even if a service runs
    bool background;        // return as soon as the recording is ready to start
    bool background_wait;   // like `background`, but return when the data sources have started
    int notify_fd;          // gets a byte when the data sources have started; -1: none
    const char *detach_key; // leave the session to the service; NULL: no
    const char *key;        // for ATTACH and IS_DETACHED
    bool stop;              // ATTACH: end the session
    uint64_t clone_id;      // CLONE; 0: by clone_name
    const char *clone_name;
    bool clone_for_bugreport;
    struct light_config light; // owns its events
};

extern const struct cli_command record_command; // without `run`

// Returns the result of cli_command_parse().
int record_options_parse(int argc, char **argv, struct record_options *ret, struct err *err);
void record_options_done(struct record_options *options);
