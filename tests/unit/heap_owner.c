// SPDX-License-Identifier: Apache-2.0
#include "producer/heap/heap_owner.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/ground/process_life.h"
#include "tests/unit/unit.h"

static void a_running_owner_is_not_gone(void **state)
{
    (void)state;
    struct heap_owner self = heap_owner_self();
    assert_true(self.start_ticks > 0);
    assert_false(heap_owner_is_gone("/proc", &self));
    self.start_ticks++; // another process with this id
    assert_true(heap_owner_is_gone("/proc", &self));
}

// With hidepid, /proc does not show the processes of other users.
static void an_invisible_owner_is_not_gone(void **state)
{
    (void)state;
    char nothing[] = "/tmp/heap_owner.XXXXXX";
    assert_non_null(mkdtemp(nothing));
    struct heap_owner self = heap_owner_self();
    assert_false(heap_owner_is_gone(nothing, &self));
    rmdir(nothing);
}

static void an_ended_owner_is_gone(void **state)
{
    (void)state;
    struct heap_owner owner = heap_owner_self();
    owner.pid = fork();
    if (owner.pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)owner.pid, &info, WEXITED | WNOWAIT), 0);
    struct process_life life;
    assert_true(process_life_read("/proc", owner.pid, &life));
    owner.start_ticks = life.start_ticks;
    assert_true(heap_owner_is_gone("/proc", &owner)); // not reaped yet
    assert_int_equal(waitpid(owner.pid, NULL, 0), owner.pid);
    assert_true(heap_owner_is_gone("/proc", &owner));
    owner.pid_namespace++; // where ids mean something else
    assert_false(heap_owner_is_gone("/proc", &owner));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_owner_is_not_gone),
        cmocka_unit_test(an_invisible_owner_is_not_gone),
        cmocka_unit_test(an_ended_owner_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
