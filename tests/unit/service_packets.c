// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "common/elements.h"
#include "common/wire.h"
#include "producer/service/service_packets.h"
#include "protos/fields.h"
#include "tests/unit/failing_memory.h"
#include "tests/unit/unit.h"

static nsec_t boot, ahead; // `ahead`: the lead of the other clocks over boot time

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    (void)userdata;
    return clock == CLOCK_BOOTTIME ? boot : boot + ahead;
}

static const struct clock_reader fake_clock = {.now = fake_now};
static const uint8_t config[] = {0x18, 0x05}; // duration_ms: 5

static struct session_settings settings = {
    .primary_clock = PB_BUILTIN_CLOCK_BOOTTIME,
    .uuid_msb = 1,
    .uuid_lsb = -1,
    .clock_snapshots = true,
    .trace_config = true,
    .system_info = true,
    .service_events = true,
};

static struct service_packets make(void)
{
    struct service_packets packets;
    boot = 1000 * NSEC_PER_SEC;
    ahead = 0;
    service_packets_init(&packets, &fake_clock, &settings, config, sizeof(config));
    return packets;
}

// Returns the last field `number` of a message. *found: the number of these fields.
static struct wire_field find(struct wire_reader reader, uint32_t number, int *found)
{
    struct wire_field field, last = {0};
    *found = 0;
    wire_foreach(&reader, &field) {
        if (field.number == number) {
            last = field;
            ++*found;
        }
    }
    assert_false(reader.error);
    return last;
}

static size_t count_kind(struct packet_list *list, uint32_t kind)
{
    size_t n = 0;
    struct packet_view view;
    for (list->read = 0; packet_list_peek(list, &view); packet_list_advance(list)) {
        int found;
        find(wire_reader_over(view.data, view.size), kind, &found);
        n += (size_t)found;
    }
    return n;
}

static void head_is_written_once(void **state)
{
    (void)state;
    struct service_packets packets = make();
    struct packet_list list = {0};
    service_packets_snapshot(&packets);
    service_packets_event(&packets, PB_TracingServiceEvent_tracing_started);
    service_packets_put_head(&packets, &list);
    assert_int_equal(count_kind(&list, PB_TracePacket_clock_snapshot), 1);
    assert_int_equal(count_kind(&list, PB_TracePacket_synchronization_marker), 1);
    assert_int_equal(count_kind(&list, PB_TracePacket_trace_config), 1);
    assert_int_equal(count_kind(&list, PB_TracePacket_trace_uuid), 1);
    assert_int_equal(count_kind(&list, PB_TracePacket_system_info), 1);
    assert_int_equal(count_kind(&list, PB_TracePacket_service_event), 1);

    packet_list_clear(&list);
    packets.sync_due = true;
    service_packets_put_head(&packets, &list);
    struct packet_view view;
    list.read = 0;
    assert_true(packet_list_peek(&list, &view));
    // uid 0 or more, sequence 1, and the marker as the last 16 bytes.
    assert_int_equal(view.data[0], 0x18);
    assert_memory_equal(view.data + view.size - 18 - 3, "\x50\x01\xa2\x02\x10\x82\x47\x7a\x76", 9);
    packet_list_advance(&list);
    assert_false(packet_list_peek(&list, &view));
    packet_list_done(&list);
}

static void assert_config(struct service_packets *packets, const uint8_t *want, size_t size)
{
    struct packet_list list = {0};
    service_packets_put_head(packets, &list);
    struct packet_view view;
    int found = 0;
    for (; packet_list_peek(&list, &view); packet_list_advance(&list)) {
        struct wire_field field =
            find(wire_reader_over(view.data, view.size), PB_TracePacket_trace_config, &found);
        if (found) {
            assert_int_equal(field.size, size);
            assert_memory_equal(field.data, want, size);
            break;
        }
    }
    assert_int_equal(found, 1);
    packet_list_done(&list);
}

static void config_is_byte_for_byte(void **state)
{
    (void)state;
    struct service_packets packets = make();
    assert_config(&packets, config, sizeof(config));
}

