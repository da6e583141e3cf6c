// SPDX-License-Identifier: Apache-2.0
//
// What a config says of its buffers, judged where it can be refused: a size that is too small is
// raised, one that no machine has is an error.
#include "producer/service/session/session_buffers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "producer/service/config/config.h"

#define BUFFER_BYTES_MIN ((size_t)CONFIG_BUFFER_KB_MIN * 1024)

int session_buffer_make(const Pb__TraceConfig *config, size_t i, struct packet_buffer **ret,
                        struct err *err)
{
    const Pb__TraceConfig__BufferConfig *buffer = config->buffers[i];
    uint64_t size = (uint64_t)buffer->size_kb * 1024;
    if (size < BUFFER_BYTES_MIN)
        size = BUFFER_BYTES_MIN;
    if (size > SIZE_MAX / 2)
        return err_set(err, -EINVAL, "buffers[%zu]: size_kb %u is not usable", i, buffer->size_kb);
    bool discard = buffer->fill_policy == PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD;
    int r = packet_buffer_new((size_t)size, discard ? PACKET_BUFFER_DISCARD : PACKET_BUFFER_RING,
                              ret, err);
    return r < 0 ? err_prefix(err, r, "buffers[%zu]", i) : 0;
}

int session_buffers_make(const Pb__TraceConfig *config, struct session_buffers *ret,
                         struct err *err)
{
    ret->items = calloc(config->n_buffers + 1, sizeof(struct packet_buffer *));
    if (!ret->items)
        return err_errno(err, -ENOMEM, "buffers");
    ret->n = config->n_buffers;
    for (size_t i = 0; i < ret->n; i++) {
        int r = session_buffer_make(config, i, &ret->items[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

void session_buffers_done(struct session_buffers *buffers)
{
    for (size_t i = 0; i < buffers->n; i++)
        packet_buffer_free(buffers->items[i]);
    free(buffers->items);
    *buffers = (struct session_buffers){0};
}

uint64_t session_buffers_bytes(const struct session_buffers *buffers)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < buffers->n; i++) {
        struct packet_buffer_stats stats;
        packet_buffer_get_stats(buffers->items[i], &stats);
        sum += stats.size_bytes;
    }
    return sum;
}
