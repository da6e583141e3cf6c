// SPDX-License-Identifier: Apache-2.0
//
// The figures and texts of pintool, without a file: coverages, densities, JSON.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/pinlist.h"
#include "producer/pintool/coverage.h"
#include "producer/pintool/file_options.h"
#include "producer/pintool/json.h"
#include "producer/pintool/pin_subject.h"
#include "tests/unit/unit.h"

static struct page_ranges make(size_t n, const uint64_t (*pairs)[2])
{
    struct page_ranges ranges = {0};
    for (size_t i = 0; i < n; i++)
        assert_int_equal(page_ranges_append(&ranges, pairs[i][0], pairs[i][1]), 0);
    return ranges;
}

#define MAKE(...)                                                                                  \
    make(ELEMENTS(((const uint64_t[][2]){__VA_ARGS__})), (const uint64_t[][2]){__VA_ARGS__})

static void check_item(const struct coverages *list, size_t i, size_t n, const uint64_t (*pairs)[2])
{
    const struct coverage *item = &list->items.items[i];
    const struct page_range *ranges = coverage_ranges(list, item);
    uint64_t sum = 0;
    assert_int_equal(item->n_ranges, n);
    for (size_t j = 0; j < n; j++) {
        assert_int_equal(ranges[j].start, pairs[j][0]);
        assert_int_equal(ranges[j].end, pairs[j][1]);
        sum += pairs[j][1] - pairs[j][0];
    }
    assert_int_equal(item->covered_bytes, sum);
}

#define CHECK_ITEM(list, i, ...)                                                                   \
    check_item(list, i, ELEMENTS(((const uint64_t[][2]){__VA_ARGS__})),                            \
               (const uint64_t[][2]){__VA_ARGS__})

static void parts_get_what_lies_in_them(void **state)
{
    (void)state;
    CLEANUP(page_ranges_done)
    struct page_ranges set = MAKE({0, 500}, {700, 800}, {1000, 1500}, {2000, 2100});
    CLEANUP(coverages_done) struct coverages list = {0};
    assert_int_equal(coverages_add(&list, &(struct part){.offset = 100, .size_bytes = 200}, &set),
                     0);
    assert_int_equal(coverages_add(&list, &(struct part){.offset = 300, .size_bytes = 900}, &set),
                     0);
    assert_int_equal(coverages_add(&list, &(struct part){.offset = 500, .size_bytes = 200}, &set),
                     0);
    assert_int_equal(coverages_add(&list, &(struct part){.offset = 2099, .size_bytes = 9000}, &set),
                     0);
    assert_int_equal(coverages_add(&list, &(struct part){.offset = 100}, &set), 0);
    assert_int_equal(coverages_add(&list, &(struct part){.offset = 5000, .size_bytes = 10}, NULL),
                     0);
    CHECK_ITEM(&list, 0, {100, 300});
    CHECK_ITEM(&list, 1, {300, 500}, {700, 800}, {1000, 1200});
    check_item(&list, 2, 0, NULL);
    CHECK_ITEM(&list, 3, {2099, 2100});
    check_item(&list, 4, 0, NULL);
    CHECK_ITEM(&list, 5, {5000, 5010});
    struct page_ranges nothing = {0};
    assert_int_equal(coverages_add(&list, &(struct part){.size_bytes = 10}, &nothing), 0);
    check_item(&list, 6, 0, NULL);
}

static void only_what_is_wanted_counts(void **state)
{
    (void)state;
    CLEANUP(page_ranges_done) struct page_ranges set = MAKE({0, 500}, {1000, 6000});
    CLEANUP(page_ranges_done) struct page_ranges wanted = MAKE({700, 1200}, {1400, 1600});
    CLEANUP(coverages_done) struct coverages list = {0};
    struct part part = {.offset = 600, .size_bytes = 2400};
    assert_int_equal(coverages_add_wanted(&list, &part, &wanted, &set), 0);
    assert_int_equal(coverages_add_wanted(&list, &part, &wanted, NULL), 0);
    CHECK_ITEM(&list, 0, {1000, 1200}, {1400, 1600});
    CHECK_ITEM(&list, 1, {700, 1200}, {1400, 1600});
}

static void percent_of_nothing_is_nothing(void **state)
{
    (void)state;
    assert_true(coverage_percent(0, 0) == 0);
    assert_true(coverage_percent(1, 4) == 25);
}

