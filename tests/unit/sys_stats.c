// SPDX-License-Identifier: Apache-2.0

#include "common/elements.h"
#include "producer/ground/proc_text.h"
#include "tests/unit/source_fixture.h"

static void copy_data(const struct source_fixture *f, const char *name)
{
    static char text[1 << 16];
    char path[128];
    ssize_t n = text_file_read_once(text, sizeof(text), TEST_DATA_DIR, "/proc/%s", name);
    assert_true(n > 0);
    snprintf(path, sizeof(path), "proc/%s", name);
    fixture_write(f, path, text, (size_t)n);
}

struct counts {
    uint64_t meminfo, vmstat, stat, shared, packets;
};

// Takes all packets out and counts their contents. The source was started after `start`.
static struct counts take_packets(struct source_fixture *f, nsec_t start, uint32_t meminfo_ms)
{
    struct counts counts = {0};
    struct packet_view view;
    uint64_t previous_end = (uint64_t)start;
    for (; packet_buffer_peek(f->buffer, &view); packet_buffer_consume(f->buffer)) {
        struct wire_field stats;
        if (!message_field(view.data, view.size, PB_TracePacket_sys_stats, &stats))
            continue;
        counts.packets++;
        uint64_t timestamp = message_number(view.data, view.size, PB_TracePacket_timestamp);
        uint64_t end = message_number(stats.data, stats.size, PB_SysStats_collection_end_timestamp);
        assert_true(timestamp >= previous_end && end >= timestamp);
        previous_end = end;
        bool meminfo = message_count(stats.data, stats.size, PB_SysStats_meminfo) > 0;
        bool vmstat = message_count(stats.data, stats.size, PB_SysStats_vmstat) > 0;
        // A sample may come late, but never before its place in the grid.
        if (meminfo)
            assert_true(timestamp - (uint64_t)start >= counts.meminfo * meminfo_ms * 1000000);
        counts.meminfo += meminfo;
        counts.vmstat += vmstat;
        counts.stat += message_count(stats.data, stats.size, PB_SysStats_cpu_stat) > 0;
        counts.shared += meminfo && vmstat;
    }
    return counts;
}

static void periods_need_not_be_multiples(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 1 << 20);
    copy_data(&f, "vmstat");
    copy_data(&f, "meminfo");
    copy_data(&f, "stat");
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.meminfo_period_ms = 7;
    sys_stats.vmstat_period_ms = 25;
    sys_stats.stat_period_ms = 40;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    struct grid_span span = {.first_min = nsec_now(CLOCK_BOOTTIME)};
    fixture_start(&f, &config);
    span.first_max = nsec_now(CLOCK_BOOTTIME);
    fixture_run_until_events(&f, 60);
    run_what_is_due(f.loop, &span);
    f.class->stop(f.source);
    struct source_counts source_counts;
    f.class->counts(f.source, &source_counts);
    struct counts counts = take_packets(&f, span.first_min, 7);
    assert_int_equal(source_counts.events, counts.packets);
    // Every grid point has its sample or is counted as slept through.
    uint64_t n = counts.meminfo + counts.vmstat + counts.stat + source_counts.readings_missed;
    uint64_t n_min = 0, n_max = 0;
    const uint64_t found[] = {counts.meminfo, counts.vmstat, counts.stat};
    static const nsec_t period_ms[] = {7, 25, 40};
    for (size_t i = 0; i < 3; i++) {
        uint64_t n_points = grid_points_max(&span, period_ms[i] * NSEC_PER_MSEC);
        assert_in_range(found[i], 2, n_points);
        n_min += grid_points_min(&span, period_ms[i] * NSEC_PER_MSEC);
        n_max += n_points;
    }
    assert_in_range(n, n_min, n_max);
    assert_true(counts.shared >= 1); // the first samples share a packet
    fixture_done(&f);
}

static void one_millisecond(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 4 << 20);
    copy_data(&f, "vmstat");
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.vmstat_period_ms = 1;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    struct grid_span span = {.first_min = nsec_now(CLOCK_BOOTTIME)};
    fixture_start(&f, &config);
    span.first_max = nsec_now(CLOCK_BOOTTIME);
    fixture_run_until_events(&f, 50);
    run_what_is_due(f.loop, &span);
    f.class->stop(f.source);
    struct source_counts source_counts;
    f.class->counts(f.source, &source_counts);
    struct counts counts = take_packets(&f, span.first_min, 0);
    assert_in_range(counts.vmstat + source_counts.readings_missed,
                    grid_points_min(&span, NSEC_PER_MSEC), grid_points_max(&span, NSEC_PER_MSEC));
    assert_true(counts.vmstat >= 50);
    fixture_done(&f);
}

