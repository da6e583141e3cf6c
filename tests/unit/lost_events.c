// SPDX-License-Identifier: Apache-2.0
//
// The facts that are read back from packets that a buffer loses: sums by task, and the ends of what
// was begun before the loss.
#include "producer/sources/ftrace/lost_events.h"

#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

enum { BEGIN = 65, END = 66, OTHER = 67 }; // numbers of FtraceEvent

struct event {
    uint64_t time;
    int32_t pid;
    uint32_t field;
};

static struct lost_events *make(void)
{
    static struct event_plan plans[] = {{.field_number = BEGIN}, {.field_number = END}};
    static struct event_plan *by_id[] = {NULL, &plans[0], &plans[1]};
    static struct chosen_event chosen[] = {{.name = "reclaim_begin", .id = 1},
                                           {.name = "reclaim_end", .id = 2}};
    static const struct event_set events = {
        .plans = by_id,
        .n_plans = 3,
        .chosen = {.items = chosen, .n = 2},
    };
    struct lost_events *lost = lost_events_new(&events);
    assert_non_null(lost);
    return lost;
}

static void write_events(struct wire_writer *w, uint32_t cpu, const struct event *events, size_t n)
{
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    for (size_t i = 0; i < n; i++) {
        size_t mark = wire_begin(w, PB_FtraceEventBundle_event);
        wire_uint(w, PB_FtraceEvent_timestamp, events[i].time);
        wire_uint(w, PB_FtraceEvent_pid, (uint32_t)events[i].pid);
        size_t body = wire_begin(w, events[i].field);
        wire_end(w, body);
        wire_end(w, mark);
    }
    wire_end(w, bundle);
}

static void lose(struct lost_events *lost, uint32_t cpu, const struct event *events, size_t n)
{
    uint8_t memory[4096];
    struct wire_writer w = wire_writer_over(memory, sizeof(memory));
    wire_uint(&w, PB_TracePacket_trusted_packet_sequence_id, 3);
    write_events(&w, cpu, events, n);
    assert_false(w.overflow);
    lost_events_add(lost, memory, wire_size(&w));
}

#define LOSE(lost, cpu, ...)                                                                       \
    do {                                                                                           \
        const struct event events_[] = {__VA_ARGS__};                                              \
        lose(lost, cpu, events_, ELEMENTS(events_));                                               \
    } while (0)

struct output {
    struct packet_buffer *buffer;
    struct packet_writer writer;
};

static struct output open_output_of(size_t bytes)
{
    struct output output;
    assert_int_equal(packet_buffer_new(bytes, PACKET_BUFFER_DISCARD, &output.buffer, NULL), 0);
    output.writer = packet_writer_over(output.buffer, 3);
    return output;
}

static struct output open_output(void)
{
    return open_output_of(1 << 20);
}

// Sets `ret` to the times of the written events, in order of writing. Returns their number.
static size_t times_written(struct output *output, uint64_t *ret, size_t n_max)
{
    struct packet_view view;
    struct wire_field field, event, part;
    size_t n = 0;
    for (; packet_buffer_peek(output->buffer, &view); packet_buffer_consume(output->buffer)) {
        struct wire_reader packet = wire_reader_over(view.data, view.size);
        wire_foreach(&packet, &field) {
            struct wire_reader bundle = wire_sub(&field);
            if (field.number != PB_TracePacket_ftrace_events)
                continue;
            wire_foreach(&bundle, &event) {
                struct wire_reader parts = wire_sub(&event);
                if (event.number != PB_FtraceEventBundle_event)
                    continue;
                wire_foreach(&parts, &part)
                    if (part.number == PB_FtraceEvent_timestamp && n < n_max)
                        ret[n++] = part.value;
            }
        }
    }
    return n;
}

static uint64_t find_uint(struct wire_reader reader, uint32_t number)
{
    struct wire_field field;
    wire_foreach(&reader, &field)
        if (field.number == number)
            return field.value;
    return 0;
}

