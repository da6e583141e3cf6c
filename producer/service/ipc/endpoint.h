// SPDX-License-Identifier: Apache-2.0
//
// The sockets of a daemon: Perfetto's sockets, and our own control sockets (socket.h), which offer
// the same services.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"
#include "producer/service/ipc/server.h"
#include "producer/service/service.h"

struct ipc_endpoint;

// Borrowed for the endpoint's life, except `consumer_group`, which is borrowed only for
// ipc_endpoint_new().
struct ipc_endpoint_options {
    struct loop *loop;
    const struct log *log;
    struct service *service;
    const char *const *source_names; // NULL-terminated, for config_check()
    uint64_t memory_bytes;           // memory of the machine
    const char
        *consumer_group;     // group whose members may record, by name or number; NULL: root only
    const char *save_folder; // for SaveTraceForBugreport; NULL: none
    const char *control_folder; // folder of the control sockets; NULL: none
    bool no_perfetto_sockets;   // another program serves Perfetto's sockets
    struct ipc_server_limits limits;
};

// Makes the control sockets. Takes the sockets "consumer" and "producer" of the service manager;
// makes the missing sockets under their usual names. Returns 0 or a negative errno with text:
// -EADDRINUSE if another service has the sockets.
int ipc_endpoint_new(const struct ipc_endpoint_options *options, struct ipc_endpoint **ret,
                     struct err *err);

// Hangs up on all peers. Must be called before the service is freed. Takes NULL. Returns NULL.
struct ipc_endpoint *ipc_endpoint_free(struct ipc_endpoint *endpoint);