static void packets_grow_to_what_they_hold(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 1 << 20);
    struct strbuf slabs = {0}, stat = {0};
    strbuf_add_str(&slabs, "slabinfo - version: 2.1\n# name\n");
    for (unsigned i = 0; i < 2000; i++)
        strbuf_addf(&slabs, "slab-%u 1 2 3 4 5 : tunables 0 0 0 : slabdata 6 %u 0\n", i, i);
    for (unsigned i = 0; i < 1000; i++)
        strbuf_addf(&stat, "cpu%u 1 2 3 4 5 6 7 8 9 10\n", i);
    fixture_text(&f, "proc/slabinfo", slabs.text);
    fixture_text(&f, "proc/stat", stat.text);
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.slab_period_ms = 1000;
    sys_stats.stat_period_ms = 1000;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    fixture_start(&f, &config);
    struct packet_view view;
    assert_true(packet_buffer_peek(f.buffer, &view));
    struct wire_field stats;
    assert_true(message_field(view.data, view.size, PB_TracePacket_sys_stats, &stats));
    assert_int_equal(message_count(stats.data, stats.size, PB_SysStats_slab_info), 2000);
    assert_int_equal(message_count(stats.data, stats.size, PB_SysStats_cpu_stat), 1000);
    assert_int_equal(f.writer.packets_dropped, 0);
    strbuf_done(&slabs);
    strbuf_done(&stat);
    fixture_done(&f);
}

static void absent_files_leave_the_rest(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 1 << 16);
    copy_data(&f, "meminfo");
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.meminfo_period_ms = 1000;
    sys_stats.vmstat_period_ms = 1000;
    sys_stats.psi_period_ms = 1000;
    sys_stats.thermal_period_ms = 1000;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    fixture_start(&f, &config);
    assert_int_equal(take_packets(&f, 0, 0).meminfo, 1);
    assert_non_null(strstr(f.log_text.text, "/proc/vmstat: No such file"));
    assert_non_null(strstr(f.log_text.text, "linux.sys_stats: thermal: "));
    fixture_done(&f);
}

static void nothing_left_is_a_failure(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 1 << 16);
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.vmstat_period_ms = 1000;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    struct err err = {0};
    assert_int_equal(f.class->open(&f.env, &config, &f.source, &err), -ENOENT);
    assert_null(f.source);
    assert_non_null(strstr(err.text, "none of the requested counters can be read"));
    fixture_done(&f);
}

