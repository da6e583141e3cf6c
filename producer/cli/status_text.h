// SPDX-License-Identifier: Apache-2.0
//
// The state of a tracing service, for people and for scripts.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/nsec.h"
#include "common/str.h"
#include "protos/ipc/tracing_service_state.pb-c.h"

struct status {
    const Pb__TracingServiceState *state; // borrowed
    pid_t pid;                            // pid of the service; 0: unknown
    uint64_t resident_bytes;              // resident memory of the service; 0: unknown
    uint64_t own_bytes, locked_bytes; // proportional set size of the service, and its locked part,
                                      // which reclaim cannot take; own_bytes 0: unknown
    nsec_t now;                       // boot time
    int64_t now_realtime_ns;
};

// Appends aligned columns. "-" stands for a value that the service does not send.
void status_add_text(const struct status *status, struct strbuf *out);

// Appends one JSON object and a newline. Values that the service does not send are left out.
void status_add_json(const struct status *status, struct strbuf *out);
