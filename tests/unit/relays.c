// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/foreign/relay.h"
#include "tests/unit/unit.h"

#define STRANGER 12345

// Forbids more open descriptors than there are. Returns the limit before.
static struct rlimit close_the_door(void)
{
    struct rlimit before, now;
    int next = dup(STDIN_FILENO);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    return before;
}

// The end of a process closes its sockets, and a socket of a stranger may block there.
static void sockets_that_wait_for_a_closer_go_with_the_service(void **state)
{
    (void)state;
    struct loop *loop;
    struct relays *relays;
    int ends[2];
    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(relays_new(loop, &relays), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct rlimit before = close_the_door();
    relays_close_socket(relays, ends[0], STRANGER); // a closer takes descriptors
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_not_equal(fcntl(ends[0], F_GETFD), -1);
    relays_free(relays);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    close(ends[1]);
    loop_free(loop);
    assert_true(wait(NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_that_wait_for_a_closer_go_with_the_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
