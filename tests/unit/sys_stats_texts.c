// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/elements.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/sys_stats/counter_keys.h"
#include "producer/sources/sys_stats/sys_stats_texts.h"
#include "producer/sources/sys_stats/sysfs.h"
#include "protos/config/sys_stats_config.pb-c.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

static char text_buffer[1 << 16];
static uint8_t wire_buffer[1 << 16];

static struct span data_file(const char *name)
{
    ssize_t n =
        text_file_read_once(text_buffer, sizeof(text_buffer), TEST_DATA_DIR, "/proc/%s", name);
    assert_true(n > 0);
    return span_over(text_buffer, (size_t)n);
}

static struct span text_of(const char *text)
{
    return span_over(text, strlen(text));
}

static struct wire_writer writer_new(void)
{
    return wire_writer_over(wire_buffer, sizeof(wire_buffer));
}

static struct wire_reader reader_of(const struct wire_writer *w)
{
    assert_false(w->overflow);
    return wire_reader_over(w->start, wire_size(w));
}

// Sets *ret to the `index`th field `number` of a message. Returns false if there are fewer.
static bool nth_field(struct wire_reader reader, uint32_t number, size_t index,
                      struct wire_field *ret)
{
    while (wire_next(&reader, ret))
        if (ret->number == number && index-- == 0)
            return true;
    assert_false(reader.error);
    return false;
}

static size_t count_fields(struct wire_reader reader, uint32_t number)
{
    struct wire_field field;
    size_t n = 0;
    while (nth_field(reader, number, n, &field))
        n++;
    return n;
}

// The number in field `inner` of the `index`th submessage `outer`.
static uint64_t inner_number(const struct wire_writer *w, uint32_t outer, size_t index,
                             uint32_t inner)
{
    struct wire_field field, value;
    assert_true(nth_field(reader_of(w), outer, index, &field));
    assert_true(nth_field(wire_sub(&field), inner, 0, &value));
    return value.value;
}

static void assert_inner_text(const struct wire_writer *w, uint32_t outer, size_t index,
                              uint32_t inner, const char *text)
{
    struct wire_field field, value;
    assert_true(nth_field(reader_of(w), outer, index, &field));
    assert_true(nth_field(wire_sub(&field), inner, 0, &value));
    assert_int_equal(value.size, strlen(text));
    assert_memory_equal(value.data, text, value.size);
}

// The value of counter `key` among the messages `field`; -1 if it is absent.
static int64_t counter_value(const struct wire_writer *w, uint32_t field, uint32_t key)
{
    for (size_t i = 0; i < count_fields(reader_of(w), field); i++)
        if (inner_number(w, field, i, 1) == key)
            return (int64_t)inner_number(w, field, i, 2);
    return -1;
}

static struct wire_writer write_counters(struct counter_set *set, struct span text)
{
    struct wire_writer w = writer_new();
    counter_set_write(set, text, &w, PB_SysStats_vmstat);
    return w;
}

static void all_counters_without_a_choice(void **state)
{
    (void)state;
    struct counter_set set;
    assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, NULL, 0), 0);
    struct span text = data_file("vmstat");
    assert_int_equal(counter_set_learn(&set, text), 0);
    struct wire_writer w = write_counters(&set, text);
    // Lines whose name is in the schema, found by a simple search.
    size_t n_expected = 0;
    struct span rest = text, line, name;
    while (span_take_line(&rest, &line)) {
        char key_name[128];
        uint64_t value;
        assert_true(span_take_word(&line, &name));
        assert_true(span_take_u64(&line, &value));
        int n = snprintf(key_name, sizeof(key_name), "VMSTAT_%.*s", (int)span_size(name), name.pos);
        for (int i = 0; i < n; i++)
            if (key_name[i] >= 'a' && key_name[i] <= 'z')
                key_name[i] -= 'a' - 'A';
        const ProtobufCEnumValue *key = protobuf_c_enum_descriptor_get_value_by_name(
            &pb__vmstat_counters__descriptor, key_name);
        if (!key)
            continue;
        n_expected++;
        assert_int_equal(counter_value(&w, PB_SysStats_vmstat, (uint32_t)key->value), value);
    }
    assert_true(n_expected > 100);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_vmstat), n_expected);
    counter_set_done(&set);
}