// The service flushes by its own choice only in sessions that write into a file.
static void config_says_how_often_it_is_flushed(void **state)
{
    (void)state;
    static const uint8_t streamed[] = {0x40, 0x01, 0x70, 0x02}; // write_into_file, and field 14
    static const uint8_t flushed[] = {0x40, 0x01, 0x68, 0x88, 0x27, 0x70, 0x02}; // every 5,000 ms
    static const struct {
        bool write_into_file, flush_on_write;
        int flush_s, write_s;
        bool asked, want;
    } cases[] = {
        {true, false, 5, 1, false, true},   {true, true, 0, 5, false, true},
        {true, false, 9, 1, true, true},    {true, false, 0, 5, false, false},
        {false, false, 5, 5, false, false},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct session_settings asked = settings;
        asked.write_into_file = cases[i].write_into_file;
        asked.flush_on_write = cases[i].flush_on_write;
        asked.flush_period = cases[i].flush_s * NSEC_PER_SEC;
        asked.write_period = cases[i].write_s * NSEC_PER_SEC;
        struct service_packets packets;
        service_packets_init(&packets, &fake_clock, &asked, cases[i].asked ? flushed : streamed,
                             cases[i].asked ? sizeof(flushed) : sizeof(streamed));
        assert_config(&packets, cases[i].want ? flushed : streamed,
                      cases[i].want ? sizeof(flushed) : sizeof(streamed));
    }
}

static void snapshots_wait_for_drift(void **state)
{
    (void)state;
    struct service_packets packets = make();
    for (int i = 0; i < 5; i++) {
        boot += NSEC_PER_SEC;
        service_packets_snapshot(&packets);
    }
    assert_int_equal(packets.n_snapshots, 1);
    ahead += 9 * NSEC_PER_MSEC;
    service_packets_snapshot(&packets);
    assert_int_equal(packets.n_snapshots, 1);
    ahead += 1 * NSEC_PER_MSEC;
    service_packets_snapshot(&packets);
    assert_int_equal(packets.n_snapshots, 2);
    // A session that goes on keeps the first snapshot and the newest snapshots.
    for (int i = 0; i < 100; i++) {
        ahead -= 20 * NSEC_PER_MSEC;
        service_packets_snapshot(&packets);
    }
    assert_int_equal(packets.n_snapshots, SERVICE_SNAPSHOTS_MAX);
    assert_int_equal(packets.snapshots[0].clocks[0].timestamp, 1001 * NSEC_PER_SEC);
    assert_int_equal(packets.snapshots[SERVICE_SNAPSHOTS_MAX - 1].clocks[1].timestamp,
                     boot + ahead);
}

static void rare_events_outlive_flushes(void **state)
{
    (void)state;
    struct service_packets packets = make();
    service_packets_event(&packets, PB_TracingServiceEvent_tracing_started);
    service_packets_event(&packets, PB_TracingServiceEvent_all_data_sources_started);
    for (int i = 0; i < 1000; i++) {
        boot++;
        service_packets_event(&packets, PB_TracingServiceEvent_flush_started);
        service_packets_event(&packets, PB_TracingServiceEvent_all_data_sources_flushed);
    }
    service_packets_event(&packets, PB_TracingServiceEvent_tracing_disabled);
    assert_int_equal(packets.n_events, SERVICE_EVENTS_MAX);
    assert_int_equal(packets.events[0].field, PB_TracingServiceEvent_tracing_started);
    assert_int_equal(packets.events[1].field, PB_TracingServiceEvent_all_data_sources_started);
    assert_int_equal(packets.events[SERVICE_EVENTS_MAX - 1].field,
                     PB_TracingServiceEvent_tracing_disabled);
    assert_int_equal(packets.events[SERVICE_EVENTS_MAX - 2].time, boot);
}

static void statistics_of_every_buffer(void **state)
{
    (void)state;
    struct service_packets packets = make();
    struct packet_list list = {0};
    struct packet_buffer_stats buffers[100] = {0};
    uint64_t losses[100] = {0};
    for (size_t i = 0; i < 100; i++)
        buffers[i] = (struct packet_buffer_stats){
            .size_bytes = UINT64_MAX,
            .packets_written = UINT64_MAX,
            .bytes_written = UINT64_MAX,
            .packets_overwritten = UINT64_MAX,
            .bytes_overwritten = UINT64_MAX,
            .packets_discarded = 3,
            .packets_read = UINT64_MAX,
            .bytes_read = UINT64_MAX,
            .wraps = UINT64_MAX,
        };
    losses[7] = 5; // of which the buffer itself refused 3
    buffers[8].packets_lost = 4;
    buffers[9].retained_dropped = 6;
    struct service_stats stats = {
        .buffers = buffers,
        .writer_losses = losses,
        .n_buffers = 100,
        .n_flushes = 2,
        .final_flush_done = true,
    };
    service_packets_put_tail(&packets, &stats, &list);
    struct packet_view view;
    assert_true(packet_list_peek(&list, &view));
    int found;
    struct wire_field trace_stats =
        find(wire_reader_over(view.data, view.size), PB_TracePacket_trace_stats, &found);
    assert_int_equal(found, 1);
    struct wire_reader reader = wire_sub(&trace_stats);
    struct wire_field field;
    int n = 0;
    wire_foreach(&reader, &field) {
        if (field.number != PB_TraceStats_buffer_stats)
            continue;
        struct wire_field loss =
            find(wire_sub(&field), PB_TraceStats_BufferStats_trace_writer_packet_loss, &found);
        static const uint64_t expected[] = {[7] = 5, [8] = 7, [9] = 9};
        assert_int_equal(loss.value, n >= 7 && n <= 9 ? expected[n] : 3);
        n++;
    }
    assert_int_equal(n, 100);
    packet_list_done(&list);
}

