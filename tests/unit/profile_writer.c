// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/heap/profile_writer.h"

#include <string.h>

#include "protos/fields.h"
#include "tests/unit/unit.h"

#define SEQUENCE  2
#define READS_MAX 65536

// The state of a reader that goes through a buffer once, as trace_processor does.
struct reading {
    size_t n_interned;                             // callstacks, in all
    size_t n_unknown_of_last;                      // unknown callstacks of the last dump
    bool has_other;                                // a packet of another sequence
    bool callstacks[READS_MAX], frames[READS_MAX]; // ids that are known
    size_t n_states;                               // beginnings
    size_t n_unknown;                              // samples and callstacks with an unknown id
    size_t n_samples, n_dumps;                     // whole dumps
    uint64_t allocated;                            // of the last dump
    uint64_t first_index;                          // of the ProfilePackets that are there
    bool has_index, has_state;                     // a packet before the state is not read
    bool open;                                     // the current dump has more packets
};

static void know(bool *ids, uint64_t id)
{
    assert_true(id > 0 && id < READS_MAX);
    assert_false(ids[id]); // each once
    ids[id] = true;
}

static bool is_known(const bool *ids, uint64_t id)
{
    return id < READS_MAX && ids[id];
}

static uint64_t number_in(struct wire_reader reader, uint32_t number)
{
    struct wire_field field;
    uint64_t found = 0;
    wire_foreach(&reader, &field) {
        if (field.number == number)
            found = field.value;
    }
    return found;
}

static void read_callstack(struct reading *reading, struct wire_reader reader)
{
    struct wire_field field;
    know(reading->callstacks, number_in(reader, PB_Callstack_iid));
    reading->n_interned++;
    wire_foreach(&reader, &field) {
        if (field.number == PB_Callstack_frame_ids)
            reading->n_unknown += !is_known(reading->frames, field.value);
    }
}

static void read_interned(struct reading *reading, struct wire_reader reader)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_InternedData_frames)
            know(reading->frames, number_in(wire_sub(&field), PB_Frame_iid));
        else if (field.number == PB_InternedData_callstacks)
            read_callstack(reading, wire_sub(&field));
    }
}

static void read_samples(struct reading *reading, struct wire_reader reader)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number != PB_ProfilePacket_ProcessHeapSamples_samples)
            continue;
        struct wire_reader sample = wire_sub(&field);
        uint64_t id = number_in(sample, PB_ProfilePacket_HeapSample_callstack_id);
        bool known = is_known(reading->callstacks, id);
        reading->n_unknown += !known;
        reading->n_unknown_of_last += !known;
        reading->n_samples++;
        reading->allocated += number_in(sample, PB_ProfilePacket_HeapSample_self_allocated);
    }
}

static void read_profile(struct reading *reading, struct wire_reader reader)
{
    struct wire_field field;
    uint64_t index = number_in(reader, PB_ProfilePacket_index);
    bool goes_on = number_in(reader, PB_ProfilePacket_continued);
    if (!reading->has_index)
        reading->first_index = index;
    reading->has_index = true;
    if (!reading->open)
        reading->allocated = reading->n_unknown_of_last = 0;
    wire_foreach(&reader, &field) {
        if (field.number == PB_ProfilePacket_process_dumps)
            read_samples(reading, wire_sub(&field));
    }
    reading->open = goes_on;
    reading->n_dumps += !goes_on;
}

static void read_packet(struct reading *reading, const struct packet_view *view)
{
    struct wire_reader reader = wire_reader_over(view->data, view->size);
    struct wire_field field;
    uint64_t flags = number_in(reader, PB_TracePacket_sequence_flags);
    reading->has_other |= view->sequence_id != SEQUENCE;
    if (flags & 1) {
        reading->n_states++;
        memset(reading->callstacks, 0, sizeof(reading->callstacks));
        memset(reading->frames, 0, sizeof(reading->frames));
        reading->has_state = true;
    }
    if (!reading->has_state)
        return;
    wire_foreach(&reader, &field) {
        if (field.number == PB_TracePacket_interned_data)
            read_interned(reading, wire_sub(&field));
        else if (field.number == PB_TracePacket_profile_packet)
            read_profile(reading, wire_sub(&field));
    }
}

static struct reading read_all(const struct packet_buffer *buffer)
{
    struct reading reading = {0};
    struct packet_cursor cursor = {0};
    struct packet_view view;
    while (packet_buffer_next(buffer, &cursor, &view))
        read_packet(&reading, &view);
    return reading;
}

struct fixture {
    struct packet_buffer *buffer;
    struct packet_writer writer;
    struct heap_book books[2];
    struct profile_process processes[2];
    struct profile_writer profile;
};