static void meminfo_names_with_parentheses_and_aliases(void **state)
{
    (void)state;
    struct counter_set set;
    assert_int_equal(counter_set_init(&set, &counter_kind_meminfo, NULL, 0), 0);
    struct span text = text_of("MemTotal:       24684084 kB\n"
                               "Active:           133172 kB\n"
                               "Active(anon):       1572 kB\n"
                               "SReclaimable:      28236 kB\n"
                               "SUnreclaim:        22780 kB\n"
                               "Committed_AS:      76540 kB\n"
                               "SomethingNew:          1 kB\n");
    assert_int_equal(counter_set_learn(&set, text), 0);
    struct wire_writer w = write_counters(&set, text);
    assert_int_equal(counter_value(&w, 2, PB_MEMINFO_MEM_TOTAL), 24684084);
    assert_int_equal(counter_value(&w, 2, PB_MEMINFO_ACTIVE), 133172);
    assert_int_equal(counter_value(&w, 2, PB_MEMINFO_ACTIVE_ANON), 1572);
    assert_int_equal(counter_value(&w, 2, PB_MEMINFO_SLAB_RECLAIMABLE), 28236);
    assert_int_equal(counter_value(&w, 2, PB_MEMINFO_SLAB_UNRECLAIMABLE), 22780);
    assert_int_equal(counter_value(&w, 2, PB_MEMINFO_COMMITED_AS), 76540);
    assert_int_equal(count_fields(reader_of(&w), 2), 6);
    counter_set_done(&set);
}

static void places_follow_numbers_that_grow(void **state)
{
    (void)state;
    static const int keys[] = {PB_VMSTAT_PGPGOUT, PB_VMSTAT_NR_FREE_PAGES, PB_VMSTAT_PSWPIN};
    struct counter_set set;
    assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, keys, 3), 0);
    assert_int_equal(
        counter_set_learn(&set, text_of("nr_free_pages 9\npgpgin 8\npgpgout 7\npswpin 6\n")), 0);
    assert_int_equal(set.n_places, 3);
    struct wire_writer w = write_counters(
        &set, text_of("nr_free_pages 1000000\npgpgin 8\npgpgout 123456789012\npswpin 0\n"));
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_NR_FREE_PAGES), 1000000);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_PGPGOUT), 123456789012);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_PSWPIN), 0);
    assert_false(set.stale);
    counter_set_done(&set);
}

static void moved_lines_are_searched(void **state)
{
    (void)state;
    static const int keys[] = {PB_VMSTAT_PGPGIN, PB_VMSTAT_PGPGOUT, PB_VMSTAT_PSWPIN};
    struct counter_set set;
    assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, keys, 3), 0);
    assert_int_equal(counter_set_learn(&set, text_of("pgpgin 1\npgpgout 2\npswpin 3\n")), 0);
    struct wire_writer w = write_counters(&set, text_of("pswpin 30\nnew 4\npgpgin 10\n"));
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_PGPGIN), 10);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_PSWPIN), 30);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_PGPGOUT), -1);
    assert_true(set.stale);
    counter_set_done(&set);
}