// Returns the sum over all tasks of the numbers of `name`.
static uint64_t sum_of(struct packet_buffer *buffer, const char *name, size_t *ret_n)
{
    struct packet_view view;
    struct packet_cursor cursor = {0};
    struct wire_field field, part, text;
    uint64_t sum = 0;
    *ret_n = 0;
    while (packet_buffer_next(buffer, &cursor, &view)) {
        struct wire_reader packet = wire_reader_over(view.data, view.size);
        wire_foreach(&packet, &field) {
            struct wire_reader event = wire_sub(&field);
            if (field.number != PB_TracePacket_track_event)
                continue;
            wire_foreach(&event, &part) {
                struct wire_reader annotation = wire_sub(&part);
                if (part.number != PB_TrackEvent_debug_annotations)
                    continue;
                wire_foreach(&annotation, &text)
                    if (text.number == PB_DebugAnnotation_name && text.size == strlen(name) &&
                        memcmp(text.data, name, text.size) == 0) {
                        sum += find_uint(wire_sub(&part), PB_DebugAnnotation_int_value);
                        ++*ret_n;
                    }
            }
        }
    }
    return sum;
}

static void ends_before_the_first_begin_are_kept(void **state)
{
    (void)state;
    struct lost_events *lost = make();
    struct output output = open_output();
    uint64_t times[16];
    // When the loss began, two begins of task 1 had no end yet; task 2 had no such begin. Task 3
    // has moved: the events of its new processor come first. The ends at 100, 110 and 130 are kept;
    // the other ends belong to lost begins.
    LOSE(lost, 0, {100, 1, END}, {105, 2, BEGIN}, {110, 1, END}, {120, 1, BEGIN}, {125, 1, END},
         {127, 2, END});
    LOSE(lost, 1, {150, 3, BEGIN}, {160, 3, END});
    LOSE(lost, 2, {130, 3, END});
    assert_int_equal(lost_events_write_ends(lost, &output.writer), 3);
    assert_int_equal(times_written(&output, times, 16), 3);
    assert_int_equal(times[0] + times[1], 210);
    assert_int_equal(times[2], 130);
    assert_int_equal(lost_events_write_ends(lost, &output.writer), 0); // only once
    LOSE(lost, 0, {200, 1, END}, {210, 4, END});
    assert_int_equal(lost_events_write_ends(lost, &output.writer), 1); // the end of task 4
    // Events that were written are not in the sums.
    size_t n;
    lost_events_write_sums(lost, &output.writer);
    assert_int_equal(sum_of(output.buffer, "events", &n), 11 - 4);
    assert_int_equal(n, 3); // tasks 1 to 3: the only event of task 4 was written
    assert_int_equal(sum_of(output.buffer, "reclaim_end", &n), 8 - 4);
    lost_events_free(lost);
    packet_buffer_free(output.buffer);
}

static void sums_of_more_tasks_than_are_counted_separately(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct lost_events *lost = make();
    struct output output = open_output();
    size_t n;
    for (int32_t pid = 1; pid <= N; pid++)
        LOSE(lost, 0, {1000 + (uint64_t)pid, pid, BEGIN}, {2000 + (uint64_t)pid, pid, END},
             {3000, pid, OTHER});
    lost_events_write_sums(lost, &output.writer);
    assert_int_equal(output.writer.packets_dropped, 0);
    assert_int_equal(sum_of(output.buffer, "events", &n), 3 * N);
    assert_in_range(n, 100, 256);
    assert_int_equal(sum_of(output.buffer, "reclaim_begin", &n), N);
    assert_int_equal(sum_of(output.buffer, "reclaim_end", &n), N);
    assert_int_equal(sum_of(output.buffer, "other events", &n), N);
    // Packets that the end of the trace pushes out come after the sums.
    for (int32_t pid = N + 1; pid <= 2 * N; pid++)
        LOSE(lost, 0, {4000, pid, OTHER});
    lost_events_free(lost);
    packet_buffer_free(output.buffer);
}

