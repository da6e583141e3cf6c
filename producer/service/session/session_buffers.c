// SPDX-License-Identifier: Apache-2.0
//
// The buffer settings of a config are checked while an error can still be returned: a size that is
// too small is raised, an impossible size is an error.
//
// A session with implicit task names (implicit_names.h) has one buffer more than the config. Events
// cannot fill this ring, and names survive its wrap.
#include "producer/service/session/session_buffers.h"

#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "producer/service/config/config.h"
#include "producer/service/session/implicit_names.h"

#define BUFFER_BYTES_MIN  ((size_t)CONFIG_BUFFER_KB_MIN * 1024)
#define NAMES_BUFFER_KB   64
#define TOUCHED_BYTES_MAX ((size_t)8 << 20) // all buffers of a session together

const Pb__TraceConfig__BufferConfig *session_buffer_config(const Pb__TraceConfig *config, size_t i)
{
    static const Pb__TraceConfig__BufferConfig names = {
        .base = PROTOBUF_C_MESSAGE_INIT(&pb__trace_config__buffer_config__descriptor),
        .size_kb = NAMES_BUFFER_KB,
        .has_keep_first_kb = true,
    };
    return i < config->n_buffers ? config->buffers[i] : &names;
}

bool session_buffer_keeps_first(const Pb__TraceConfig *config, size_t i)
{
    return config_keep_first_kb(config, session_buffer_config(config, i)) > 0;
}

int session_buffer_make(const Pb__TraceConfig *config, size_t i, struct packet_buffer **ret,
                        struct err *err)
{
    const Pb__TraceConfig__BufferConfig *buffer = session_buffer_config(config, i);
    uint64_t size = (uint64_t)buffer->size_kb * 1024;
    if (size < BUFFER_BYTES_MIN)
        size = BUFFER_BYTES_MIN;
    if (size > SIZE_MAX / 2)
        return err_set(err, -EINVAL, "buffers[%zu]: size_kb %u is not usable", i, buffer->size_kb);
    bool discard = buffer->fill_policy == PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD;
    size_t first = (size_t)config_keep_first_kb(config, buffer) * 1024;
    int r = first
                ? packet_buffer_new_both_ends((size_t)size, first, ret, err)
                : packet_buffer_new((size_t)size,
                                    discard ? PACKET_BUFFER_DISCARD : PACKET_BUFFER_RING, ret, err);
    return r < 0 ? err_prefix(err, r, "buffers[%zu]", i) : 0;
}

size_t session_buffers_count(const Pb__TraceConfig *config)
{
    return config->n_buffers + wants_implicit_names(config);
}

int session_buffers_make(const Pb__TraceConfig *config, const struct session_buffers *originals,
                         struct session_buffers *ret, struct err *err)
{
    size_t n = session_buffers_count(config);
    ret->items = memory_calloc(n + 1, sizeof(struct packet_buffer *));
    if (!ret->items)
        return err_errno(err, -ENOMEM, originals ? "snapshot" : "buffers");
    ret->n = n;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = originals && !session_buffer_config(config, i)->transfer_on_clone
                ? packet_buffer_copy(originals->items[i], &ret->items[i], err)
                : session_buffer_make(config, i, &ret->items[i], err);
    return r;
}

void session_buffers_touch(struct session_buffers *buffers)
{
    size_t left = TOUCHED_BYTES_MAX;
    for (size_t i = 0; i < buffers->n; i++)
        left -= packet_buffer_touch(buffers->items[i], left);
}

void session_buffers_done(struct session_buffers *buffers)
{
    for (size_t i = 0; i < buffers->n; i++)
        packet_buffer_free(buffers->items[i]);
    free(buffers->items);
    *buffers = (struct session_buffers){0};
}

struct session_buffers_sum session_buffers_sum(const struct session_buffers *buffers)
{
    struct session_buffers_sum sum = {0};
    for (size_t i = 0; i < buffers->n; i++) {
        struct packet_buffer_stats stats;
        packet_buffer_get_stats(buffers->items[i], &stats);
        sum.size += stats.size_bytes;
        sum.written += stats.bytes_written;
        sum.passed_over += stats.packets_overwritten + stats.retained_dropped;
    }
    return sum;
}
