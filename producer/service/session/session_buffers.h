// SPDX-License-Identifier: Apache-2.0
//
// The buffers of one session, made from its config or from another session's buffers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "producer/trace/packet_buffer.h"
#include "protos/config/trace_config.pb-c.h"

// All zero: no buffers.
struct session_buffers {
    struct packet_buffer **items; // owned, n of them
    size_t n;
};

// Returns the number of buffers in the config, plus one for implicit task names (implicit_names.h).
size_t session_buffers_count(const Pb__TraceConfig *config);

// Returns the config of buffer number `i`, also for the extra buffer that the config does not have.
const Pb__TraceConfig__BufferConfig *session_buffer_config(const Pb__TraceConfig *config, size_t i);
bool session_buffer_keeps_first(const Pb__TraceConfig *config, size_t i);

// Makes all buffers: empty buffers, or copies of `originals`. Buffers with transfer_on_clone are
// empty.
int session_buffers_make(const Pb__TraceConfig *config, const struct session_buffers *originals,
                         struct session_buffers *ret, struct err *err);
// Touches the memory that is written first, because memory may be short when a recording fills its
// buffers. The size is limited; the rest follows as the buffers fill.
void session_buffers_touch(struct session_buffers *buffers);
void session_buffers_done(struct session_buffers *buffers);

// Makes an empty buffer number `i` of the config.
int session_buffer_make(const Pb__TraceConfig *config, size_t i, struct packet_buffer **ret,
                        struct err *err);

// Sums over all buffers.
struct session_buffers_sum {
    uint64_t size, written; // bytes of memory for packets, and of all packets so far
    uint64_t passed_over;   // packets that rings and stores have dropped
};
struct session_buffers_sum session_buffers_sum(const struct session_buffers *buffers);
