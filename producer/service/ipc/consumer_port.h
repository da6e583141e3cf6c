// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's ConsumerPort on top of the service. One connection is one consumer, with at most one
// session at a time.
#pragma once

#include "common/log.h"
#include "producer/service/config/config_check.h"
#include "producer/service/ipc/server.h"
#include "producer/service/service.h"

struct consumer_port {
    struct ipc_port port;                 // for ipc_server_listen()
    struct service *service;              // borrowed
    const struct config_check_env *check; // borrowed
    const struct log *log;                // borrowed; may be NULL
    const char
        *save_folder; // borrowed: folder for SaveTraceForBugreport; NULL: the call is refused
};

// The borrowed objects must outlive the port. The port must outlive the server.
void consumer_port_init(struct consumer_port *port, struct service *service,
                        const struct config_check_env *check, const struct log *log);
