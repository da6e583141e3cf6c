// SPDX-License-Identifier: Apache-2.0
//
// The sockets of a daemon, where clients look for them: Perfetto's, and control sockets of our own
// (socket.h), which serve the same.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/service/ipc/server.h"
#include "producer/service/service.h"

struct ipc_endpoint;

// Everything borrowed for the endpoint's life, but for `consumer_group`.
struct ipc_endpoint_options {
    struct loop *loop;
    const struct log *log;
    struct service *service;
    const char *const *source_names; // NULL-terminated, for config_check()
    uint64_t memory_bytes;           // of the machine
    const char *consumer_group; // whose members may record, by name or number; NULL: root alone
    const char *save_folder;    // for SaveTraceForBugreport; NULL: none
    const char *control_folder; // of the control sockets; NULL: none
    bool no_perfetto_sockets;   // somebody else serves them
    struct ipc_server_limits limits;
};

// Makes the control sockets. Takes the sockets called "consumer" and "producer" that the service
// manager passed, and makes those that it did not pass under their usual names. -EADDRINUSE:
// another service has them.
int ipc_endpoint_new(const struct ipc_endpoint_options *options, struct ipc_endpoint **ret,
                     struct err *err);

// Hangs up on everybody, before the service is freed. Takes NULL, returns NULL.
struct ipc_endpoint *ipc_endpoint_free(struct ipc_endpoint *endpoint);
