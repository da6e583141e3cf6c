// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/subuids.h"

#include <string.h>
#include <unistd.h>

#include "tests/unit/temp_folder.h"
#include "tests/unit/unit.h"

static uid_t number_in(const char *text, uid_t uid)
{
    struct subuids table = {0};
    assert_int_equal(subuids_parse(&table, span_over(text, strlen(text))), 0);
    uid_t number = subuids_number(&table, uid);
    subuids_done(&table);
    return number;
}

static void uids_of_a_range_belong_together(void **state)
{
    (void)state;
    static const char text[] = "ann:100000:65536\n1001:165536:10\n";
    assert_int_equal(number_in(text, 99999), 99999);
    assert_int_equal(number_in(text, 100000), 100000);
    assert_int_equal(number_in(text, 165535), 100000);
    assert_int_equal(number_in(text, 165545), 165536);
    assert_int_equal(number_in(text, 165546), 165546);
    assert_int_equal(number_in("", 7), 7);
}

static void ranges_of_an_owner_belong_together(void **state)
{
    (void)state;
    static const char text[] = "ann:3000:10\nann2:2000:10\nann:1000:10\nben:4000:10\nann:5000:5";
    assert_int_equal(number_in(text, 1005), 1000);
    assert_int_equal(number_in(text, 2005), 2000);
    assert_int_equal(number_in(text, 3009), 1000);
    assert_int_equal(number_in(text, 3010), 3010);
    assert_int_equal(number_in(text, 4000), 4000);
    assert_int_equal(number_in(text, 5004), 1000); // no newline at the end
}

static void ranges_that_overlap_are_one(void **state)
{
    (void)state;
    static const char text[] = "ann:100:50\nben:120:10\nann:100:50\ncat:140:20\n";
    for (uid_t uid = 100; uid < 160; uid++)
        assert_int_equal(number_in(text, uid), 100);
    assert_int_equal(number_in(text, 160), 160);
}

static void damaged_lines_are_passed_over(void **state)
{
    (void)state;
    assert_int_equal(number_in("ann\n\n:\nann:1\nann:x:9\nann:1:x\nann:3:0\n:5:3\n", 7), 5);
    assert_int_equal(number_in("ann:18446744073709551616:9\nann:4294967296:9\nann:0:9\n", 7), 7);
    assert_int_equal(number_in("ann:5:18446744073709551615\n", UINT32_MAX), 5);
}

static void file_write(const char *folder, const char *text)
{
    temp_file_write(folder, "subuid", text, strlen(text));
}

static void a_file_that_changes_is_read_again(void **state)
{
    (void)state;
    char folder[TEMP_FOLDER_MAX], path[TEMP_FOLDER_MAX + 16];
    struct subuids table = {0};
    temp_folder_make(folder);
    snprintf(path, sizeof(path), "%s/subuid", folder);
    subuids_follow(&table, path);
    assert_int_equal(subuids_number(&table, 105), 105);
    file_write(folder, "ann:100:10");
    subuids_follow(&table, path);
    assert_int_equal(subuids_number(&table, 105), 100);
    const struct subuid_range *kept = table.ranges.items;
    subuids_follow(&table, path);
    assert_ptr_equal(table.ranges.items, kept); // not read again
    file_write(folder, "ann:100:10\nann:50:10");
    subuids_follow(&table, path);
    assert_int_equal(subuids_number(&table, 105), 50);
    assert_int_equal(truncate(path, 5 << 20), 0); // more than there can be
    subuids_follow(&table, path);
    assert_int_equal(subuids_number(&table, 105), 105);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); // keeps nobody waiting
    subuids_follow(&table, path);
    assert_int_equal(subuids_number(&table, 105), 105);
    subuids_done(&table);
    temp_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uids_of_a_range_belong_together),
        cmocka_unit_test(ranges_of_an_owner_belong_together),
        cmocka_unit_test(ranges_that_overlap_are_one),
        cmocka_unit_test(damaged_lines_are_passed_over),
        cmocka_unit_test(a_file_that_changes_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
