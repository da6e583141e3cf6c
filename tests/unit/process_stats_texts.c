// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "common/elements.h"
#include "producer/sources/process_stats/process_stats_texts.h"
#include "producer/sources/system_info/system_info_texts.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

static struct span text_of(const char *text)
{
    return span_over(text, strlen(text));
}

static const char status_text[] = "Name:\tworker (a) b\n"
                                  "Umask:\t0022\n"
                                  "Tgid:\t4242\n"
                                  "Pid:\t4243\n"
                                  "PPid:\t17\n"
                                  "Uid:\t1000\t1001\t1002\t1003\n"
                                  "NSpid:\t4243\t12\t3\n"
                                  "Kthread:\t0\n"
                                  "VmSize:\t    3060 kB\n"
                                  "VmLck:\t       4 kB\n"
                                  "VmHWM:\t    1717 kB\n"
                                  "VmRSS:\t    1716 kB\n"
                                  "RssAnon:\t     116 kB\n"
                                  "RssFile:\t    1600 kB\n"
                                  "RssShmem:\t       2 kB\n"
                                  "VmSwap:\t       9 kB\n"
                                  "Threads:\t5\n";

static void status_fields(void **state)
{
    (void)state;
    struct process_counters counters = {0};
    struct process_status status;
    assert_true(process_status_parse(text_of(status_text), &status, &counters));
    assert_int_equal(status.pid, 4243);
    assert_int_equal(status.tgid, 4242);
    assert_int_equal(status.ppid, 17);
    assert_int_equal(status.uid, 1000);
    assert_int_equal(status.n_threads, 5);
    assert_int_equal(status.kthread, 0);
    assert_true(status.has_memory);
    assert_string_equal(status.name, "worker (a) b");
    static const int64_t expected[] = {3060, 1716, 116, 1600, 2, 9, 4, 1717};
    for (int i = COUNTER_VM_SIZE; i <= COUNTER_VM_HWM; i++) {
        assert_true(counters.present & 1u << i);
        assert_int_equal(counters.values[i], expected[i]);
    }
    uint8_t bytes[64];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    assert_true(nspid_write(status.nspid, &w, 6));
    static const uint8_t ids[] = {6 << 3, 12, 6 << 3, 3};
    assert_int_equal(wire_size(&w), sizeof(ids));
    assert_memory_equal(bytes, ids, sizeof(ids));
}

static void status_of_a_kernel_thread(void **state)
{
    (void)state;
    struct process_counters counters = {0};
    struct process_status status;
    assert_true(process_status_parse(
        text_of("Name:\tkswapd0\nTgid:\t50\nPid:\t50\nPPid:\t2\nNSpid:\t50\nKthread:\t1\n"),
        &status, &counters));
    assert_int_equal(status.kthread, 1);
    assert_false(status.has_memory);
    assert_int_equal(counters.present, 0);
    struct wire_writer w = wire_writer_over(NULL, 0);
    assert_false(nspid_write(status.nspid, &w, 6));
}

static void names_in_status_are_unescaped(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"a\\nb", "a\nb"},
        {"a\\\\nb", "a\\nb"},
        {" blanks ", " blanks "},
        {"\\\\\\n", "\\\n"},
        {"end\\", "end\\"},
        {"\\t", "\\t"},
        {"", ""},
    };
    struct process_status status;
    char text[256];
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        snprintf(text, sizeof(text), "Name:\t%s\nTgid:\t5\nPid:\t5\n", names[i][0]);
        assert_true(process_status_parse(text_of(text), &status, NULL));
        assert_string_equal(status.name, names[i][1]);
    }
    snprintf(text, sizeof(text), "Name:\t%0100d\nTgid:\t5\nPid:\t5\n", 7);
    assert_true(process_status_parse(text_of(text), &status, NULL));
    assert_int_equal(strlen(status.name), COMM_BYTES_MAX - 1);
}

