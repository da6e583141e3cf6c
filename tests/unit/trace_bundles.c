// SPDX-License-Identifier: Apache-2.0
//
// Bundles of ftrace events: order over processors, compact events, clocks, completeness.
#include "common/cleanup.h"
#include "protos/fields.h"
#include "tests/unit/trace_fixture.h"

static void processors_are_merged(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    BUNDLE(&writer.w, 1, 10, 30, 50);
    BUNDLE(&writer.w, 0, 20, 30, 40);
    BUNDLE(&writer.w, 1, 60, 70);
    write_sample(&writer.w, (struct sample){.ts = 30, .id = 1});
    write_sample(&writer.w, (struct sample){.ts = 5, .id = 2});
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| p2@5 e1@10 e0@20 e0@30 p1@30 e1@30 e0@40 e1@50 e1@60 "
                                        "e1@70 .");
    assert_int_equal(seen->result.n_packets, 5);
    seen_free(seen);
}

static void a_run_out_of_order_is_sorted(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    BUNDLE(&writer.w, 0, 40, 10, 30, 20);
    BUNDLE(&writer.w, 1, 25);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| e0@10 e0@20 e1@25 e0@30 e0@40 .");
    seen_free(seen);
}

static void runs_of_any_length_are_sorted(void **state)
{
    (void)state;
    static const int64_t times[] = {7, 3, 9, 1, 8, 2, 6, 4, 5};
    for (size_t n = 2; n <= ELEMENTS(times); n++) {
        struct trace_writer writer;
        trace_writer_start(&writer);
        write_bundle(&writer.w, 0, n, times);
        struct seen *seen = read_all(&writer);
        CLEANUP(strbuf_done) struct strbuf expected = {0};
        strbuf_add_str(&expected, "| ");
        for (int64_t ts = 1; ts <= 9; ts++)
            for (size_t i = 0; i < n; i++)
                if (times[i] == ts)
                    strbuf_addf(&expected, "e0@%lld ", (long long)ts);
        strbuf_add_char(&expected, '.');
        assert_string_equal(seen->log.text, expected.text);
        seen_free(seen);
    }
}

static void packed(struct wire_writer *w, uint32_t field, size_t n, const uint64_t *values)
{
    size_t mark = wire_begin(w, field);
    for (size_t i = 0; i < n; i++)
        wire_varint(w, values[i]);
    wire_end(w, mark);
}

static void write_compact(struct wire_writer *w, size_t n_pids)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, 2);
    size_t compact = wire_begin(w, PB_FtraceEventBundle_compact_sched);
    wire_string(w, PB_FtraceEventBundle_CompactSched_intern_table, "a");
    packed(w, PB_FtraceEventBundle_CompactSched_switch_timestamp, 3, (uint64_t[]){100, 5, 5});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_prev_state, 3, (uint64_t[]){1, 1, 1});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_pid, n_pids, (uint64_t[]){7, 8, 9});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_prio, 3, (uint64_t[]){0, 0, 0});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_comm_index, 3, (uint64_t[]){0, 0, 0});
    wire_end(w, compact);
    wire_end(w, bundle);
    wire_end(w, packet);
}

static void compact_switches_are_differences(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_compact(&writer.w, 3);
    BUNDLE(&writer.w, 2, 105);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| s2@100 s2@105 e2@105 s2@110 .");
    assert_int_equal(seen->problems[PROBLEM_COMPACT_SCHED_DAMAGED], 0);
    seen_free(seen);
}

static void compact_columns_must_have_one_length(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_compact(&writer.w, 2);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| s2@100 s2@105 .");
    assert_int_equal(seen->problems[PROBLEM_COMPACT_SCHED_DAMAGED], 1);
    assert_int_equal(seen->result.n_damaged, 1);
    seen_free(seen);
}

static void write_cpu_bundle(struct wire_writer *w, bool has_cpu, uint32_t cpu)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    if (has_cpu)
        wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    wire_uint(w, PB_FtraceEventBundle_lost_events, 1);
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, 10);
    wire_end(w, event);
    wire_end(w, bundle);
    wire_end(w, packet);
}

