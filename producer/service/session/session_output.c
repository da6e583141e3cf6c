// SPDX-License-Identifier: Apache-2.0
//
// Nothing may delay the sources for long. Therefore the file gets its packets in slices, one per
// round of the loop. A slice is small, because all of it may have to be deflated. After the
// recording no source competes, but the loop must still react to a second Ctrl-C.
//
// If the file is a pipe with a slow reader, the session sleeps until the pipe has room. The packets
// wait in their buffers.
#include "producer/service/session/session_output.h"

#include <sys/epoll.h>

#include "common/cleanup.h"

#define SLICE_BYTES    (16 * 1024)        // deflated in a fraction of a millisecond
#define FINISH_TIMEOUT (1 * NSEC_PER_SEC) // for a slow reader at the end

static void file_writable(void *userdata)
{
    struct session_output *output = userdata;
    output->writable = loop_remove_io(output->writable);
    output->goes_on(output->userdata);
}

static int wait_for_reader(struct session_output *output)
{
    if (!output->loop || loop_add_io(output->loop, trace_file_fd(output->file), EPOLLOUT,
                                     file_writable, output, &output->writable) < 0)
        return SESSION_OUTPUT_BLOCKED;
    return SESSION_OUTPUT_WAITS;
}

// Translates a result of trace_file_*().
static int translate(struct session_output *output, int r)
{
    if (r == TRACE_FILE_BLOCKED)
        return trace_file_is_busy(output->file) ? SESSION_OUTPUT_WAITS : wait_for_reader(output);
    if (r == TRACE_FILE_NO_ROOM)
        return SESSION_OUTPUT_NO_ROOM;
    return r == TRACE_FILE_FULL ? SESSION_OUTPUT_FULL : r;
}

static void end_copy(struct session_output *output)
{
    if (output->copied < output->copy_end)
        close_fd(output->copy_fd);
    output->copied = output->copy_end = 0;
}

static int copy_some(struct session_output *output, struct err *err)
{
    uint64_t copied = output->copied;
    int r = trace_file_copy(output->file, output->copy_fd, &copied, output->copy_end, err);
    if (copied == output->copy_end)
        end_copy(output);
    else
        output->copied = copied;
    return r == 0 ? SESSION_OUTPUT_MORE : translate(output, r);
}

int session_output_write(struct session_output *output, struct session_reader *reader,
                         struct err *err)
{
    if (output->writable)
        return SESSION_OUTPUT_WAITS;
    if (output->copied < output->copy_end)
        return copy_some(output, err);
    struct packet_view packet;
    for (size_t size = 0; size < SLICE_BYTES; size += packet.size) {
        if (!session_reader_peek(reader, &packet))
            return translate(output, output->syncs ? trace_file_sync(output->file, err)
                                                   : trace_file_flush(output->file, err));
        int r = trace_file_add(output->file, &packet, err);
        if (r != 0)
            return translate(output, r);
        session_reader_advance(reader);
    }
    return SESSION_OUTPUT_MORE;
}

uint64_t session_output_bytes(const struct session_output *output)
{
    if (!output->file)
        return output->bytes;
    struct trace_file_stats stats;
    trace_file_get_stats(output->file, &stats);
    return stats.bytes_written;
}

int session_output_close(struct session_output *output, bool orderly, struct err *err)
{
    int r = 0;
    if (output->writable)
        output->writable = loop_remove_io(output->writable);
    if (output->file && orderly)
        r = trace_file_finish(output->file, FINISH_TIMEOUT, err);
    end_copy(output);
    output->bytes = session_output_bytes(output);
    output->file = trace_file_free(output->file);
    return r;
}
