// SPDX-License-Identifier: Apache-2.0
//
// The buffers of one session, made from its config or from another session's buffers.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/trace/packet_buffer.h"
#include "protos/config/trace_config.pb-c.h"

// All zero has none.
struct session_buffers {
    struct packet_buffer **items; // owned, n of them
    size_t n;
};

int session_buffers_make(const Pb__TraceConfig *config, struct session_buffers *ret,
                         struct err *err);
void session_buffers_done(struct session_buffers *buffers);

// An empty buffer as the config has number `i`.
int session_buffer_make(const Pb__TraceConfig *config, size_t i, struct packet_buffer **ret,
                        struct err *err);

uint64_t session_buffers_bytes(const struct session_buffers *buffers); // memory set aside
