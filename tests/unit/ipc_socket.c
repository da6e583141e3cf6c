// SPDX-License-Identifier: Apache-2.0
//
// The service's sockets: names, rights, and the users who may enter.
#include "producer/service/ipc/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static void paths_are_taken_from_the_dead_only(void **state)
{
    (void)state;
    char directory[] = "/tmp/mmtrace-unit-XXXXXX", path[64], list[200];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/socket", directory);
    struct err err = {0};
    int first, second = -1, fd;
    assert_int_equal(ipc_socket_connect(path, 0, &fd, &err), -ENOENT);
    assert_int_equal(ipc_socket_listen(path, 0600, IPC_GROUP_NONE, &first, &err), 0);
    assert_int_equal(ipc_socket_listen(path, 0600, IPC_GROUP_NONE, &second, &err), -EADDRINUSE);
    close(first);
    assert_int_equal(ipc_socket_connect(path, 0, &fd, &err), -ECONNREFUSED);
    assert_int_equal(ipc_socket_listen(path, 0600, IPC_GROUP_NONE, &second, &err), 0);
    close(second);
    unix_socket_remove(path);
    assert_int_equal(ipc_socket_connect(path, 0, &fd, &err), -ENOENT);
    FILE *file = fopen(path, "w");
    fclose(file);
    assert_int_equal(ipc_socket_listen(path, 0600, IPC_GROUP_NONE, &second, &err), -EEXIST);
    unlink(path);
    rmdir(directory);

    memset(list, 'x', sizeof(list) - 1);
    list[sizeof(list) - 1] = '\0';
    assert_int_equal(ipc_socket_listen(list, 0, IPC_GROUP_NONE, &fd, &err), -EINVAL);
    assert_int_equal(ipc_socket_connect("127.0.0.1:3000", 0, &fd, &err), -EINVAL);
    assert_int_equal(ipc_socket_connect("", 0, &fd, &err), -EINVAL);
    assert_true(ipc_socket_list_get("/a,@b,,c", 0, path, sizeof(path)));
    assert_string_equal(path, "/a");
    assert_true(ipc_socket_list_get("/a,@b,,c", 2, path, sizeof(path)));
    assert_string_equal(path, "c");
    assert_false(ipc_socket_list_get("/a,@b,,c", 3, path, sizeof(path)));
    assert_false(ipc_socket_list_get("", 0, path, sizeof(path)));
    assert_false(ipc_socket_list_get(list, 0, path, sizeof(path)));
}

static int (*after_bind)(const char *path);

// Replaces bind(). after_bind() acts like another process right after the call.
int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    int r = (int)syscall(SYS_bind, fd, address, size);
    if (r == 0 && after_bind)
        after_bind(((const struct sockaddr_un *)(const void *)address)->sun_path);
    return r;
}

static char victim[64];

static int swap_with_victim(const char *path)
{
    return rename(victim, path);
}

static void no_other_socket_gets_the_rights(void **state)
{
    (void)state;
    char directory[] = "/tmp/mmtrace-unit-XXXXXX", path[64];
    int fd = -1, of_victim;
    struct stat st;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/socket", directory);
    snprintf(victim, sizeof(victim), "%s/victim", directory);
    assert_int_equal(ipc_socket_listen(victim, 0600, IPC_GROUP_NONE, &of_victim, NULL), 0);
    after_bind = swap_with_victim;
    assert_int_equal(ipc_socket_listen(path, 0666, 12, &fd, NULL), -EPERM);
    after_bind = NULL;
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFSOCK | 0600);
    assert_int_equal(st.st_gid, getegid());
    close(of_victim);
    unix_socket_remove(path);
    assert_int_equal(ipc_socket_listen(path, 0666, IPC_GROUP_NONE, &fd, NULL), 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFSOCK | 0666);
    close(fd);
    unix_socket_remove(path);
    rmdir(directory);
}

static void only_root_the_owner_and_the_group_may_enter(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct ipc_access nobody = {.group = IPC_GROUP_NONE}, group = {.group = 77777};
    struct ipc_access all = {.everyone = true, .group = IPC_GROUP_NONE};
    struct ipc_credentials root = {.uid = 0}, own = {.uid = geteuid()};
    struct ipc_credentials stranger = {.uid = geteuid() + 4711, .gid = 4711};
    struct ipc_credentials member = {.uid = geteuid() + 4711, .gid = 77777};
    assert_true(ipc_socket_allows(fds[0], &nobody, &root));
    assert_true(ipc_socket_allows(fds[0], &nobody, &own));
    assert_false(ipc_socket_allows(fds[0], &nobody, &stranger));
    assert_false(ipc_socket_allows(fds[0], &nobody, &member));
    assert_false(ipc_socket_allows(fds[0], &group, &stranger));
    assert_true(ipc_socket_allows(fds[0], &group, &member));
    assert_true(ipc_socket_allows(fds[0], &all, &stranger));
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_taken_from_the_dead_only),
        cmocka_unit_test(no_other_socket_gets_the_rights),
        cmocka_unit_test(only_root_the_owner_and_the_group_may_enter),
    };
    return cmocka_run_group_tests_name("ipc_socket", tests, NULL, NULL);
}
