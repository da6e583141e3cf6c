// SPDX-License-Identifier: Apache-2.0
#include "producer/trace/packet_writer.h"

#include <unistd.h>

#include "protos/fields.h"
#include "tests/unit/unit.h"

#define ABSENT UINT64_MAX

static struct packet_buffer *make_buffer(enum packet_buffer_policy policy)
{
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(4096, policy, &buffer, NULL), 0);
    return buffer;
}

// Returns a field of the oldest packet: a number, or the size of other fields.
static uint64_t field_of(struct packet_buffer *buffer, uint32_t number)
{
    struct packet_view view;
    assert_true(packet_buffer_peek(buffer, &view));
    struct wire_reader reader = wire_reader_over(view.data, view.size);
    struct wire_field field;
    uint64_t found = ABSENT;
    wire_foreach(&reader, &field) {
        if (field.number != number)
            continue;
        assert_true(found == ABSENT);
        found = field.type == WIRE_BYTES ? field.size : field.value;
    }
    assert_false(reader.error);
    return found;
}

static void write_packet(struct packet_writer *writer, nsec_t timestamp)
{
    struct wire_writer *w = packet_writer_begin(writer, timestamp, 16);
    assert_non_null(w);
    wire_string(w, PB_TracePacket_synchronization_marker, "payload");
    assert_true(packet_writer_end(writer));
}

static void assert_oldest(struct packet_buffer *buffer, bool first, bool dropped, uint64_t flags)
{
    assert_int_equal(field_of(buffer, PB_TracePacket_trusted_packet_sequence_id), 300);
    assert_int_equal(field_of(buffer, PB_TracePacket_synchronization_marker),
                     flags == 1 ? ABSENT : 7);
    assert_int_equal(field_of(buffer, PB_TracePacket_first_packet_on_sequence), first ? 1 : ABSENT);
    assert_int_equal(field_of(buffer, PB_TracePacket_previous_packet_dropped),
                     dropped ? 1 : ABSENT);
    assert_int_equal(field_of(buffer, PB_TracePacket_sequence_flags), flags);
    bool says_who = first || flags == 1;
    assert_int_equal(field_of(buffer, PB_TracePacket_trusted_uid), says_who ? geteuid() : ABSENT);
    assert_int_equal(field_of(buffer, PB_TracePacket_trusted_pid),
                     says_who ? (uint64_t)getpid() : ABSENT);
    packet_buffer_consume(buffer);
}

static void first_packet_introduces_the_sequence(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, 300);
    write_packet(&writer, 12345678901);
    write_packet(&writer, 0);
    assert_int_equal(writer.packets, 2);
    assert_int_equal(field_of(buffer, PB_TracePacket_timestamp), 12345678901);
    assert_oldest(buffer, true, false, ABSENT);
    assert_int_equal(field_of(buffer, PB_TracePacket_timestamp), ABSENT);
    assert_oldest(buffer, false, false, ABSENT);
    packet_buffer_free(buffer);
}

static void prefix_is_short(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, 100);
    for (int i = 0; i < 2; i++) {
        packet_writer_begin(&writer, NSEC_PER_SEC * 86400, 0);
        packet_writer_end(&writer);
    }
    packet_buffer_consume(buffer);
    struct packet_view view;
    assert_true(packet_buffer_peek(buffer, &view));
    assert_int_equal(view.size, (1 + 7) + (1 + 1));
    packet_buffer_free(buffer);
}

static void all_extremes_fit_the_room_set_aside(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, UINT32_MAX);
    writer.uid = UINT32_MAX;
    writer.pid = INT32_MAX;
    writer.dropped = true;
    packet_writer_clear_state(&writer);
    struct wire_writer *w = packet_writer_begin(&writer, -1, 9);
    wire_string(w, PB_TracePacket_synchronization_marker, "123456");
    assert_true(packet_writer_end(&writer));
    assert_int_equal(field_of(buffer, PB_TracePacket_trusted_uid), UINT32_MAX);
    packet_buffer_consume(buffer);
    assert_int_equal(field_of(buffer, PB_TracePacket_synchronization_marker), 6);
    packet_buffer_free(buffer);
}

