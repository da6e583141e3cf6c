// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/heap/heap_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/helper.h"
#include "tests/unit/unit.h"

#define STRANGER 12345
#define BURST    50  // connections of one user
#define N_COMING 100 // fewer than wait at a socket
#define AT_ONCE  200 // connections that are accepted in 100 ms

struct fixture {
    char folder[32], socket[64];
    struct loop *loop;
    struct foreign *foreign;
    struct heap_host *host;
    struct log log;
    char said[4096];
    unsigned n_asked;
};

static void note(void *userdata, enum log_level level, const char *text)
{
    struct fixture *f = userdata;
    (void)level;
    size_t used = strlen(f->said);
    snprintf(f->said + used, sizeof(f->said) - used, "%s\n", text);
}

static bool asks(void *userdata, int32_t pid, uid_t uid, int *fd, bool taken)
{
    struct fixture *f = userdata;
    (void)uid, (void)fd, (void)taken;
    assert_int_equal(pid, getpid());
    f->n_asked++;
    return false;
}

static void make(struct fixture *f)
{
    static const struct budget_limits limits = {
        .what = "visits", .each_burst = BURST, .each_per_minute = 1};
    *f = (struct fixture){.log = {LOG_LEVEL_WARNING, note, f}, .folder = "/tmp/mm-host-XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->socket, sizeof(f->socket), "%s/socket", f->folder);
    assert_int_equal(loop_new(&f->loop), 0);
    const struct foreign_options foreign = {.loop = f->loop, .log = &f->log, .proc = f->folder};
    assert_int_equal(foreign_new(&foreign, &f->foreign), 0);
    const struct heap_host_options options = {
        .loop = f->loop,
        .foreign = f->foreign,
        .log = &f->log,
        .proc = f->folder,
        .socket_name = f->socket,
        .connections = &limits,
    };
    assert_int_equal(heap_host_new(&options, &f->host), 0);
    assert_int_equal(heap_host_join(f->host, false, asks, f, NULL), 0);
}

static void release(struct fixture *f)
{
    heap_host_free(f->host);
    foreign_free(f->foreign);
    loop_free(f->loop);
}

// Makes this process a stranger's in the folder that stands for /proc.
static void become_strangers(const struct fixture *f)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%d", f->folder, (int)getpid());
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/%d/status", f->folder, (int)getpid());
    FILE *status = fopen(path, "we");
    assert_non_null(status);
    fprintf(status, "Uid:\t%d\t%d\t%d\t%d\n", STRANGER, STRANGER, STRANGER, STRANGER);
    fclose(status);
}

static void remove_strangers(const struct fixture *f)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/%d/status", f->folder, (int)getpid());
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    rmdir(f->folder);
}

// Connects `n` times. Each connection lasts until the recorder hangs up.
static void come(struct fixture *f, unsigned n)
{
    struct sockaddr_un address;
    socklen_t size;
    assert_int_equal(unix_socket_address(f->socket, &address, &size), 0);
    for (unsigned i = 0; i < n; i++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        char byte;
        assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
        while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
            assert_int_equal(loop_run_once(f->loop, NSEC_MAX), 0);
        close(fd);
    }
}

static void one_user_comes_no_more_often_than_the_limit(void **state)
{
    (void)state;
    struct fixture f;
    make(&f);
    become_strangers(&f);
    come(&f, N_COMING);
    // One more visit is possible if a minute passes.
    assert_in_range(f.n_asked, BURST, BURST + 1);
    assert_non_null(strstr(f.said, "the limit of 1 visits a minute of one user is reached"));
    release(&f);
    assert_non_null(strstr(f.said, " programs that asked for a profile were refused because of "));
    remove_strangers(&f);
}

static void the_recorders_own_user_comes_as_often_as_it_likes(void **state)
{
    (void)state;
    struct fixture f;
    make(&f);
    come(&f, N_COMING);
    assert_int_equal(f.n_asked, N_COMING);
    assert_string_equal(f.said, "");
    release(&f);
    rmdir(f.folder);
}

// Programs beyond the number that is accepted at once wait, and are not lost.
static void a_crowd_waits(void **state)
{
    (void)state;
    struct fixture f;
    make(&f);
    nsec_t begun = nsec_now(CLOCK_BOOTTIME);
    come(&f, 2 * AT_ONCE + 1);
    assert_int_equal(f.n_asked, 2 * AT_ONCE + 1);
    assert_true(nsec_now(CLOCK_BOOTTIME) - begun >= 100 * NSEC_PER_MSEC);
    release(&f);
    rmdir(f.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_user_comes_no_more_often_than_the_limit),
        cmocka_unit_test(the_recorders_own_user_comes_as_often_as_it_likes),
        cmocka_unit_test(a_crowd_waits),
    };
    return cmocka_run_group_tests_name("heap_host", tests, NULL, NULL);
}
