// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/payer.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
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
    // The pid belongs to a process of another user by now.
    assert_int_equal(foreign_client_payer("/proc", getpid(), stranger), stranger);
    assert_int_equal(foreign_client_payer("/proc", getpid(), geteuid()), geteuid());
    assert_int_equal(foreign_client_payer("/proc", 1, 0), 0);
}

#define CONTAINERS_UID 57990

struct container {
    pid_t pid;
    int to; // its end ends the process
};

// A process in user and mount namespaces that root made, with one uid that is root inside.
static bool container_start(struct container *ret)
{
    int to[2], from[2];
    char c, path[64];
    assert_int_equal(pipe2(to, O_CLOEXEC) + pipe2(from, O_CLOEXEC), 0);
    *ret = (struct container){.pid = fork(), .to = to[1]};
    if (ret->pid == 0) {
        close(to[1]);
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write(from[1], "", 1) != 1 ||
            read(to[0], &c, 1) != 1 || setresuid(0, 0, 0) < 0 || write(from[1], "", 1) != 1)
            _exit(1);
        (void)!read(to[0], &c, 1);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    bool is_made = read(from[0], &c, 1) == 1;
    if (is_made) {
        snprintf(path, sizeof(path), "/proc/%d/uid_map", ret->pid);
        CLEANUP(close_fdp) int map = open(path, O_WRONLY | O_CLOEXEC);
        is_made = dprintf(map, "0 %d 1\n", CONTAINERS_UID) > 0 && write(to[1], "", 1) == 1 &&
                  read(from[0], &c, 1) == 1;
    }
    close(from[0]);
    return is_made;
}

static void container_end(struct container *container)
{
    close(container->to);
    assert_int_equal(waitpid(container->pid, NULL, 0), container->pid);
}

static void a_container_that_root_made_is_not_root(void **state)
{
    (void)state;
    struct container container = {0};
    if (geteuid() != 0)
        skip(); // only root can make the namespace
    bool is_made = container_start(&container);
    if (is_made) {
        assert_int_equal(foreign_payer("/proc", container.pid, 0), CONTAINERS_UID);
        assert_int_equal(foreign_client_payer("/proc", container.pid, CONTAINERS_UID),
                         CONTAINERS_UID);
    }
    container_end(&container);
    if (!is_made)
        skip(); // no user namespaces
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_pays_for_a_process_that_is_gone),
        cmocka_unit_test(a_container_that_root_made_is_not_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