static void sysfs_values(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 1 << 16);
    fixture_text(&f, "sys/devices/system/cpu/cpu10/cpufreq/scaling_cur_freq", "2400000\n");
    fixture_text(&f, "sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "1200000\n");
    for (unsigned i = 0; i < 12; i++) {
        char path[128], text[32];
        snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu2/cpuidle/state%u/name", i);
        snprintf(text, sizeof(text), "C%u\n", i);
        fixture_text(&f, path, text);
        snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu2/cpuidle/state%u/time", i);
        snprintf(text, sizeof(text), "%u\n", 1000 + i);
        fixture_text(&f, path, text);
    }
    fixture_text(&f, "sys/class/thermal/thermal_zone0/temp", "45678\n");
    fixture_text(&f, "sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
    fixture_text(&f, "sys/class/thermal/thermal_zone1/temp", "-5000\n");
    fixture_text(&f, "sys/class/thermal/cooling_device0/type", "fan\n");
    fixture_text(&f, "sys/class/devfreq/gpu.0/cur_freq", "300000000\n");
    fixture_text(&f, "sys/class/drm/card0/device/pp_dpm_sclk", "0: 300Mhz\n1: 700Mhz *\n");
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.cpufreq_period_ms = sys_stats.cpuidle_period_ms = 100;
    sys_stats.thermal_period_ms = sys_stats.devfreq_period_ms = sys_stats.gpufreq_period_ms = 100;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    fixture_start(&f, &config);
    struct packet_view view;
    struct wire_field stats, field, inner;
    assert_true(packet_buffer_peek(f.buffer, &view));
    assert_true(message_field(view.data, view.size, PB_TracePacket_sys_stats, &stats));
    // The place is the cpu's number.
    static const uint64_t khz[] = {0, 0, 1200000, 0, 0, 0, 0, 0, 0, 0, 2400000};
    struct wire_reader values = wire_sub(&stats);
    size_t n = 0;
    while (wire_next(&values, &inner))
        if (inner.number == PB_SysStats_cpufreq_khz)
            assert_int_equal(inner.value, khz[n++]);
    assert_int_equal(n, 11);
    assert_true(message_field(stats.data, stats.size, PB_SysStats_cpuidle_state, &field));
    assert_int_equal(message_number(field.data, field.size, PB_SysStats_CpuIdleState_cpu_id), 2);
    assert_int_equal(
        message_count(field.data, field.size, PB_SysStats_CpuIdleState_cpuidle_state_entry), 12);
    struct wire_reader states = wire_sub(&field);
    for (unsigned i = 0; wire_next(&states, &inner);) {
        if (inner.number != PB_SysStats_CpuIdleState_cpuidle_state_entry)
            continue;
        assert_int_equal(
            message_number(inner.data, inner.size, PB_SysStats_CpuIdleStateEntry_duration_us),
            1000 + i);
        i++;
    }
    assert_int_equal(message_count(stats.data, stats.size, PB_SysStats_thermal_zone), 2);
    assert_true(message_field(stats.data, stats.size, PB_SysStats_thermal_zone, &field));
    assert_int_equal(message_number(field.data, field.size, PB_SysStats_ThermalZone_temp), 45);
    assert_true(message_field(field.data, field.size, PB_SysStats_ThermalZone_type, &inner));
    assert_true(field_is_text(&inner, "cpu-thermal"));
    assert_true(message_field(stats.data, stats.size, PB_SysStats_devfreq, &field));
    assert_int_equal(message_number(field.data, field.size, PB_SysStats_DevfreqValue_value),
                     300000000);
    assert_int_equal(message_number(stats.data, stats.size, PB_SysStats_gpufreq_mhz), 700);
    fixture_done(&f);
}

static void broken_files(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "\n",
                                        "\0\0\0",
                                        "no newline",
                                        "Node 0,\ncpu\nintr\n",
                                        "some total=99999999999999999999999\n"};
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct source_fixture f;
        fixture_init(&f, "linux.sys_stats", 1 << 16);
        static const char *const files[] = {"meminfo",      "vmstat",      "stat",
                                            "buddyinfo",    "diskstats",   "slabinfo",
                                            "pressure/cpu", "pressure/io", "pressure/memory"};
        for (size_t j = 0; j < ELEMENTS(files); j++) {
            char path[64];
            snprintf(path, sizeof(path), "proc/%s", files[j]);
            fixture_text(&f, path, texts[i]);
        }
        Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
        sys_stats.meminfo_period_ms = sys_stats.vmstat_period_ms = sys_stats.stat_period_ms = 2;
        sys_stats.buddyinfo_period_ms = sys_stats.diskstat_period_ms = 2;
        sys_stats.slab_period_ms = sys_stats.psi_period_ms = 2;
        Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
        config.sys_stats_config = &sys_stats;
        fixture_start(&f, &config);
        fixture_run(&f, 5 * NSEC_PER_MSEC);
        assert_true(take_packets(&f, 0, 0).packets >= 1);
        fixture_done(&f);
    }
}

static void values_follow_the_file(void **state)
{
    (void)state;
    struct source_fixture f;
    fixture_init(&f, "linux.sys_stats", 1 << 16);
    fixture_text(&f, "proc/vmstat", "nr_free_pages 1\npgpgin 2\n");
    Pb__SysStatsConfig sys_stats = PB__SYS_STATS_CONFIG__INIT;
    sys_stats.vmstat_period_ms = 5;
    Pb__VmstatCounters keys[] = {PB__VMSTAT_COUNTERS__VMSTAT_PGPGIN};
    sys_stats.n_vmstat_counters = 1;
    sys_stats.vmstat_counters = keys;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.sys_stats_config = &sys_stats;
    fixture_start(&f, &config);
    fixture_text(&f, "proc/vmstat", "nr_free_pages 123456\npgpgin 234567\n");
    fixture_run(&f, 12 * NSEC_PER_MSEC);
    uint64_t last = 0;
    struct packet_view view;
    for (; packet_buffer_peek(f.buffer, &view); packet_buffer_consume(f.buffer)) {
        struct wire_field stats, counter;
        assert_true(message_field(view.data, view.size, PB_TracePacket_sys_stats, &stats));
        assert_int_equal(message_count(stats.data, stats.size, PB_SysStats_vmstat), 1);
        assert_true(message_field(stats.data, stats.size, PB_SysStats_vmstat, &counter));
        last = message_number(counter.data, counter.size, PB_SysStats_VmstatValue_value);
    }
    assert_int_equal(last, 234567);
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(periods_need_not_be_multiples),
        cmocka_unit_test(one_millisecond),
        cmocka_unit_test(packets_grow_to_what_they_hold),
        cmocka_unit_test(absent_files_leave_the_rest),
        cmocka_unit_test(nothing_left_is_a_failure),
        cmocka_unit_test(sysfs_values),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(values_follow_the_file),
    };
    return cmocka_run_group_tests_name("sys_stats", tests, NULL, NULL);
}
