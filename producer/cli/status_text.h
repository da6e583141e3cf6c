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
    uint64_t resident_bytes;              // of its memory; 0: not known
    uint64_t own_bytes, locked_bytes; // of that, its share, and what of the share reclaim cannot
                                      // take; own_bytes 0: not known
    nsec_t now;                       // boot time
    int64_t now_realtime_ns;
};

// Aligned columns. What a service does not tell is shown as "-".
void status_add_text(const struct status *status, struct strbuf *out);

// One JSON object and a newline. What a service does not tell is left out.
void status_add_json(const struct status *status, struct strbuf *out);