static void bundles_need_a_processor(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_cpu_bundle(&writer.w, true, 4095);
    write_cpu_bundle(&writer.w, true, 4096);
    write_cpu_bundle(&writer.w, false, 0);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| e4095@10 .");
    assert_int_equal(seen->problems[PROBLEM_BUNDLE_DAMAGED], 2);
    assert_int_equal(seen->problems[PROBLEM_EVENTS_LOST], 1);
    assert_int_equal(seen->details[PROBLEM_EVENTS_LOST], 4095);
    assert_int_equal(seen->result.first_damaged_packet, 1);
    seen_free(seen);
}

// An event without a time stamp is left out and reported.
static void events_need_a_time(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    size_t bundle = wire_begin(&writer.w, PB_TracePacket_ftrace_events);
    wire_uint(&writer.w, PB_FtraceEventBundle_cpu, 0);
    size_t event = wire_begin(&writer.w, PB_FtraceEventBundle_event);
    wire_uint(&writer.w, PB_FtraceEvent_pid, 1);
    wire_end(&writer.w, event);
    wire_end(&writer.w, bundle);
    wire_end(&writer.w, packet);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    assert_int_equal(seen->problems[PROBLEM_BUNDLE_DAMAGED], 1);
    seen_free(seen);
}

static void write_start(struct wire_writer *w, uint32_t cpu, uint64_t start, bool has_start)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    if (has_start)
        wire_uint(w, PB_FtraceEventBundle_last_read_event_timestamp, start);
    wire_end(w, bundle);
    wire_end(w, packet);
}

// The data is complete from the latest time that the first bundles of the processors give.
static void data_is_complete_from_the_last_processor_on(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_start(&writer.w, 0, 100, true);
    write_start(&writer.w, 1, 300, true);
    write_start(&writer.w, 2, 200, true);
    write_start(&writer.w, 0, 900, true); // not the first bundle of processor 0
    write_start(&writer.w, 3, 0, false);
    write_start(&writer.w, 3, 800, true); // not the first bundle of processor 3
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "from300 | .");
    seen_free(seen);
    trace_writer_start(&writer);
    write_start(&writer.w, 3, 0, false);
    seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    seen_free(seen);
}

static void descriptors_of_events_come_first(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    write_descriptors(&writer.w);
    BUNDLE(&writer.w, 0, 5);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "d0 d2 | e0@5 .");
    seen_free(seen);
}

static void bundles_of_unknown_clocks_are_left_out(void **state)
{
    (void)state;
    struct trace_writer writer;
    trace_writer_start(&writer);
    size_t packet = wire_begin(&writer.w, FIELD_PACKET);
    size_t bundle = wire_begin(&writer.w, PB_TracePacket_ftrace_events);
    wire_uint(&writer.w, PB_FtraceEventBundle_cpu, 0);
    wire_uint(&writer.w, PB_FtraceEventBundle_ftrace_clock, PB_FTRACE_CLOCK_MONO_RAW);
    size_t event = wire_begin(&writer.w, PB_FtraceEventBundle_event);
    wire_uint(&writer.w, PB_FtraceEvent_timestamp, 10);
    wire_end(&writer.w, event);
    wire_end(&writer.w, bundle);
    wire_end(&writer.w, packet);
    struct seen *seen = read_all(&writer);
    assert_string_equal(seen->log.text, "| .");
    assert_int_equal(seen->problems[PROBLEM_CLOCK_UNKNOWN], 1);
    seen_free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_are_merged),
        cmocka_unit_test(a_run_out_of_order_is_sorted),
        cmocka_unit_test(runs_of_any_length_are_sorted),
        cmocka_unit_test(compact_switches_are_differences),
        cmocka_unit_test(compact_columns_must_have_one_length),
        cmocka_unit_test(bundles_need_a_processor),
        cmocka_unit_test(events_need_a_time),
        cmocka_unit_test(data_is_complete_from_the_last_processor_on),
        cmocka_unit_test(descriptors_of_events_come_first),
        cmocka_unit_test(bundles_of_unknown_clocks_are_left_out),
    };
    return cmocka_run_group_tests_name("trace_bundles", tests, NULL, NULL);
}
