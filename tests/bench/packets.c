// SPDX-License-Identifier: Apache-2.0
//
// CPU time of a packet's way: written into a ring that wraps all the time, kept beside it, read and
// framed into a file. Runs under callgrind too (fewer packets: first argument).
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "producer/trace/packet_writer.h"
#include "producer/trace/trace_file.h"
#include "protos/fields.h"

#define BUFFER_BYTES ((size_t)4 << 20)

struct way {
    const char *name;
    enum packet_buffer_policy policy;
    unsigned keyed_every; // 0: never
    bool to_file, deflate;
};

static const struct way ways[] = {
    {.name = "ring", .policy = PACKET_BUFFER_RING},
    {.name = "ring, all retained", .policy = PACKET_BUFFER_RING, .keyed_every = 1},
    {.name = "ring, file", .policy = PACKET_BUFFER_RING, .to_file = true},
    {.name = "discard, file", .policy = PACKET_BUFFER_DISCARD, .to_file = true},
    {.name = "ring, deflated file", .to_file = true, .deflate = true},
};

static void drain(struct packet_buffer *buffer, struct trace_file *file)
{
    struct packet_view packet;
    while (packet_buffer_peek(buffer, &packet)) {
        if (trace_file_add(file, &packet, NULL) != 0)
            abort();
        packet_buffer_consume(buffer);
    }
}

static void write_packet(struct packet_writer *writer, const struct way *way, uint64_t i,
                         const uint8_t *payload, size_t size)
{
    struct wire_writer *w = packet_writer_begin(writer, (nsec_t)(i * 1000 + 1), size + 4);
    if (!w)
        abort();
    wire_bytes(w, PB_TracePacket_synchronization_marker, payload, size);
    if (way->keyed_every && i % way->keyed_every == 0)
        packet_writer_end_retained(writer, PACKET_RETAIN_REPLACE, i * 7919 % 1024);
    else
        packet_writer_end(writer);
}

static void measure(const struct way *way, size_t size, uint64_t n_packets)
{
    static uint8_t payload[1 << 16];
    struct packet_buffer *buffer;
    struct trace_file *file;
    int fd;
    for (size_t i = 0; i < size; i++)
        payload[i] = (uint8_t)(rand() & 15);
    struct trace_file_options options = {.name = "bench", .deflate = way->deflate};
    if (packet_buffer_new(BUFFER_BYTES, way->policy, &buffer, NULL) < 0 ||
        trace_file_open("/dev/null", false, &fd, NULL) < 0 ||
        trace_file_new(fd, &options, &file, NULL) < 0)
        abort();
    struct packet_writer writer = packet_writer_over(buffer, 2);
    uint64_t between_drains = BUFFER_BYTES / 2 / (size + 64);
    nsec_t start = nsec_now(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t i = 0; i < n_packets; i++) {
        write_packet(&writer, way, i, payload, size);
        if (way->to_file && i % between_drains == 0)
            drain(buffer, file);
    }
    nsec_t spent = nsec_now(CLOCK_PROCESS_CPUTIME_ID) - start;
    printf("%-20s %5zu bytes  %8.1f ns/packet  %6.2f GB/s\n", way->name, size,
           (double)spent / (double)n_packets, (double)(n_packets * size) / (double)spent);
    trace_file_free(file);
    packet_buffer_free(buffer);
}

int main(int argc, char **argv)
{
    uint64_t n_bytes = argc > 1 ? strtoull(argv[1], NULL, 0) : 256 << 20;
    static const size_t sizes[] = {16, 128, 1024, 8192};
    for (size_t w = 0; w < ELEMENTS(ways); w++)
        for (size_t s = 0; s < ELEMENTS(sizes); s++)
            measure(&ways[w], sizes[s],
                    (ways[w].deflate ? n_bytes / 8 : n_bytes) / (sizes[s] + 64));
    return 0;
}
