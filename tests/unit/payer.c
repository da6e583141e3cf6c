// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/payer.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

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
        cmocka_unit_test(nobody_pays_for_a_process_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
