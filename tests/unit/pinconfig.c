// SPDX-License-Identifier: Apache-2.0
#include "common/pinconfig.h"
#include "common/elements.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "tests/unit/unit.h"

static int parse(const char *text, struct pinconfig *config, struct err *err)
{
    return pinconfig_parse(text, strlen(text), "pins.txt", config, err);
}

static void files_and_ranges_are_read(void **state)
{
    (void)state;
    CLEANUP(pinconfig_done) struct pinconfig config = {0};
    assert_int_equal(parse("# what the first screen needs\n"
                           "file lib/one.so\n"
                           "file two.so # the rest is cold\r\n"
                           "offset 1000\nlen 50000\n"
                           "\toffset 0x10 length 0x20\n"
                           "file \"a b\" file #c offset 1 len 0",
                           &config, NULL),
                     0);
    assert_int_equal(config.files.n, 4);
    assert_int_equal(config.ranges.n, 3);
    assert_string_equal(config.files.items[0].pattern, "lib/one.so");
    assert_int_equal(config.files.items[0].n_ranges, 0);
    assert_int_equal(config.files.items[0].line, 2);
    assert_string_equal(config.files.items[1].pattern, "two.so");
    assert_int_equal(config.files.items[1].n_ranges, 2);
    assert_int_equal(config.ranges.items[0].offset, 1000);
    assert_int_equal(config.ranges.items[0].length, 50000);
    assert_int_equal(config.ranges.items[1].offset, 16);
    assert_int_equal(config.ranges.items[1].length, 32);
    assert_int_equal(config.ranges.items[1].line, 6);
    assert_string_equal(config.files.items[2].pattern, "a b");
    assert_string_equal(config.files.items[3].pattern, "#c");
    assert_int_equal(config.files.items[3].first_range, 2);
}

static void malformed_is_refused_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"", "pins.txt: "},
        {"# nothing\n", "pins.txt: "},
        {"file", "pins.txt:1:5: "},
        {"hello", "pins.txt:1:1: "},
        {"offset 1 len 2\nfile a", "pins.txt:1:1: "},
        {"file a\noffset 1\nfile b\n", "pins.txt:3:1: "},
        {"file a\noffset 1 len", "pins.txt:2:13: "},
        {"file a\n offset", "pins.txt:2:8: "},
        {"file a\n offset x len 2", "pins.txt:2:9: "},
        {"file a\noffset -1 len 2", "pins.txt:2:8: "},
        {"file a\noffset 1 len 2k", "pins.txt:2:14: "},
        {"file a\noffset 1 len 18446744073709551616", "pins.txt:2:14: "},
        {"file a\noffset 1 len 00000000000000000000000000000000000002", "pins.txt:2:14: "},
        {"file a\nlen 2", "pins.txt:2:1: "},
        {"file a b\n", "pins.txt:1:8: "},
        {"file \"a b\n\"", "pins.txt:1:6: "},
        {"file \"a\"b\n", "pins.txt:1:6: "},
        {"file a\noffset 1 size 2", "pins.txt:2:10: "},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct err err = {0};
        struct pinconfig config = {0};
        assert_int_equal(parse(cases[i].text, &config, &err), -EBADMSG);
        if (!str_starts_with(err.text, cases[i].where))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_int_equal(config.files.n, 0);
    }
    struct err err = {0};
    struct pinconfig config = {0};
    assert_int_equal(parse("file a\n  ofset 7 len 1\n", &config, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "\n    ofset 7 len 1\n    ^"));
    assert_int_equal(pinconfig_parse("file a\0b", 8, "nul", &config, NULL), -EBADMSG);
}

static void first_pattern_that_matches_is_taken(void **state)
{
    (void)state;
    CLEANUP(pinconfig_done) struct pinconfig config = {0};
    assert_int_equal(parse("file b.so\nfile lib/\nfile .so\n", &config, NULL), 0);
    assert_ptr_equal(pinconfig_match(&config, "lib/b.so"), &config.files.items[0]);
    assert_ptr_equal(pinconfig_match(&config, "lib/a.so"), &config.files.items[1]);
    assert_ptr_equal(pinconfig_match(&config, "a.so"), &config.files.items[2]);
    assert_null(pinconfig_match(&config, "a.dex"));
}

static void selection_is_clipped_to_the_entry(void **state)
{
    (void)state;
    CLEANUP(pinconfig_done) struct pinconfig config = {0};
    CLEANUP(page_ranges_done) struct page_ranges got = {0};
    assert_int_equal(parse("file whole\n"
                           "file part offset 900 len 18446744073709551615 offset 10 len 20\n"
                           "          offset 25 len 10 offset 1000 len 1 offset 50 len 0\n",
                           &config, NULL),
                     0);
    const struct pinconfig_file *whole = &config.files.items[0], *part = &config.files.items[1];
    // one pattern is for entries of several sizes
    assert_int_equal(pinconfig_select(&config, whole, 7, 1000, &got), 0);
    assert_int_equal(got.items[0].end, 1007);
    assert_int_equal(pinconfig_select(&config, whole, 5000, 3, &got), 0);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.items[0].start, 5000);
    assert_int_equal(got.items[0].end, 5003);
    assert_int_equal(pinconfig_select(&config, part, 100, 1000, &got), 0);
    assert_int_equal(got.n, 2);
    assert_int_equal(got.items[0].start, 110);
    assert_int_equal(got.items[0].end, 135);
    assert_int_equal(got.items[1].start, 1000);
    assert_int_equal(got.items[1].end, 1100);
    assert_int_equal(pinconfig_select(&config, part, 100, 0, &got), 0);
    assert_int_equal(got.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_ranges_are_read),
        cmocka_unit_test(malformed_is_refused_whole),
        cmocka_unit_test(first_pattern_that_matches_is_taken),
        cmocka_unit_test(selection_is_clipped_to_the_entry),
    };
    return cmocka_run_group_tests_name("pinconfig", tests, NULL, NULL);
}
