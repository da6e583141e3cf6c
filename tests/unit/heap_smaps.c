// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/heap/heap_smaps.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

static void add(struct smaps *smaps, const char *line)
{
    smaps_add_line(smaps, span_over(line, strlen(line)));
}

static void add_mapping(struct smaps *smaps, uint64_t start, uint64_t end, const char *permissions,
                        const char *path, uint64_t rss_kb)
{
    char line[256];
    snprintf(line, sizeof(line), "%lx-%lx %s 00000000 00:00 0 %s", (unsigned long)start,
             (unsigned long)end, permissions, path);
    add(smaps, line);
    snprintf(line, sizeof(line), "Size:           %8lu kB", (unsigned long)(end - start) / 1024);
    add(smaps, line);
    snprintf(line, sizeof(line), "Rss:            %8lu kB", (unsigned long)rss_kb);
    add(smaps, line);
    add(smaps, "KernelPageSize:        4 kB");
    add(smaps, "Swap:                  2 kB");
    add(smaps, "VmFlags: rd wr mr mw me ac sd");
}

static const struct smaps_row *row_of(const struct smaps *smaps, const char *name)
{
    static const struct smaps_row none;
    uint32_t id = strset_find(&smaps->names, name, strlen(name));
    return id == STRSET_NONE || id >= smaps->rows.n ? &none : &smaps->rows.items[id];
}

static void mappings_of_one_name_are_added_up(void **state)
{
    (void)state;
    struct smaps smaps = {0};
    add_mapping(&smaps, 0x1000, 0x3000, "r--p", "/usr/lib/a b.so", 4);
    add_mapping(&smaps, 0x3000, 0x5000, "r-xp", "/usr/lib/a b.so", 8);
    add_mapping(&smaps, 0x9000, 0xa000, "rw-p", "[heap]", 1);
    add_mapping(&smaps, 0x20000, 0x22000, "rw-p", "", 3);
    smaps_finish(&smaps);
    const struct smaps_row *file = row_of(&smaps, "/usr/lib/a b.so");
    assert_int_equal(file->n_mappings, 2);
    assert_int_equal(file->kb[SMAPS_SIZE], 16);
    assert_int_equal(file->kb[SMAPS_RSS], 12);
    assert_int_equal(file->kb[SMAPS_SWAP], 4);
    assert_int_equal(row_of(&smaps, "[heap]")->kb[SMAPS_RSS], 1);
    assert_int_equal(row_of(&smaps, "[anon]")->kb[SMAPS_RSS], 3);
    assert_false(smaps.failed);
    smaps_done(&smaps);
}

static void arenas_and_stacks_are_known_by_their_shape(void **state)
{
    (void)state;
    const uint64_t arena = UINT64_C(0x7f0000000000), mib = 1 << 20;
    struct smaps smaps = {0};
    add_mapping(&smaps, arena, arena + mib, "rw-p", "", 1);
    add_mapping(&smaps, arena + mib, arena + 64 * mib, "---p", "", 0);
    // The address is aligned like an arena, but no memory after it is reserved for one.
    add_mapping(&smaps, arena + 128 * mib, arena + 129 * mib, "rw-p", "", 10);
    // A full arena.
    add_mapping(&smaps, arena + 192 * mib, arena + 256 * mib, "rw-p", "", 100);
    // Two stacks side by side, each after its guard, and a mapping that only touches the second.
    add_mapping(&smaps, arena + 300 * mib, arena + 300 * mib + 4096, "---p", "", 0);
    add_mapping(&smaps, arena + 300 * mib + 4096, arena + 308 * mib, "rw-p", "", 1000);
    add_mapping(&smaps, arena + 308 * mib, arena + 308 * mib + 4096, "---p", "", 0);
    add_mapping(&smaps, arena + 308 * mib + 4096, arena + 316 * mib, "rw-p", "", 2000);
    add_mapping(&smaps, arena + 316 * mib, arena + 317 * mib, "r--p", "", 20);
    // After a guard that belongs to a file.
    add_mapping(&smaps, arena + 400 * mib, arena + 400 * mib + 4096, "---p", "/lib/x.so", 0);
    add_mapping(&smaps, arena + 400 * mib + 4096, arena + 401 * mib, "rw-p", "", 40);
    smaps_finish(&smaps);
    assert_int_equal(row_of(&smaps, "[anon:malloc arena]")->kb[SMAPS_RSS], 101);
    assert_int_equal(row_of(&smaps, "[anon:thread stack]")->kb[SMAPS_RSS], 3000);
    assert_int_equal(row_of(&smaps, "[anon]")->kb[SMAPS_RSS], 70);
    smaps_done(&smaps);
}

static void the_profiler_is_distinguished(void **state)
{
    (void)state;
    const uint64_t at = UINT64_C(0x7e0000010000), mib = 1 << 20;
    struct smaps smaps = {0};
    add_mapping(&smaps, at, at + 8192, "r-xp", "/usr/lib/mmtrace/libmmheap.so", 1);
    add_mapping(&smaps, at + 8192, at + mib, "rw-p", "", 10);
    add_mapping(&smaps, at + mib, at + 33 * mib, "rw-p", "", 200);
    add_mapping(&smaps, at + 33 * mib, at + 50 * mib, "rw-p", "", 3000);
    add_mapping(&smaps, at + 50 * mib, at + 51 * mib, "rw-p", "", 1);
    smaps_finish(&smaps);
    assert_int_equal(row_of(&smaps, "[anon:libmmheap.so]")->kb[SMAPS_RSS], 210);
    assert_int_equal(row_of(&smaps, "[anon]")->kb[SMAPS_RSS], 3001);
    smaps_done(&smaps);
}

static void names_are_bounded(void **state)
{
    (void)state;
    struct smaps smaps = {0};
    char path[32];
    for (uint64_t i = 0; i < 6000; i++) {
        snprintf(path, sizeof(path), "/file%lu", (unsigned long)i);
        add_mapping(&smaps, i << 12, (i + 1) << 12, "r--p", path, 1);
    }
    smaps_finish(&smaps);
    assert_int_equal(smaps.rows.n, 4097);
    assert_int_equal(row_of(&smaps, "[others]")->kb[SMAPS_RSS], 6000 - 4096);
    smaps_done(&smaps);
}

static void other_texts_do_no_harm(void **state)
{
    (void)state;
    struct smaps smaps = {0};
    add(&smaps, "Rss: 4 kB"); // before any mapping
    add(&smaps, "");
    add(&smaps, "Rss: 99999999999999999999 kB");
    add(&smaps, "zzz-yyy rw-p 0 00:00 0");
    smaps_finish(&smaps);
    assert_int_equal(smaps.rows.n, 0);
    smaps_done(&smaps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_of_one_name_are_added_up),
        cmocka_unit_test(arenas_and_stacks_are_known_by_their_shape),
        cmocka_unit_test(the_profiler_is_distinguished),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(other_texts_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
