// SPDX-License-Identifier: Apache-2.0
//
// The helper ends by itself after some seconds whatever happens, and it must not be ended before:
// it may have borrowed a thread. Its end closes the socket, so one descriptor tells all there is.
#include "producer/sources/heap/heap_attach.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"
#include "producer/agents/heap/attach/attach_abi.h"
#include "producer/sources/heap/heap_library.h"

extern char **environ;

struct heap_attach {
    int32_t pid;
    pid_t helper;
    int fd; // owned
    struct loop_io *io;
    heap_attach_fn done;
    void *userdata;
    nsec_t stopped;
};

nsec_t heap_attach_stopped(const struct heap_attach *attach)
{
    return attach->stopped;
}

static int spawn_helper(int32_t pid, const char *action, int fd, pid_t *ret, struct err *err)
{
    char library[PATH_MAX], helper[PATH_MAX + sizeof(HEAP_ATTACH_HELPER)], number[16];
    int r = heap_library_find(library, sizeof(library));
    if (r < 0)
        return err_set(err, r, "libmmheap.so is not there (build with -Dheap=enabled)");
    int n_dir = (int)(strrchr(library, '/') ? strrchr(library, '/') - library : 0);
    snprintf(helper, sizeof(helper), "%.*s/" HEAP_ATTACH_HELPER, n_dir, library);
    snprintf(number, sizeof(number), "%d", pid);
    char *const argv[] = {helper, number, library, (char *)(uintptr_t)action, NULL};
    posix_spawn_file_actions_t actions;
    r = -posix_spawn_file_actions_init(&actions);
    if (r < 0)
        return err_errno(err, r, HEAP_ATTACH_HELPER);
    if (fd >= 0)
        r = -posix_spawn_file_actions_adddup2(&actions, fd, ATTACH_SOCKET_FD);
    if (r == 0)
        r = -posix_spawn(ret, helper, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return r < 0 ? err_errno(err, r, "%s", helper) : 0;
}

static int receive_answer(int fd, int flags, struct attach_answer *ret, int *ret_fd)
{
    int64_t n = unix_socket_receive(fd, ret, sizeof(*ret), flags, ret_fd);
    if (n < 0)
        return (int)n;
    if (n != (int64_t)sizeof(*ret)) {
        *ret_fd = close_fd(*ret_fd);
        return -EPROTO;
    }
    ret->text[sizeof(ret->text) - 1] = 0;
    return 0;
}

static void finish(struct heap_attach *attach, int flags)
{
    struct attach_answer answer = {0};
    int fd = -1, r = receive_answer(attach->fd, flags, &answer, &fd);
    if (r == -EAGAIN || r == -EINTR)
        return;
    attach->io = loop_remove_io(attach->io);
    waitpid(attach->helper, NULL, 0);
    const char *text = answer.text;
    if (r < 0)
        text = "the helper ended without an answer";
    else
        r = answer.result;
    if (r == 0 && fd < 0)
        r = -EPROTO;
    attach->stopped = answer.stopped_us * NSEC_PER_USEC;
    if (r < 0)
        fd = close_fd(fd);
    attach->done(attach->userdata, attach, attach->pid, r, fd, text);
}

static void socket_ready(void *userdata, uint32_t events)
{
    (void)events;
    finish(userdata, MSG_DONTWAIT);
}

void heap_attach_finish(struct heap_attach *attach)
{
    finish(attach, 0);
}

struct heap_attach *heap_attach_free(struct heap_attach *attach)
{
    if (!attach)
        return NULL;
    attach->io = loop_remove_io(attach->io);
    close_fd(attach->fd);
    free(attach);
    return NULL;
}

int heap_attach_begin(struct loop *loop, const struct ring_options *options, int32_t pid,
                      heap_attach_fn done, void *userdata, struct heap_attach **ret,
                      struct err *err)
{
    int fds[2];
    struct heap_header header;
    struct heap_attach *attach = calloc(1, sizeof(*attach));
    if (!attach)
        return -ENOMEM;
    *attach = (struct heap_attach){.pid = pid, .fd = -1, .done = done, .userdata = userdata};
    int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 ? -errno : 0;
    if (r == 0) {
        attach->fd = fds[0];
        ring_header_fill(options, &header);
        if (send(fds[0], &header, sizeof(header), MSG_NOSIGNAL) < 0)
            r = -errno;
        if (r == 0)
            r = loop_add_io(loop, fds[0], EPOLLIN, socket_ready, attach, &attach->io);
        if (r == 0)
            r = spawn_helper(pid, NULL, fds[1], &attach->helper, err);
        close_fd(fds[1]);
    }
    if (r < 0) {
        heap_attach_free(attach);
        return r;
    }
    *ret = attach;
    return 0;
}

void heap_attach_set_done(struct heap_attach *attach, heap_attach_fn done, void *userdata)
{
    attach->done = done;
    attach->userdata = userdata;
}

pid_t heap_attach_detach(int32_t pid, int ring_fd)
{
    pid_t helper;
    return spawn_helper(pid, "detach", ring_fd, &helper, NULL) == 0 ? helper : 0;
}

void heap_attach_wait(pid_t helper)
{
    if (helper > 0)
        waitpid(helper, NULL, 0);
}
