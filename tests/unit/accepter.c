// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/accepter.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/unix_socket.h"
#include "tests/unit/unit.h"

#define MOST 3

struct fixture {
    struct accepter accepter;
    bool refuses;
    unsigned n_came;
};

static void comes(void *userdata, int fd)
{
    struct fixture *f = userdata;
    f->n_came++;
    if (f->refuses)
        accepter_refuses(&f->accepter);
    close(fd);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address;
    socklen_t size;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(unix_socket_address(path, &address, &size), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 64), 0);
    return fd;
}

static void come(struct fixture *f, const char *path, unsigned n)
{
    struct sockaddr_un address;
    socklen_t size;
    assert_int_equal(unix_socket_address(path, &address, &size), 0);
    for (unsigned i = 0, before = f->n_came; i < n; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
        while (f->n_came <= before + i)
            assert_int_equal(loop_run_once(f->accepter.loop, NSEC_MAX), 0);
        assert_int_equal(f->accepter.n, f->refuses ? 0 : f->accepter.n);
        assert_true(f->accepter.n <= MOST);
        close(fd);
    }
}

// A refused connection does not use up the place of another connection.
static void refused_connections_do_not_count(void **state)
{
    (void)state;
    char folder[] = "/tmp/mm-accepter-XXXXXX", path[64];
    struct loop *loop;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/socket", folder);
    assert_int_equal(loop_new(&loop), 0);
    struct fixture f = {.accepter = {.fd = listen_at(path), .most = MOST, .most_refused = 20}};
    assert_int_equal(accepter_begin(&f.accepter, loop, comes, &f), 0);
    come(&f, path, 2 * MOST);
    assert_int_equal(f.n_came, 2 * MOST);
    f.refuses = true;
    f.accepter.n = 0;
    come(&f, path, 4 * MOST);
    assert_int_equal(f.n_came, 6 * MOST);
    accepter_close(&f.accepter);
    loop_free(loop);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_connections_do_not_count),
    };
    return cmocka_run_group_tests_name("accepter", tests, NULL, NULL);
}
