// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/source_fixture.h"

// Many cpus fill a large packet, which fits even into a small ring.
static void all_cpus_fit_a_small_ring(void **state)
{
    (void)state;
    struct source_fixture f;
    struct strbuf text = {0};
    fixture_init(&f, "linux.system_info", 64 << 10);
    for (unsigned cpu = 0; cpu < 500; cpu++)
        strbuf_addf(&text, "processor\t: %u\nmodel name\t: A Cpu of Some Name @ %u MHz\n\n", cpu,
                    cpu);
    fixture_write(&f, "proc/cpuinfo", text.text, text.size);
    struct packet_meta other = {.sequence_id = 9};
    for (size_t i = 0, size; i < 100; i++) { // packets of other sources fill the ring
        assert_non_null(packet_buffer_reserve(f.buffer, 1000, 1000, &size));
        packet_buffer_commit(f.buffer, size, &other);
    }
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    fixture_start(&f, &config);
    struct packet_cursor cursor = {0};
    struct packet_view view;
    struct wire_field info = {0};
    while (packet_buffer_next(f.buffer, &cursor, &view))
        if (view.sequence_id == f.writer.sequence_id)
            assert_true(message_field(view.data, view.size, PB_TracePacket_cpu_info, &info));
    assert_int_equal(message_count(info.data, info.size, PB_CpuInfo_cpus), 500);
    assert_int_equal(f.writer.packets_dropped, 0);
    strbuf_done(&text);
    fixture_done(&f);
}

static void without_cpus_nothing_is_written(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.system_info", 64 << 10);
    fixture_text(&f, "proc/cpuinfo", "vendor : somebody\n");
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    fixture_start(&f, &config);
    struct packet_view view;
    assert_false(packet_buffer_peek(f.buffer, &view));
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cpus_fit_a_small_ring),
        cmocka_unit_test(without_cpus_nothing_is_written),
    };
    return cmocka_run_group_tests_name("system_info", tests, NULL, NULL);
}
