// SPDX-License-Identifier: Apache-2.0
//
// Bundles of ftrace events: order over processors, compact events, clocks, completeness.
#include <stdlib.h>

#include "common/cleanup.h"
#include "converter/decode/bundle.h"
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

// Writes three wakings and a switch. `with_flags`: the wakings have common_flags. `comm` is the
// index of the switch's name; the only name has the index 0.
static struct wire_reader write_both_runs(struct wire_writer *w, bool with_flags, uint64_t comm)
{
    size_t compact = wire_begin(w, PB_FtraceEventBundle_compact_sched);
    wire_string(w, PB_FtraceEventBundle_CompactSched_intern_table, "name");
    packed(w, PB_FtraceEventBundle_CompactSched_waking_timestamp, 3, (uint64_t[]){50, 0, 7});
    packed(w, PB_FtraceEventBundle_CompactSched_waking_pid, 3, (uint64_t[]){11, 12, 13});
    packed(w, PB_FtraceEventBundle_CompactSched_waking_target_cpu, 3, (uint64_t[]){1, 2, 3});
    packed(w, PB_FtraceEventBundle_CompactSched_waking_prio, 3, (uint64_t[]){120, 121, 122});
    packed(w, PB_FtraceEventBundle_CompactSched_waking_comm_index, 3, (uint64_t[]){0, 0, 0});
    if (with_flags)
        packed(w, PB_FtraceEventBundle_CompactSched_waking_common_flags, 3, (uint64_t[]){4, 5, 6});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_timestamp, 1, (uint64_t[]){80});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_prev_state, 1, (uint64_t[]){2});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_pid, 1, (uint64_t[]){21});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_prio, 1, (uint64_t[]){100});
    packed(w, PB_FtraceEventBundle_CompactSched_switch_next_comm_index, 1, &comm);
    wire_end(w, compact);
    return wire_reader_over(w->start, wire_size(w));
}

static void columns_reach_their_fields(void **state)
{
    (void)state;
    uint8_t bytes[256];
    for (int with_flags = 0; with_flags < 2; with_flags++) {
        struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
        struct bundle_measure measure;
        struct run_record record;
        bundle_measure(write_both_runs(&w, with_flags, 0), &measure);
        assert_false(measure.damaged);
        assert_int_equal(measure.runs[RUN_WAKING].n, 3);
        assert_int_equal(measure.runs[RUN_WAKING].min_ts, 50);
        assert_int_equal(measure.runs[RUN_WAKING].max_ts, 57);
        assert_true(measure.runs[RUN_WAKING].sorted);
        assert_int_equal(measure.runs[RUN_SWITCH].n, 1);
        struct run *run = run_open(measure.messages[RUN_WAKING], RUN_WAKING, true);
        for (int i = 0; i < 3; i++) {
            assert_true(run_next(run, &record));
            assert_int_equal(record.ts, i < 2 ? 50 : 57);
            assert_int_equal(record.waking.pid, 11 + i);
            assert_int_equal(record.waking.target_cpu, 1 + i);
            assert_int_equal(record.waking.prio, 120 + i);
            assert_int_equal(record.waking.has_flags, with_flags);
            assert_int_equal(record.waking.common_flags, with_flags ? 4 + i : 0);
            assert_memory_equal(record.waking.comm.text, "name", record.waking.comm.size);
        }
        assert_false(run_next(run, &record));
        run_free(run);
        run = run_open(measure.messages[RUN_SWITCH], RUN_SWITCH, true);
        assert_true(run_next(run, &record));
        assert_int_equal(record.ts, 80);
        assert_int_equal(record.sched_switch.prev_state, 2);
        assert_int_equal(record.sched_switch.next_pid, 21);
        assert_int_equal(record.sched_switch.next_prio, 100);
        assert_int_equal(record.sched_switch.comm.size, 4);
        run_free(run);
    }
}

static void a_name_beyond_the_table_is_damage(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    struct bundle_measure measure;
    bundle_measure(write_both_runs(&w, false, 1), &measure);
    assert_true(measure.damaged);
    assert_int_equal(measure.runs[RUN_SWITCH].n, 0);
    assert_int_equal(measure.runs[RUN_WAKING].n, 3);
}

