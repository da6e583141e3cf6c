// SPDX-License-Identifier: Apache-2.0
//
// A killed process cuts its last packet. A loss of power may leave more damage: blocks that belong
// to the file but were never written read as zeros. Therefore a frame needs not only a valid
// length: the content of a packet must be well-formed fields, as far as the window has the content.
// The first malformed packet ends the trace.
#include "producer/trace/trace_repair.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/nsec.h"
#include "common/wire.h"
#include "producer/trace/trace_file.h"
#include "protos/fields.h"

#define WINDOW     ((size_t)1 << 20)
#define HEADER_MAX (1 + WIRE_VARINT_MAX)
#define PACKET_TAG (PB_Trace_packet << 3 | WIRE_BYTES)
#define MARK_MAX   64

// The largest packet, and room for the overhead of a compressed packet.
#define BODY_MAX (TRACE_FILE_PACKET_MAX + ((size_t)1 << 20))

static ssize_t read_window(int fd, uint8_t *window, uint64_t offset)
{
    size_t size = 0;
    while (size < WINDOW) {
        ssize_t n = pread(fd, window + size, WINDOW - size, (off_t)(offset + size));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t)n;
    }
    return (ssize_t)size;
}

static bool is_well_formed(const uint8_t *body, size_t size)
{
    struct wire_reader reader = wire_reader_over(body, size);
    struct wire_field field;
    wire_foreach(&reader, &field)
        ;
    return !reader.error;
}

// Returns the size of the frame at `p`, in a file that has `left` bytes from there; 0 if no valid
// frame is there. `end` is the end of the window.
static uint64_t frame_at(const uint8_t *p, const uint8_t *end, uint64_t left)
{
    const uint8_t *start = p;
    uint64_t size;
    if (p == end || *p++ != PACKET_TAG || !wire_get_varint(&p, end, &size) || size > BODY_MAX)
        return 0;
    uint64_t header = (uint64_t)(p - start);
    if (header + size > left)
        return 0;
    if (size <= (uint64_t)(end - p) && !is_well_formed(p, (size_t)size))
        return 0;
    return header + size;
}

static int find_end(int fd, uint64_t start, uint64_t size, struct trace_repair *ret)
{
    CLEANUP(freep) uint8_t *window = memory_malloc(WINDOW);
    if (!window)
        return -ENOMEM;
    uint64_t at = start;
    while (at < size) {
        ssize_t n = read_window(fd, window, at);
        if (n < 0)
            return (int)n;
        const uint8_t *p = window, *end = window + n;
        uint64_t frame = 1;
        // A frame that the window cuts is examined again from its beginning.
        while (p < end && (frame = frame_at(p, end, size - at)) && frame <= (uint64_t)(end - p)) {
            p += frame;
            at += frame;
            ret->packets++;
        }
        if (frame == 0 && (size_t)(end - p) < HEADER_MAX && p > window &&
            at + (uint64_t)(end - p) < size)
            continue; // perhaps the window cuts the header
        if (frame == 0 || n == 0)
            break;
        if (p == window) { // larger than a window
            at += frame;
            ret->packets++;
        }
    }
    ret->bytes = at - start;
    ret->cut_bytes = size - at;
    return 0;
}

// Writes the mark at `end` and cuts the file after the mark. Returns 0 or a negative errno.
static int write_mark(int fd, uint64_t end, uint64_t cut_bytes)
{
    uint8_t bytes[MARK_MAX];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    size_t packet = wire_begin(&w, PB_Trace_packet);
    size_t mark = wire_begin(&w, PB_TracePacket_recording_cut);
    wire_uint(&w, PB_RecordingCut_cut_bytes, cut_bytes);
    wire_int(&w, PB_RecordingCut_found_realtime_ns, nsec_now(CLOCK_REALTIME));
    wire_end(&w, mark);
    wire_end(&w, packet);
    if (w.overflow)
        return -EOVERFLOW;
    ssize_t n = pwrite(fd, bytes, wire_size(&w), (off_t)end);
    if (n != (ssize_t)wire_size(&w))
        return n < 0 ? -errno : -ENOSPC;
    return ftruncate(fd, (off_t)(end + wire_size(&w))) < 0 ? -errno : 0;
}

// A full disk has no room for the mark after the packets. The mark then takes the place of the
// last packets, because a reader must know that the trace was cut.
static void add_mark(int fd, uint64_t start, uint64_t size, struct trace_repair *found)
{
    uint64_t end = start + found->bytes;
    struct trace_repair fewer = {0};
    if (write_mark(fd, end, found->cut_bytes) == 0)
        return;
    if (found->bytes > MARK_MAX && find_end(fd, start, end - MARK_MAX, &fewer) == 0 &&
        fewer.bytes) {
        fewer.cut_bytes = size - start - fewer.bytes;
        if (write_mark(fd, start + fewer.bytes, fewer.cut_bytes) == 0) {
            *found = fewer;
            return;
        }
    }
    (void)!ftruncate(fd, (off_t)end);
}

int trace_repair(int fd, uint64_t start, struct trace_repair *ret)
{
    struct stat st;
    struct trace_repair found = {0};
    if (fstat(fd, &st) < 0)
        return -errno;
    uint64_t size = (uint64_t)st.st_size;
    if (!S_ISREG(st.st_mode) || size < start)
        return -EINVAL;
    int r = find_end(fd, start, size, &found);
    if (r < 0)
        return r;
    if (found.cut_bytes && ftruncate(fd, (off_t)(start + found.bytes)) < 0)
        return -errno;
    if (found.bytes)
        add_mark(fd, start, size, &found);
    *ret = found;
    return 0;
}
