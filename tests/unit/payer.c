// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/payer.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static uid_t first_in(const char *table, uid_t uid)
{
    return foreign_first_subuid(span_over(table, strlen(table)), uid);
}

static void subordinate_uids_belong_together(void **state)
{
    (void)state;
    static const char table[] = "ann:100000:65536\n1001:165536:10\n";
    assert_int_equal(first_in(table, 99999), 99999);
    assert_int_equal(first_in(table, 100000), 100000);
    assert_int_equal(first_in(table, 165535), 100000);
    assert_int_equal(first_in(table, 165545), 165536);
    assert_int_equal(first_in(table, 165546), 165546);
    assert_int_equal(first_in("", 7), 7);
}

static void damaged_lines_are_passed_over(void **state)
{
    (void)state;
    assert_int_equal(first_in("ann\n\n:\nann:1\nann:x:9\nann:1:x\n:5:3\n", 7), 5);
    assert_int_equal(first_in("ann:18446744073709551616:9\nann:4294967296:9\n", 7), 7);
    assert_int_equal(first_in("ann:5:18446744073709551615\n", 7), 5);
}

static void nobody_pays_for_a_process_that_is_gone(void **state)
{
    (void)state;
    uid_t stranger = geteuid() + 4711;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(foreign_client_payer("/proc", pid, stranger), stranger);
    assert_int_equal(foreign_client_payer("/proc", 0, stranger), stranger);
    // Another process has the pid by now.
    assert_int_equal(foreign_client_payer("/proc", getpid(), stranger), stranger);
    assert_int_equal(foreign_client_payer("/proc", getpid(), geteuid()), geteuid());
    assert_int_equal(foreign_client_payer("/proc", 1, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subordinate_uids_belong_together),
        cmocka_unit_test(damaged_lines_are_passed_over),
        cmocka_unit_test(nobody_pays_for_a_process_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
