// SPDX-License-Identifier: Apache-2.0
#include "producer/service/armed/kernel_log.h"

#include <errno.h>
#include <string.h>

#include "common/elements.h"
#include "tests/unit/unit.h"

static struct strbuf line;
static uint64_t sequence;
static nsec_t when;

static int format(const char *record)
{
    return kernel_log_format(record, strlen(record), &line, &sequence, &when);
}

static void test_record(void **state)
{
    (void)state;
    assert_int_equal(format("6,339,5140900,-;NET: Registered PF_INET\n SUBSYSTEM=net\n"), 0);
    assert_string_equal(line.text, "<6>[    5.140900] NET: Registered PF_INET\n");
    assert_int_equal(sequence, 339);
    assert_int_equal(when, 5140900 * NSEC_PER_USEC);
}

static void test_facility_is_left_out(void **state)
{
    (void)state;
    // 30 is facility 3 (daemon), priority 6.
    assert_int_equal(format("30,1,123456000001,c,more;Started; really\n"), 0);
    assert_string_equal(line.text, "<6>[123456.000001] Started; really\n");
}

static void test_no_record(void **state)
{
    static const char *const broken[] = {
        "",
        "6",
        "6,1",
        "6,1,",
        "6,1,2",
        "6,1,2,-",
        "x,1,2,-;t",
        "6,1,99999999999999999999,-;t",
        "6,1,18446744073709551615,-;t",
    };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(broken); i++)
        assert_int_equal(format(broken[i]), -EINVAL);
}

static void test_empty_text(void **state)
{
    (void)state;
    assert_int_equal(format("3,7,1000000,-;"), 0);
    assert_string_equal(line.text, "<3>[    1.000000] \n");
}

static int take(void *userdata, const char *text, size_t size, struct err *err)
{
    (void)err;
    strbuf_add(userdata, text, size);
    return 0;
}

static void test_unreadable(void **state)
{
    struct err err = {0};
    struct strbuf all = {0};
    (void)state;
    assert_int_equal(
        kernel_log_read("/nonexistent/kmsg", &(struct kernel_log_range){0}, take, &all, &err),
        -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/kmsg"));
    assert_int_equal(all.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record),     cmocka_unit_test(test_facility_is_left_out),
        cmocka_unit_test(test_no_record),  cmocka_unit_test(test_empty_text),
        cmocka_unit_test(test_unreadable),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    strbuf_done(&line);
    return failed;
}