static void split_counters_stand_in(void **state)
{
    (void)state;
    static const int keys[] = {PB_VMSTAT_WORKINGSET_REFAULT, PB_VMSTAT_PGSTEAL_KSWAPD_DMA,
                               PB_VMSTAT_PGSTEAL_KSWAPD_NORMAL, PB_VMSTAT_NR_ALLOC_BATCH};
    struct counter_set set;
    assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, keys, 4), 0);
    struct span text = text_of("workingset_refault_anon 1\nworkingset_refault_file 2\n"
                               "pgsteal_kswapd 3\npgsteal_direct 4\n");
    assert_int_equal(counter_set_learn(&set, text), 0);
    struct wire_writer w = write_counters(&set, text);
    assert_int_equal(count_fields(reader_of(&w), 2), 3);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_WORKINGSET_REFAULT_ANON), 1);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_WORKINGSET_REFAULT_FILE), 2);
    assert_int_equal(counter_value(&w, 2, PB_VMSTAT_PGSTEAL_KSWAPD), 3);
    struct strbuf missing = {0};
    counter_set_list_missing(&set, keys, 4, &missing);
    assert_string_equal(missing.text, "VMSTAT_NR_ALLOC_BATCH");
    strbuf_done(&missing);
    counter_set_done(&set);
}

static void unknown_counters_are_passed_over(void **state)
{
    (void)state;
    struct counter_set set;
    static const int keys[] = {100000, -1, 0, PB_VMSTAT_PGPGIN}, unknown[] = {100000};
    struct span text = text_of("pgpgin 1\npgpgout 2\n");
    assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, keys, 4), 3);
    assert_int_equal(counter_set_learn(&set, text), 0);
    struct wire_writer w = write_counters(&set, text);
    assert_int_equal(count_fields(reader_of(&w), 2), 1);
    counter_set_done(&set);
    // A choice of unknown counters alone leaves no counter; without a choice all counters are read.
    assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, unknown, 1), 1);
    assert_int_equal(counter_set_learn(&set, text), 0);
    w = write_counters(&set, text);
    assert_int_equal(wire_size(&w), 0);
    counter_set_done(&set);
}

static void broken_counter_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {"",        "\n\n\n",     "pgpgin",
                                        "pgpgin ", "pgpgin x\n", "pgpgin 99999999999999999999999\n",
                                        " 1\n"};
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct counter_set set;
        assert_int_equal(counter_set_init(&set, &counter_kind_vmstat, NULL, 0), 0);
        assert_int_equal(counter_set_learn(&set, text_of(texts[i])), 0);
        struct wire_writer w = write_counters(&set, text_of(texts[i]));
        assert_int_equal(wire_size(&w), 0);
        counter_set_done(&set);
    }
}

static void stat_times_and_interrupts(void **state)
{
    (void)state;
    struct wire_writer w = writer_new();
    stat_text_write(data_file("stat"), UINT32_MAX, 10000000, &w);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_cpu_stat), 2);
    assert_int_equal(inner_number(&w, PB_SysStats_cpu_stat, 1, PB_SysStats_CpuTimes_cpu_id), 1);
    assert_int_equal(inner_number(&w, PB_SysStats_cpu_stat, 1, PB_SysStats_CpuTimes_user_ns),
                     33050000000);
    assert_int_equal(inner_number(&w, PB_SysStats_cpu_stat, 0, PB_SysStats_CpuTimes_steal_ns),
                     50000000);
    // Hard interrupts that never came are left out, soft interrupts are not.
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_num_irq), 3);
    assert_int_equal(inner_number(&w, PB_SysStats_num_irq, 1, PB_SysStats_InterruptCount_irq), 3);
    assert_int_equal(inner_number(&w, PB_SysStats_num_irq, 1, PB_SysStats_InterruptCount_count),
                     221);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_num_softirq), 10);
    struct wire_field field;
    assert_true(nth_field(reader_of(&w), PB_SysStats_num_irq_total, 0, &field));
    assert_int_equal(field.value, 191968);
    assert_true(nth_field(reader_of(&w), PB_SysStats_num_softirq_total, 0, &field));
    assert_int_equal(field.value, 136745);
    assert_true(nth_field(reader_of(&w), PB_SysStats_num_forks, 0, &field));
    assert_int_equal(field.value, 14038);
}

