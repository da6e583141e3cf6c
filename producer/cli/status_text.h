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
    pid_t pid;                            // of the service; 0: not known
    uint64_t resident_bytes;              // of the service's memory; 0: not known
    uint64_t own_bytes, locked_bytes; // the part of resident_bytes that is its own, and the part of
                                      // that which reclaim cannot take; own_bytes 0: not known
    nsec_t now;                       // boot time
    int64_t now_realtime_ns;
};

// Appends aligned columns. "-" stands for anything that the service does not tell.
void status_add_text(const struct status *status, struct strbuf *out);

// Appends one JSON object and a newline. Leaves out anything that the service does not tell.
void status_add_json(const struct status *status, struct strbuf *out);