// A small buffer has room for few sums: the tasks that lost the most keep their sums, also if many
// tasks lost more than the average.
static void a_small_buffer_keeps_the_largest_sums(void **state)
{
    (void)state;
    enum { N = 200 };
    struct lost_events *lost = make();
    struct output output = open_output_of(32 << 10);
    size_t n;
    for (int32_t pid = 1; pid <= N; pid++)
        for (int32_t k = 0; k < (pid % 2 ? 1 : 10 + pid / 100); k++)
            LOSE(lost, 0, {1000 + (uint64_t)pid, pid, OTHER});
    for (uint64_t k = 0; k < 500; k++)
        LOSE(lost, 0, {1000 + k, 7777, BEGIN}, {1000 + k, 7777, END});
    lost_events_write_sums(lost, &output.writer);
    assert_int_equal(output.writer.packets_dropped, 0);
    assert_int_equal(sum_of(output.buffer, "events", &n), 1000 + 1152);
    assert_in_range(n, 4, 30);
    assert_true(sum_of(output.buffer, "tid", &n) >= 7777); // 30 of the others: less than 6000
    lost_events_free(lost);
    packet_buffer_free(output.buffer);
}

static void packet_lost(void *userdata, uint32_t sequence_id, const uint8_t *packet, size_t size)
{
    (void)sequence_id;
    lost_events_add(userdata, packet, size);
}

// To make room for the sums, the ring drops packets of tasks whose sums are already made.
static void the_sums_are_the_number_of_lost_events(void **state)
{
    (void)state;
    enum { N = 200 };
    struct lost_events *lost = make();
    struct output output;
    struct packet_buffer_stats stats;
    size_t n;
    assert_int_equal(packet_buffer_new_both_ends(48 << 10, 4 << 10, &output.buffer, NULL), 0);
    packet_buffer_on_lost(output.buffer, packet_lost, lost);
    output.writer = packet_writer_over(output.buffer, 3);
    for (int32_t k = 0; k < 20 * N; k++) {
        const struct event event = {1000 + (uint64_t)k, 1 + k % N, OTHER};
        struct wire_writer *w = packet_writer_begin(&output.writer, 0, 64);
        assert_non_null(w);
        write_events(w, 0, &event, 1);
        assert_true(packet_writer_end_events(&output.writer, 1));
    }
    packet_buffer_get_stats(output.buffer, &stats);
    uint64_t before = stats.events_lost;
    assert_true(before > N);
    lost_events_write_sums(lost, &output.writer);
    packet_buffer_get_stats(output.buffer, &stats);
    assert_true(stats.events_lost > before);
    assert_int_equal(sum_of(output.buffer, "events", &n), stats.events_lost);
    packet_buffer_free(output.buffer);
    lost_events_free(lost);
}

// Task 0 loses events, too.
static void the_idle_task_has_a_track_of_its_own(void **state)
{
    (void)state;
    struct lost_events *lost = make();
    struct output output = open_output();
    struct packet_view view;
    struct packet_cursor cursor = {0};
    struct wire_field field;
    uint64_t uuids[4] = {0};
    size_t n = 0;
    LOSE(lost, 0, {100, 0, OTHER}, {110, 0, OTHER});
    lost_events_write_sums(lost, &output.writer);
    while (packet_buffer_next(output.buffer, &cursor, &view)) {
        struct wire_reader packet = wire_reader_over(view.data, view.size);
        wire_foreach(&packet, &field)
            if (field.number == PB_TracePacket_track_descriptor && n < 4)
                uuids[n++] = find_uint(wire_sub(&field), PB_TrackDescriptor_uuid);
    }
    assert_int_equal(n, 2);
    assert_int_not_equal(uuids[0], uuids[1]);
    lost_events_free(lost);
    packet_buffer_free(output.buffer);
}

static void without_losses_nothing_is_written(void **state)
{
    (void)state;
    struct lost_events *lost = make();
    struct output output = open_output();
    struct packet_view view;
    lost_events_add(lost, (const uint8_t *)"\xff\xff\xff", 3); // no packet
    assert_int_equal(lost_events_write_ends(lost, &output.writer), 0);
    lost_events_write_sums(lost, &output.writer);
    assert_false(packet_buffer_peek(output.buffer, &view));
    lost_events_free(lost);
    packet_buffer_free(output.buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_before_the_first_begin_are_kept),
        cmocka_unit_test(sums_of_more_tasks_than_are_counted_separately),
        cmocka_unit_test(a_small_buffer_keeps_the_largest_sums),
        cmocka_unit_test(the_sums_are_the_number_of_lost_events),
        cmocka_unit_test(the_idle_task_has_a_track_of_its_own),
        cmocka_unit_test(without_losses_nothing_is_written),
    };
    return cmocka_run_group_tests_name("lost_events", tests, NULL, NULL);
}
