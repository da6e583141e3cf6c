// SPDX-License-Identifier: Apache-2.0
//
// The rows of many groups come back in the order in which they were added, from memory and from the
// file.
#include "converter/tables/group_log.h"

#include <errno.h>

#include "tests/unit/unit.h"

static int64_t value_of(uint32_t group, uint64_t i, size_t column)
{
    if (column == 2) // the widest differences
        return i % 2 ? INT64_MIN : INT64_MAX;
    return (int64_t)(i * 1000 + group) * (column ? -1 : 1);
}

static void rows_add(struct group_log *log, uint32_t group, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        int64_t row[GROUP_LOG_COLUMNS_MAX];
        for (size_t column = 0; column < log->n_columns; column++)
            row[column] = value_of(group, i, column);
        struct log_group *place = group_log_group(log, group);
        assert_non_null(place);
        assert_int_equal(group_log_add(log, NULL, place, row), 0);
    }
}

static void rows_check(const struct group_log *log, uint32_t group, uint64_t n)
{
    struct group_reader reader;
    assert_int_equal(log->groups[group].n, n);
    assert_int_equal(group_reader_open(&reader, log, group), 0);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(group_reader_next(&reader));
        for (size_t column = 0; column < log->n_columns; column++)
            assert_int_equal(reader.row[column], value_of(group, i, column));
    }
    assert_false(group_reader_next(&reader));
    assert_false(group_reader_next(&reader));
    group_reader_done(&reader);
}

static void rows_come_back(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 3, 100, 20000};
    for (size_t n_columns = 1; n_columns <= GROUP_LOG_COLUMNS_MAX; n_columns++) {
        struct group_log log = {.n_columns = n_columns};
        for (uint64_t part = 0; part < 10; part++) // groups take turns
            for (uint32_t group = 0; group < 5; group++)
                rows_add(&log, group * 70, sizes[group] * part / 10,
                         sizes[group] * (part + 1) / 10);
        assert_true(log.is_open);
        assert_int_equal(group_log_close(&log), 0);
        for (uint32_t group = 0; group < 5; group++)
            if (sizes[group])
                rows_check(&log, group * 70, sizes[group]);
        rows_check(&log, 75, 0);
        group_log_forget(&log);
        rows_check(&log, 4 * 70, sizes[4]);
        group_log_done(&log);
    }
}

static void few_rows_need_no_file(void **state)
{
    (void)state;
    struct group_log log = {.n_columns = 2};
    assert_int_equal(group_log_close(&log), 0);
    for (uint32_t group = 0; group < 1000; group++)
        rows_add(&log, group, 0, 10);
    assert_int_equal(group_log_close(&log), 0);
    assert_false(log.is_open);
    for (uint32_t group = 0; group < 1000; group++)
        rows_check(&log, group, 10);
    group_log_forget(&log);
    group_log_done(&log);
}

// With many groups the chunks stay small, and more chunks go to the file.
static void many_large_groups_take_bounded_memory(void **state)
{
    (void)state;
    enum { N = 4000, ROWS = 800 };
    struct group_log log = {.n_columns = 2};
    for (uint64_t i = 0; i < ROWS; i += 100)
        for (uint32_t group = 0; group < N; group++)
            rows_add(&log, group, i, i + 100);
    assert_true(log.n_memory < ((size_t)5 << 20));
    assert_int_equal(group_log_close(&log), 0);
    for (uint32_t group = 0; group < N; group += 39)
        rows_check(&log, group, ROWS);
    group_log_done(&log);
}

static void a_full_budget_is_reported(void **state)
{
    (void)state;
    struct budget budget = {.memory_max = UINT64_MAX, .output_max = 1 << 20, .statm = -1};
    struct group_log log = {.n_columns = 2, .budget = &budget};
    int64_t row[2] = {0};
    int r = 0;
    for (uint64_t i = 0; i < 1000000 && r == 0; i++) {
        row[0] = (int64_t)(i * 7919);
        r = group_log_add(&log, NULL, group_log_group(&log, 0), row);
    }
    assert_int_equal(r, -EDQUOT);
    group_log_done(&log);
    assert_int_equal(budget.output, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(few_rows_need_no_file),
        cmocka_unit_test(many_large_groups_take_bounded_memory),
        cmocka_unit_test(a_full_budget_is_reported),
    };
    return cmocka_run_group_tests_name("group_log", tests, NULL, NULL);
}