static void losses_are_reported_in_the_next_packet(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, 300);
    write_packet(&writer, 0);
    assert_null(packet_writer_begin(&writer, 0, 5000));
    write_packet(&writer, 0);
    struct wire_writer *w = packet_writer_begin(&writer, 0, 10);
    char long_text[4096] = {0};
    wire_bytes(w, PB_TracePacket_synchronization_marker, long_text, sizeof(long_text));
    assert_false(packet_writer_end(&writer));
    write_packet(&writer, 0);
    write_packet(&writer, 0);
    assert_int_equal(writer.packets_dropped, 2);
    assert_int_equal(writer.packets, 4);
    assert_oldest(buffer, true, false, ABSENT);
    assert_oldest(buffer, false, true, ABSENT);
    assert_oldest(buffer, false, true, ABSENT);
    assert_oldest(buffer, false, false, ABSENT);
    packet_buffer_free(buffer);
}

// The state begins in a packet of its own.
static void cancelled_packets_leave_their_flags(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, 300);
    writer.dropped = true;
    assert_non_null(packet_writer_begin(&writer, 0, 100));
    packet_writer_cancel(&writer);
    write_packet(&writer, 0);
    packet_writer_clear_state(&writer);
    assert_non_null(packet_writer_begin(&writer, 0, 100));
    packet_writer_cancel(&writer);
    write_packet(&writer, 0);
    write_packet(&writer, 0);
    assert_oldest(buffer, true, true, ABSENT);
    assert_oldest(buffer, false, false, 1);
    assert_oldest(buffer, false, false, 2);
    assert_oldest(buffer, false, false, 2);
    packet_buffer_free(buffer);
}

// The beginning of the state is the first packet for readers, although the ring and the store's
// limit lose other packets.
static void beginning_of_the_state_is_never_lost(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, 300);
    packet_writer_clear_state(&writer);
    struct packet_buffer_stats stats = {0};
    for (uint64_t key = 0; stats.retained_dropped < 1000; key++) {
        assert_non_null(packet_writer_begin(&writer, 0, 16));
        packet_writer_end_retained(&writer, PACKET_RETAIN_REPLACE, key);
        packet_buffer_get_stats(buffer, &stats);
    }
    assert_int_equal(field_of(buffer, PB_TracePacket_sequence_flags), 1);
    // The beginning of the next state replaces this one.
    packet_writer_clear_state(&writer);
    for (int i = 0; i < 1000; i++)
        write_packet(&writer, 0);
    struct packet_view view;
    unsigned n_beginnings = 0;
    for (; packet_buffer_peek(buffer, &view); packet_buffer_consume(buffer))
        n_beginnings += field_of(buffer, PB_TracePacket_sequence_flags) == 1;
    assert_int_equal(n_beginnings, 1);
    packet_buffer_free(buffer);
}

static void retained_packets_outlive_the_ring(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_RING);
    struct packet_writer writer = packet_writer_over(buffer, 300);
    struct wire_writer *w = packet_writer_begin(&writer, 0, 16);
    wire_string(w, PB_TracePacket_synchronization_marker, "payload");
    assert_true(packet_writer_end_retained(&writer, PACKET_RETAIN_REPLACE, 1));
    for (int i = 0; i < 1000; i++)
        write_packet(&writer, 0);
    assert_oldest(buffer, true, false, ABSENT);
    assert_oldest(buffer, false, false, ABSENT);
    packet_buffer_free(buffer);
}

static void range_gives_what_there_is(void **state)
{
    (void)state;
    struct packet_buffer *buffer = make_buffer(PACKET_BUFFER_DISCARD);
    struct packet_writer writer = packet_writer_over(buffer, 300);
    struct wire_writer *w = packet_writer_begin_range(&writer, 0, 100, 100000);
    assert_true(wire_room(w) > 4000 && wire_room(w) < 4096);
    packet_writer_cancel(&writer);
    w = packet_writer_begin_range(&writer, 0, 100, 200);
    assert_true(wire_room(w) >= 200);
    packet_writer_cancel(&writer);
    assert_null(packet_writer_begin_range(&writer, 0, 5000, 100000));
    assert_int_equal(writer.packets_dropped, 1);
    packet_buffer_free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_packet_introduces_the_sequence),
        cmocka_unit_test(prefix_is_short),
        cmocka_unit_test(all_extremes_fit_the_room_set_aside),
        cmocka_unit_test(losses_are_reported_in_the_next_packet),
        cmocka_unit_test(cancelled_packets_leave_their_flags),
        cmocka_unit_test(beginning_of_the_state_is_never_lost),
        cmocka_unit_test(retained_packets_outlive_the_ring),
        cmocka_unit_test(range_gives_what_there_is),
    };
    return cmocka_run_group_tests_name("packet_writer", tests, NULL, NULL);
}