static void stat_parts_are_chosen(void **state)
{
    (void)state;
    struct wire_writer w = writer_new();
    stat_text_write(data_file("stat"), 1u << PB_STAT_FORK_COUNT, 10000000, &w);
    struct wire_reader reader = reader_of(&w);
    struct wire_field field;
    assert_true(wire_next(&reader, &field));
    assert_int_equal(field.number, PB_SysStats_num_forks);
    assert_false(wire_next(&reader, &field));
}

static void psi_in_nanoseconds(void **state)
{
    (void)state;
    struct wire_writer w = writer_new();
    psi_text_write(text_of("some avg10=39.24 avg60=16.62 avg300=4.65 total=21639421\n"
                           "full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n"
                           "other total=1\nsome\nfull total=x\n"),
                   PB_PSI_RESOURCE_IO_SOME, PB_PSI_RESOURCE_IO_FULL, &w);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_psi), 2);
    assert_int_equal(inner_number(&w, PB_SysStats_psi, 0, PB_SysStats_PsiSample_resource),
                     PB_PSI_RESOURCE_IO_SOME);
    assert_int_equal(inner_number(&w, PB_SysStats_psi, 0, PB_SysStats_PsiSample_total_ns),
                     21639421000);
    assert_int_equal(inner_number(&w, PB_SysStats_psi, 1, PB_SysStats_PsiSample_resource),
                     PB_PSI_RESOURCE_IO_FULL);
    assert_int_equal(inner_number(&w, PB_SysStats_psi, 1, PB_SysStats_PsiSample_total_ns), 17000);
}

static void buddyinfo_zones(void **state)
{
    (void)state;
    struct wire_writer w = writer_new();
    buddyinfo_text_write(text_of("Node 0, zone      DMA      0      1      2 \n"
                                 "Node 12, zone   Normal     51      3\n"
                                 "Node 0 zone DMA 1\nNode\n"),
                         &w);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_buddy_info), 2);
    assert_inner_text(&w, PB_SysStats_buddy_info, 0, PB_SysStats_BuddyInfo_node, "0");
    assert_inner_text(&w, PB_SysStats_buddy_info, 0, PB_SysStats_BuddyInfo_zone, "DMA");
    assert_inner_text(&w, PB_SysStats_buddy_info, 1, PB_SysStats_BuddyInfo_node, "12");
    struct wire_field zone, pages;
    assert_true(nth_field(reader_of(&w), PB_SysStats_buddy_info, 0, &zone));
    assert_int_equal(count_fields(wire_sub(&zone), PB_SysStats_BuddyInfo_order_pages), 3);
    assert_true(nth_field(wire_sub(&zone), PB_SysStats_BuddyInfo_order_pages, 2, &pages));
    assert_int_equal(pages.value, 2);
}

static void diskstats_columns(void **state)
{
    (void)state;
    struct wire_writer w = writer_new();
    diskstats_text_write(
        text_of(" 254       0 vda 44880 17487 8357418 25594 4199 9104 2137504 9809 0 8660 36433 "
                "5228 66 1333008 1007 314 21\n"
                "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n" // a kernel before discards
                "nonsense\n"),
        &w);
    static const uint64_t expected[] = {8357418, 25594, 2137504, 9809, 1333008, 1007, 314, 21};
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(
            inner_number(&w, PB_SysStats_disk_stat, 0, PB_SysStats_DiskStat_read_sectors + i),
            expected[i]);
    assert_inner_text(&w, PB_SysStats_disk_stat, 0, PB_SysStats_DiskStat_device_name, "vda");
    assert_int_equal(inner_number(&w, PB_SysStats_disk_stat, 1, PB_SysStats_DiskStat_write_time_ms),
                     8);
    struct wire_field disk;
    assert_true(nth_field(reader_of(&w), PB_SysStats_disk_stat, 1, &disk));
    assert_int_equal(count_fields(wire_sub(&disk), PB_SysStats_DiskStat_discard_sectors), 0);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_disk_stat), 2);
}