static void arguments_become_utf8(void **state)
{
    (void)state;
    static const char text[] = "a\xff\0\xc3\xa4";
    uint8_t bytes[64];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    assert_int_equal(cmdline_write(span_over(text, sizeof(text) - 1), &w, 3), 2);
    static const uint8_t expected[] = {0x1a, 2, 'a', '?', 0x1a, 2, 0xc3, 0xa4};
    assert_int_equal(wire_size(&w), sizeof(expected));
    assert_memory_equal(bytes, expected, sizeof(expected));
}

static void status_without_ids_is_refused(void **state)
{
    (void)state;
    struct process_status status;
    static const char *const texts[] = {"",
                                        "Pid:\t1\n",
                                        "Tgid:\t1\n",
                                        "Tgid:\tx\nPid:\t1\n",
                                        ":\n",
                                        "Tgid:\t99999999999\nPid:\t1\n",
                                        "Tgid:\t0\nPid:\t0\n"};
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        assert_false(process_status_parse(text_of(texts[i]), &status, NULL));
    // Every truncation of a good text is either refused or read.
    for (size_t n = 0; n < sizeof(status_text); n++)
        process_status_parse(span_over(status_text, n), &status, NULL);
}

static void stat_names_may_hold_anything(void **state)
{
    (void)state;
    struct process_times times = {0};
    assert_true(process_stat_parse(
        text_of("10510 (a) 1 (b c) R 3 4 5 6 -7 8 9 10 11 12 131 142 16 17 18 19 20 21 9876 23\n"),
        &times));
    assert_int_equal(times.user_ticks, 131);
    assert_int_equal(times.kernel_ticks, 142);
    assert_int_equal(times.start_ticks, 9876);
    assert_false(process_stat_parse(text_of("10510 (cat) R 3 4 5\n"), &times));
    assert_false(process_stat_parse(text_of("10510 cat R 3 4 5\n"), &times));
    assert_false(process_stat_parse(text_of(""), &times));
}

static void rollup_counters(void **state)
{
    (void)state;
    struct process_counters counters = {0};
    smaps_rollup_parse(text_of("55d0-7ffe ---p 00000000 00:00 0    [rollup]\n"
                               "Rss:                1716 kB\nPss:                 200 kB\n"
                               "Pss_Dirty:           1 kB\nPss_Anon:            116 kB\n"
                               "Pss_File:             84 kB\nPss_Shmem:             0 kB\n"
                               "SwapPss:               3 kB\n"),
                       &counters);
    assert_int_equal(counters.values[COUNTER_SMR_RSS], 1716);
    assert_int_equal(counters.values[COUNTER_SMR_PSS], 200);
    assert_int_equal(counters.values[COUNTER_SMR_PSS_ANON], 116);
    assert_int_equal(counters.values[COUNTER_SMR_PSS_FILE], 84);
    assert_int_equal(counters.values[COUNTER_SMR_SWAP_PSS], 3);
    assert_true(counters.present & 1u << COUNTER_SMR_PSS_SHMEM);
    assert_int_equal(__builtin_popcount(counters.present), 6);
}

static void cmdline_arguments(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct wire_writer w = wire_writer_over(bytes, sizeof(bytes));
    static const char cmdline[] = "ls\0-l\0\0\0last"; // padding, and no terminator at the end
    assert_int_equal(cmdline_write(span_over(cmdline, sizeof(cmdline) - 1), &w, 3), 3);
    static const char expected[] = "\x1a\x02ls\x1a\x02-l\x1a\x04last";
    assert_int_equal(wire_size(&w), sizeof(expected) - 1);
    assert_memory_equal(bytes, expected, sizeof(expected) - 1);
    assert_int_equal(cmdline_write(span_over("\0\0\0", 3), &w, 3), 0);
    assert_int_equal(cmdline_write(span_over(NULL, 0), &w, 3), 0);
}

static void signed_numbers(void **state)
{
    (void)state;
    struct span span = text_of(" -1000\n");
    int64_t value;
    assert_true(span_take_i64(&span, &value));
    assert_int_equal(value, -1000);
    span = text_of("--1");
    assert_false(span_take_i64(&span, &value));
    span = text_of("9223372036854775808");
    assert_false(span_take_i64(&span, &value));
}