static void last_page_ends_with_the_file(void **state)
{
    (void)state;
    CLEANUP(page_ranges_done) struct page_ranges ranges = MAKE({0, 2}, {4, 6}, {8, 9});
    subject_pages_to_bytes(&ranges, 4096, 4096 * 5 + 1);
    assert_int_equal(ranges.n, 2);
    assert_int_equal(ranges.items[0].end, 8192);
    assert_int_equal(ranges.items[1].start, 16384);
    assert_int_equal(ranges.items[1].end, 20481);
}

static void densities_are_exact_at_both_ends(void **state)
{
    (void)state;
    CLEANUP(page_ranges_done)
    struct page_ranges ranges = MAKE({1000, 1100}, {1101, 1200}, {1299, 1300});
    uint8_t cells[4];
    density_levels(ranges.items, ranges.n, 1000, 400, 4, 4, cells);
    static const uint8_t want[] = {4, 3, 1, 0};
    assert_memory_equal(cells, want, 4);
    // More cells than bytes, and a size near the largest there is.
    uint8_t many[10];
    density_levels(&(struct page_range){1, 2}, 1, 0, 2, 4, 10, many);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(many[i], i < 5 ? 0 : 4);
    density_levels(&(struct page_range){0, INT64_MAX}, 1, 0, INT64_MAX, 8, 10, many);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(many[i], 8);
}

static void json_escapes_and_separates(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    struct json json = {.out = open_memstream(&text, &size), .compact = true};
    for (int i = 0; i < 2; i++) {
        json_object_begin(&json, NULL);
        json_text(&json, "a\"b", "x\\\n\x7f\xff\xc3\xa4");
        json_array_begin(&json, "list");
        json_u64(&json, NULL, UINT64_MAX);
        json_double(&json, NULL, 0.1);
        json_double(&json, NULL, 1.0 / 0.0);
        json_array_end(&json);
        json_array_begin(&json, "empty");
        json_array_end(&json);
        json_object_end(&json);
    }
    fclose(json.out);
#define OBJECT                                                                                     \
    "{\"a\\\"b\": \"x\\\\\\u000a\\u007f\\udcff\xc3\xa4\", "                                        \
    "\"list\": [18446744073709551615, 0.1, null], \"empty\": []}\n"
    assert_string_equal(text, OBJECT OBJECT);
    free(text);
}

static int parse(struct file_options *options, struct err *err, const char *words)
{
    char *argv[16] = {"file"}, *copy = strdup(words), *rest = copy;
    int argc = 1;
    for (char *word; (word = strsep(&rest, " "));)
        argv[argc++] = word;
    int r = file_options_parse(argc, argv, options, err);
    free(copy);
    return r;
}

static void what_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "a",
        "--gen-probe",
        "a --pid 1",
        "a --zip --gen-probe --use-probe b",
        "a --use-probe b",
        "a --gen-probe --pinconfig b",
        "--pid 1 --zip",
        "--pid 0",
        "--pid 1 -o x",
        "a b --gen-probe -o x",
        "a --gen-probe -o x --quota -2",
        "a --json --map",
        "a --gen-probe --times 1",
        "a --watch 1ms",
        "a --watch 1s -o x",
        "a --watch 1s --times 0",
        "a --gen-probe -o",
        "a --gen-probe --use-probe",
    };
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        struct err err = {0};
        CLEANUP(file_options_done) struct file_options options;
        if (parse(&options, &err, wrong[i]) != -EINVAL || !err.text[0])
            fail_msg("%s: was taken", wrong[i]);
    }
}

static void quotas_are_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        uint64_t quota;
    } cases[] = {
        {"a --gen-probe -o x --quota 700", 700},
        {"a --gen-probe -o x --quota 40MB", (uint64_t)40 << 20},
        {"a --gen-probe -o x --quota -1", PINLIST_NO_QUOTA},
        {"a --gen-probe -o x --quota 0", PINLIST_NO_QUOTA},
        {"a --gen-probe -o x", PINLIST_NO_QUOTA},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        CLEANUP(file_options_done) struct file_options options;
        assert_int_equal(parse(&options, NULL, cases[i].words), 0);
        assert_true(options.quota_bytes == cases[i].quota);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_get_what_lies_in_them),
        cmocka_unit_test(only_what_is_wanted_counts),
        cmocka_unit_test(percent_of_nothing_is_nothing),
        cmocka_unit_test(last_page_ends_with_the_file),
        cmocka_unit_test(densities_are_exact_at_both_ends),
        cmocka_unit_test(json_escapes_and_separates),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(quotas_are_sizes),
    };
    return cmocka_run_group_tests_name("pintool", tests, NULL, NULL);
}