static void write_event(struct wire_writer *w, uint64_t ts, uint64_t pid)
{
    size_t event = wire_begin(w, PB_FtraceEventBundle_event);
    wire_uint(w, PB_FtraceEvent_timestamp, ts);
    wire_uint(w, PB_FtraceEvent_pid, pid);
    wire_end(w, event);
}

static void events_of_one_time_keep_their_order(void **state)
{
    (void)state;
    static const uint64_t times[] = {5, 3, 5, 4, 5, 3}, sorted_pids[] = {1, 5, 3, 0, 2, 4};
    uint8_t bytes[256];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    struct bundle_measure measure;
    struct run_record record;
    for (size_t i = 0; i < ELEMENTS(times); i++)
        write_event(&w, times[i], i);
    bundle_measure(wire_reader_over(bytes, wire_size(&w)), &measure);
    assert_false(measure.runs[RUN_EVENTS].sorted);
    assert_int_equal(measure.runs[RUN_EVENTS].min_ts, 3);
    assert_int_equal(measure.runs[RUN_EVENTS].max_ts, 5);
    struct run *run = run_open(measure.messages[RUN_EVENTS], RUN_EVENTS, false);
    for (size_t i = 0; i < ELEMENTS(times); i++) {
        struct wire_field field;
        assert_true(run_next(run, &record));
        assert_true(wire_next(&record.event, &field));
        assert_int_equal(field.number, PB_FtraceEvent_pid);
        assert_int_equal(field.value, sorted_pids[i]);
    }
    assert_false(run_next(run, &record));
    run_free(run);
}

// Numbers where messages should be, and a message where a number should be.
static void fields_of_another_type_are_no_events(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    struct bundle_measure measure;
    struct run_record record;
    wire_uint(&w, PB_FtraceEventBundle_event, 7);
    wire_uint(&w, PB_FtraceEventBundle_compact_sched, 7);
    size_t event = wire_begin(&w, PB_FtraceEventBundle_event);
    wire_string(&w, PB_FtraceEvent_timestamp, "9");
    wire_end(&w, event);
    write_event(&w, 9, 1);
    bundle_measure(wire_reader_over(bytes, wire_size(&w)), &measure);
    assert_int_equal(measure.n_untimed, 2);
    assert_int_equal(measure.runs[RUN_EVENTS].n, 1);
    assert_int_equal(measure.runs[RUN_SWITCH].n + measure.runs[RUN_WAKING].n, 0);
    struct run *run = run_open(measure.messages[RUN_EVENTS], RUN_EVENTS, true);
    assert_true(run_next(run, &record));
    assert_int_equal(record.ts, 9);
    assert_false(run_next(run, &record));
    run_free(run);
}

// A sanitizer notices a read beyond the allocation.
static void an_empty_event_ends_the_memory(void **state)
{
    (void)state;
    struct bundle_measure measure;
    uint8_t *bytes = malloc(2);
    bytes[0] = PB_FtraceEventBundle_event << 3 | WIRE_BYTES;
    bytes[1] = 0;
    bundle_measure(wire_reader_over(bytes, 2), &measure);
    assert_int_equal(measure.n_untimed, 1);
    free(bytes);
}

static void a_bundle_tells_whether_it_is_ordered(void **state)
{
    (void)state;
    for (uint64_t ordered = 0; ordered < 2; ordered++) {
        uint8_t bytes[16];
        struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
        struct bundle_measure measure;
        wire_uint(&w, PB_FtraceEventBundle_ordered, ordered);
        bundle_measure(wire_reader_over(bytes, wire_size(&w)), &measure);
        assert_int_equal(measure.ordered, ordered);
    }
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
        cmocka_unit_test(columns_reach_their_fields),
        cmocka_unit_test(a_name_beyond_the_table_is_damage),
        cmocka_unit_test(events_of_one_time_keep_their_order),
        cmocka_unit_test(fields_of_another_type_are_no_events),
        cmocka_unit_test(an_empty_event_ends_the_memory),
        cmocka_unit_test(a_bundle_tells_whether_it_is_ordered),
        cmocka_unit_test(bundles_need_a_processor),
        cmocka_unit_test(events_need_a_time),
        cmocka_unit_test(data_is_complete_from_the_last_processor_on),
        cmocka_unit_test(descriptors_of_events_come_first),
        cmocka_unit_test(bundles_of_unknown_clocks_are_left_out),
    };
    return cmocka_run_group_tests_name("trace_bundles", tests, NULL, NULL);
}
