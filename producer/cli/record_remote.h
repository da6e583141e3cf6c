// SPDX-License-Identifier: Apache-2.0
//
// `record` in a tracing service.
#pragma once

#include "common/err.h"
#include "common/log.h"
#include "producer/cli/background.h"
#include "producer/cli/record_options.h"
#include "producer/cli/recording.h"
#include "producer/service/config/config.h"
#include "protos/ipc/tracing_service_state.pb-c.h"

struct ipc_client;

// Connects to a service that can record everything in `config`. *ret stays NULL if this process
// shall record. *ret_state is the state of the service (owned), for config_check(). A missing
// service is an error only with --detach.
int record_remote_find(const struct record_options *options, const struct config *config,
                       const struct log *log, struct ipc_client **ret,
                       Pb__TracingServiceState **ret_state, struct err *err);

struct record_remote {
    const struct record_options *options;
    const struct config *config;
    struct background *background; // gets the report when the data sources have started
    struct signals *signals;       // borrowed: the first signal stops the recording, the second
                                   // gives up
    int output_fd;                 // owned: descriptor of the trace
    const char *out_name;          // for messages
    const char *out_path;          // NULL: standard output
    bool is_whole; // set to true if the trace is complete, even if a data source failed
};

// Records until the end, or until the session is detached. Returns an exit code.
int record_remote_run(struct ipc_client *client, struct record_remote *remote, struct err *err);

// Runs --attach or --is_detached. Returns an exit code.
int record_remote_attach(const struct record_options *options, struct signals *signals,
                         struct err *err);
