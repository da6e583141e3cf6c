// SPDX-License-Identifier: Apache-2.0
//
// `record` where a tracing service does the recording.
#pragma once

#include "common/err.h"
#include "common/log.h"
#include "producer/cli/background.h"
#include "producer/cli/record_options.h"
#include "producer/service/config/config.h"
#include "protos/ipc/tracing_service_state.pb-c.h"

struct ipc_client;

// Connects to a service that can record all that `config` names. *ret stays NULL where this process
// is to record. *ret_state is what the service said (owned), for config_check(). Only --detach
// makes it an error that there is none.
int record_remote_find(const struct record_options *options, const struct config *config,
                       const struct log *log, struct ipc_client **ret,
                       Pb__TracingServiceState **ret_state, struct err *err);

struct record_remote {
    const struct record_options *options;
    const struct config *config;
    struct background *background; // is told when the data sources have started
    int signal_fd;                 // a signalfd: the first signal stops, the second gives up
    int output_fd;                 // owned: the trace's
    const char *out_name;          // for messages
    const char *out_path;          // NULL: standard output
    bool is_whole;                 // set: the trace is, whatever a data source could not do
};

// Records until the end, or until the session is detached. An exit code.
int record_remote_run(struct ipc_client *client, struct record_remote *remote, struct err *err);

// --attach and --is_detached. An exit code.
int record_remote_attach(const struct record_options *options, int signal_fd, struct err *err);