static void slabinfo_columns(void **state)
{
    (void)state;
    struct wire_writer w = writer_new();
    slabinfo_text_write(
        text_of("slabinfo - version: 2.1\n"
                "# name            <active_objs> <num_objs> <objsize> <objperslab> "
                "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata "
                "<active_slabs> <num_slabs> <sharedavail>\n"
                "bio-312               12     12    320   12    1 : tunables    0    0    0 : "
                "slabdata      7      9      0\n"
                "short 1 2 3\n"),
        &w);
    assert_int_equal(count_fields(reader_of(&w), PB_SysStats_slab_info), 1);
    assert_inner_text(&w, PB_SysStats_slab_info, 0, PB_SysStats_SlabInfo_name, "bio-312");
    assert_int_equal(
        inner_number(&w, PB_SysStats_slab_info, 0, PB_SysStats_SlabInfo_pages_per_slab), 1);
    assert_int_equal(inner_number(&w, PB_SysStats_slab_info, 0, PB_SysStats_SlabInfo_num_slabs), 9);
}

static void amd_clock_is_the_marked_one(void **state)
{
    (void)state;
    static const char table[] = "0: 300Mhz \n1: 700Mhz *\n2: 900Mhz\n", none[] = "0: 300Mhz \n*\n";
    assert_int_equal(amd_clock_mhz(table, strlen(table)), 700);
    assert_int_equal(amd_clock_mhz(none, strlen(none)), 0);
    assert_int_equal(amd_clock_mhz(NULL, 0), 0);
}

static void cut_lines_are_not_numbers(void **state)
{
    (void)state;
    struct span whole = span_whole_lines(text_of("pgpgin 12\npgpgout 345"));
    assert_int_equal(span_size(whole), strlen("pgpgin 12\n"));
    assert_int_equal(span_size(span_whole_lines(text_of("no newline"))), 0);
    assert_int_equal(span_size(span_whole_lines(text_of(""))), 0);
}

static void known_end_of_a_text(void **state)
{
    (void)state;
    char path[] = "/tmp/mmtrace-unit-XXXXXX", buffer[256];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "first 1\nlast 2\n";
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    struct text_file file;
    // With records of any length, only a read that returns nothing would prove the end.
    assert_int_equal(text_file_open(&file, SIZE_MAX, "", "%s", path), 0);
    assert_int_equal(text_file_read(&file, buffer, sizeof(buffer)), strlen(text));
    text_file_keep_end(&file, span_over(buffer, strlen(text)));
    assert_string_equal(file.last_name, "last");
    // The known end does not count if the read text goes on after it.
    assert_int_equal(write(fd, "more 3\n", 7), 7);
    assert_int_equal(text_file_read(&file, buffer, sizeof(buffer)), strlen(text) + 7);
    text_file_close(&file);
    text_file_keep_end(&file, span_over("cut", 3));
    assert_string_equal(file.last_name, "");
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_counters_without_a_choice),
        cmocka_unit_test(meminfo_names_with_parentheses_and_aliases),
        cmocka_unit_test(places_follow_numbers_that_grow),
        cmocka_unit_test(moved_lines_are_searched),
        cmocka_unit_test(split_counters_stand_in),
        cmocka_unit_test(unknown_counters_are_passed_over),
        cmocka_unit_test(broken_counter_texts),
        cmocka_unit_test(stat_times_and_interrupts),
        cmocka_unit_test(stat_parts_are_chosen),
        cmocka_unit_test(psi_in_nanoseconds),
        cmocka_unit_test(buddyinfo_zones),
        cmocka_unit_test(diskstats_columns),
        cmocka_unit_test(slabinfo_columns),
        cmocka_unit_test(amd_clock_is_the_marked_one),
        cmocka_unit_test(cut_lines_are_not_numbers),
        cmocka_unit_test(known_end_of_a_text),
    };
    return cmocka_run_group_tests_name("sys_stats_texts", tests, NULL, NULL);
}