static void begin(struct fixture *f, size_t size, enum packet_buffer_policy policy)
{
    *f = (struct fixture){0};
    assert_int_equal(packet_buffer_new(size, policy, &f->buffer, NULL), 0);
    f->writer = packet_writer_over(f->buffer, SEQUENCE);
    f->profile = (struct profile_writer){.writer = &f->writer};
    for (int i = 0; i < 2; i++)
        f->processes[i] = (struct profile_process){
            .book = &f->books[i], .heap_name = "libc.malloc", .pid = 10 + i};
}

static void end(struct fixture *f)
{
    profile_writer_done(&f->profile);
    for (int i = 0; i < 2; i++)
        heap_book_done(&f->books[i]);
    packet_buffer_free(f->buffer);
}

// Adds `n` allocations to a book, each with its own stack.
static void allocate(struct fixture *f, int book, uint64_t first, size_t n, uint64_t weight)
{
    for (uint64_t i = first; i < first + n; i++) {
        uint64_t frames[] = {0x10000 + i * 16, 0x9000};
        struct ring_record record = {.kind = HEAP_ALLOC,
                                     .address = 0x100000 + i * 64,
                                     .weight = weight,
                                     .frames = frames,
                                     .n_frames = 2};
        assert_int_equal(heap_book_add(&f->books[book], &record), 0);
    }
}

static void dump(struct fixture *f)
{
    assert_true(profile_write(&f->profile, f->processes, 2));
}

static void a_state_begins_once_and_ids_stay(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, 1 << 20, PACKET_BUFFER_DISCARD);
    allocate(&f, 0, 0, 3, 100);
    allocate(&f, 1, 0, 2, 1000);
    dump(&f);
    uint32_t iid = f.books[1].sites.items[2].iid;
    allocate(&f, 0, 3, 4, 100); // the first book grows
    dump(&f);
    dump(&f);
    assert_int_equal(f.books[1].sites.items[2].iid, iid);
    struct reading reading = read_all(f.buffer);
    assert_int_equal(reading.n_states, 1);
    assert_int_equal(reading.n_dumps, 3);
    assert_int_equal(reading.n_unknown, 0);
    assert_int_equal(reading.n_interned, 9); // each once
    assert_int_equal(reading.n_samples, 5 + 9 + 9);
    assert_int_equal(reading.allocated, 7 * 100 + 2 * 1000);
    end(&f);
}

static void a_wrapped_ring_explains_what_is_left(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, 256 << 10, PACKET_BUFFER_RING);
    for (size_t i = 0; i < 200; i++) {
        allocate(&f, 0, i * 5, 5, 100);
        dump(&f);
    }
    struct reading reading = read_all(f.buffer);
    assert_true(reading.first_index > 0); // it has wrapped
    assert_true(reading.n_dumps > 1);
    assert_int_equal(reading.n_states, 1);
    assert_int_equal(reading.n_unknown, 0);
    assert_int_equal(reading.allocated, 200 * 5 * 100);
    end(&f);
}

// The interned data are larger than their part of the room beside the ring: each dump has all its
// data, and the names of other sources stay.
static void more_than_a_ring_can_keep_begins_anew(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, 4 << 20, PACKET_BUFFER_RING);
    struct packet_writer other = packet_writer_over(f.buffer, 3);
    struct wire_writer *w = packet_writer_begin(&other, 1, 64);
    wire_string(w, PB_TracePacket_synchronization_marker, "a name");
    assert_true(packet_writer_end_retained(&other, PACKET_RETAIN_REPLACE, 7));
    allocate(&f, 0, 0, 40000, 1);
    for (size_t i = 0; i < 6; i++)
        dump(&f);
    assert_int_equal(f.profile.state, 6);
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(f.buffer, &stats);
    assert_true(stats.packets_overwritten > 0);
    assert_int_equal(stats.retained_dropped, 0);
    struct reading reading = read_all(f.buffer);
    assert_true(reading.has_other);
    assert_int_equal(reading.n_unknown_of_last, 0);
    assert_int_equal(reading.allocated, 40000);
    end(&f);
}

static void after_a_loss_the_state_begins_anew(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, 1 << 20, PACKET_BUFFER_DISCARD);
    allocate(&f, 0, 0, 3, 100);
    dump(&f);
    f.writer.packets_dropped++; // as if another packet was dropped
    dump(&f);
    struct reading reading = read_all(f.buffer);
    assert_int_equal(reading.n_states, 2);
    assert_int_equal(reading.n_interned, 6);
    assert_int_equal(reading.n_unknown, 0);
    assert_int_equal(reading.allocated, 300);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_begins_once_and_ids_stay),
        cmocka_unit_test(a_wrapped_ring_explains_what_is_left),
        cmocka_unit_test(more_than_a_ring_can_keep_begins_anew),
        cmocka_unit_test(after_a_loss_the_state_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