// Memory may run out while a session records: the reserved memory has room for all packets that a
// session can write.
static void everything_fits_what_is_reserved(void **state)
{
    (void)state;
    char name[257] = {0};
    memset(name, 'n', sizeof(name) - 1);
    const struct service_trigger_hit hit = {.name = name, .producer_name = name};
    struct packet_buffer_stats buffers[3];
    const uint64_t losses[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    memset(buffers, 0xff, sizeof(buffers));
    const struct service_stats stats = {
        .buffers = buffers, .writer_losses = losses, .n_buffers = ELEMENTS(buffers)};
    struct service_packets packets = make();
    struct packet_list list = {0};
    assert_int_equal(service_packets_reserve(&packets, stats.n_buffers, &list), 0);
    size_t capacity = list.bytes.capacity;
    for (int i = 0; i < 100; i++) {
        ahead += NSEC_PER_SEC;
        service_packets_snapshot(&packets);
        service_packets_event(&packets, PB_TracingServiceEvent_tracing_started);
        assert_int_equal(service_packets_trigger(&packets, &hit), 0);
    }
    assert_int_equal(trigger_hit_copy(&hit, &packets.clone_trigger), 0);
    service_packets_put_head(&packets, &list);
    assert_int_equal(count_kind(&list, PB_TracePacket_clock_snapshot), SERVICE_SNAPSHOTS_MAX);
    assert_int_equal(count_kind(&list, PB_TracePacket_trigger), SERVICE_TRIGGERS_MAX);
    assert_int_equal(count_kind(&list, PB_TracePacket_service_event), SERVICE_EVENTS_MAX);
    assert_int_equal(count_kind(&list, PB_TracePacket_system_info), 1);
    for (int i = 0; i < 100; i++)
        service_packets_event(&packets, PB_TracingServiceEvent_tracing_started);
    service_packets_put_tail(&packets, &stats, &list);
    assert_int_equal(count_kind(&list, PB_TracePacket_trace_stats), 1);
    assert_int_equal(list.bytes.capacity, capacity);
    packet_list_done(&list);
    service_packets_done(&packets);
}

// A trigger may come when no memory can be had.
static void a_trigger_without_memory(void **state)
{
    (void)state;
    const struct service_trigger_hit hit = {.name = "kmem_activity", .producer_name = "me"};
    struct service_packets packets = make();
    for (int round = 0; round < 2; round++) {
        struct packet_list list = {0};
        n_until_failure = 0;
        assert_int_equal(service_packets_trigger(&packets, &hit), 0);
        n_until_failure = 1;
        assert_int_equal(service_packets_trigger(&packets, &hit), -ENOMEM);
        n_until_failure = SIZE_MAX;
        assert_int_equal(service_packets_trigger(&packets, &hit), 0);
        assert_string_equal(packets.triggers[0].name, "kmem_activity");
        service_packets_put_head(&packets, &list);
        assert_int_equal(count_kind(&list, PB_TracePacket_trigger), 2);
        packet_list_done(&list);
    }
    service_packets_done(&packets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_is_written_once),
        cmocka_unit_test(config_is_byte_for_byte),
        cmocka_unit_test(config_says_how_often_it_is_flushed),
        cmocka_unit_test(snapshots_wait_for_drift),
        cmocka_unit_test(rare_events_outlive_flushes),
        cmocka_unit_test(statistics_of_every_buffer),
        cmocka_unit_test(everything_fits_what_is_reserved),
        cmocka_unit_test(a_trigger_without_memory),
    };
    return cmocka_run_group_tests_name("service_packets", tests, NULL, NULL);
}