static void cpuinfo_of_x86(void **state)
{
    (void)state;
    struct span rest =
        text_of("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu mte\n"
                "power management:\n\n"
                "processor\t: 3\nmodel name\t: Another\n");
    struct span name = {0};
    struct cpu_info cpu;
    assert_true(cpu_info_next(&rest, &name, &cpu));
    assert_int_equal(cpu.number, 0);
    assert_true(span_eq(cpu.processor, "Some CPU @ 2 GHz"));
    assert_int_equal(cpu.features, 1);
    assert_int_equal(cpu.identifiers, 0);
    assert_true(cpu_info_next(&rest, &name, &cpu));
    assert_int_equal(cpu.number, 3);
    assert_true(span_eq(cpu.processor, "Another"));
    assert_false(cpu_info_next(&rest, &name, &cpu));
}

static void cpuinfo_of_arm(void **state)
{
    (void)state;
    struct span rest = text_of("Processor\t: AArch64 Processor rev 4\nprocessor\t: 0\n"
                               "Features\t: fp asimd mte mte3\nCPU implementer\t: 0x41\n"
                               "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd05\n"
                               "CPU revision\t: 4\n\nprocessor\t: 1\nCPU implementer\t: 0x51\n\n"
                               "Hardware\t: something\n");
    struct span name = {0};
    struct cpu_info cpu;
    assert_true(cpu_info_next(&rest, &name, &cpu));
    assert_int_equal(cpu.identifiers, CPU_ALL_IDENTIFIERS);
    assert_int_equal(cpu.implementer, 0x41);
    assert_int_equal(cpu.architecture, 8);
    assert_int_equal(cpu.variant, 1);
    assert_int_equal(cpu.part, 0xd05);
    assert_int_equal(cpu.revision, 4);
    assert_int_equal(cpu.features, 3);
    assert_true(cpu_info_next(&rest, &name, &cpu));
    assert_int_equal(cpu.identifiers, CPU_IMPLEMENTER);
    assert_true(span_eq(cpu.processor, "AArch64 Processor rev 4"));
    assert_false(cpu_info_next(&rest, &name, &cpu));
}

static void names_of_interrupts(void **state)
{
    (void)state;
    struct span rest = text_of(
        "           CPU0       CPU1       \n"
        " 24:          1          0  IO-APIC   5-edge      ACPI:Ged\n"
        " 28:          0          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config, two words\n"
        " 30:          0          0  IO-APIC\n"
        " 31:          0          0  cs40l26 IRQ1 Controller  Level     arch_timer\n"
        " 32:          0          0  chip  name\n"
        "NMI:          0          0   Non-maskable interrupts\n"
        "ERR:          0\n");
    unsigned n_cpus = interrupts_take_header(&rest);
    assert_int_equal(n_cpus, 2);
    struct irq_name irq;
    assert_true(irq_name_next(&rest, n_cpus, &irq));
    assert_int_equal(irq.irq, 24);
    assert_true(span_eq(irq.name, "ACPI:Ged"));
    assert_true(irq_name_next(&rest, n_cpus, &irq));
    assert_int_equal(irq.irq, 28);
    assert_true(span_eq(irq.name, "virtio0-config, two words"));
    assert_true(irq_name_next(&rest, n_cpus, &irq));
    assert_int_equal(irq.irq, 31);
    assert_true(span_eq(irq.name, "arch_timer"));
    assert_true(irq_name_next(&rest, n_cpus, &irq));
    assert_int_equal(irq.irq, 32);
    assert_true(span_eq(irq.name, "name"));
    assert_false(irq_name_next(&rest, n_cpus, &irq));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_fields),
        cmocka_unit_test(status_of_a_kernel_thread),
        cmocka_unit_test(names_in_status_are_unescaped),
        cmocka_unit_test(arguments_become_utf8),
        cmocka_unit_test(status_without_ids_is_refused),
        cmocka_unit_test(stat_names_may_hold_anything),
        cmocka_unit_test(rollup_counters),
        cmocka_unit_test(cmdline_arguments),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(cpuinfo_of_x86),
        cmocka_unit_test(cpuinfo_of_arm),
        cmocka_unit_test(names_of_interrupts),
    };
    return cmocka_run_group_tests_name("process_stats_texts", tests, NULL, NULL);
}
