// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's ProducerPort on top of the service, for triggers only. Data sources of other programs
// may register, but are never started.
#pragma once

#include "producer/service/ipc/server.h"
#include "producer/service/service.h"

struct producer_port {
    struct ipc_port port;    // for ipc_server_listen()
    struct service *service; // borrowed
};

// The borrowed objects must outlive the port. The port must outlive the server.
void producer_port_init(struct producer_port *port, struct service *service);
