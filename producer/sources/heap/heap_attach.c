// SPDX-License-Identifier: Apache-2.0
//
// The helper ends itself after some seconds, and is not killed earlier, because it may have
// borrowed a thread. The helper for VMs may wait for half a minute, and ends in order on SIGTERM. A
// helper's end closes the socket: one descriptor reports everything.
//
// A helper that does not answer in time hangs in a file system of its process's owner. It is
// killed, and nothing waits for its end: a borrowed thread goes on without the helper.
#include "producer/sources/heap/heap_attach.h"
#include "producer/ground/helper_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/unix_socket.h"
#include "producer/foreign/helper.h"
#include "producer/foreign/payer.h"
#include "producer/heap/agent_options.h"
#include "producer/heap/attach_abi.h"
#include "producer/sources/heap/heap_library.h"

#define NATIVE_MAX (15 * NSEC_PER_SEC) // maximum time of the helpers
#define JAVA_MAX   (75 * NSEC_PER_SEC)
#define WAIT_MAX   (2 * NSEC_PER_SEC)

extern char **environ;

struct heap_attach {
    int32_t pid;
    pid_t helper;
    bool is_java;
    uint64_t payer;
    struct foreign *foreign; // borrowed
    int fd;                  // owned
    struct loop_io *io;
    struct loop_timer *timer;
    heap_attach_fn done;
    void *userdata;
    nsec_t stopped, first;
};

int32_t heap_attach_pid(const struct heap_attach *attach)
{
    return attach->pid;
}

uint64_t heap_attach_payer(const struct heap_attach *attach)
{
    return attach->payer;
}

nsec_t heap_attach_stopped(const struct heap_attach *attach)
{
    return attach->stopped;
}

nsec_t heap_attach_first(const struct heap_attach *attach)
{
    return attach->first;
}

// `argument`: the options of a VM's agent, or the mode of a native program's helper.
static int spawn_helper(bool is_java, int32_t pid, const char *argument, int fd, pid_t *ret,
                        struct err *err)
{
    char library[PATH_MAX], helper[PATH_MAX + 16], number[16];
    int r = is_java ? java_library_find(library, sizeof(library))
                    : heap_library_find(library, sizeof(library));
    if (r < 0)
        return err_set(err, r, "%s is not there (build with -D%s=enabled)",
                       is_java ? AGENT_LIBRARY_FILE : HEAP_LIBRARY_FILE, is_java ? "java" : "heap");
    int n_dir = (int)(strrchr(library, '/') ? strrchr(library, '/') - library : 0);
    snprintf(helper, sizeof(helper), "%.*s/%s", n_dir, library,
             is_java ? HEAP_ATTACH_JAVA_HELPER : HEAP_ATTACH_HELPER);
    snprintf(number, sizeof(number), "%d", pid);
    char *const argv[] = {helper, number, library, (char *)(uintptr_t)argument, NULL};
    r = helper_program_start(helper, argv, environ, fd, ATTACH_SOCKET_FD, ret);
    return r < 0 ? err_errno(err, r, "%s", helper) : 0;
}

static int receive_answer(int fd, int flags, struct attach_answer *ret, int *ret_fd)
{
    struct attach_answer answer;
    CLEANUP(close_fdp) int passed_fd = -1;
    int64_t n = unix_socket_receive(fd, &answer, sizeof(answer), flags, &passed_fd);
    if (n < 0)
        return (int)n;
    if (n != (int64_t)sizeof(answer))
        return -EPROTO;
    answer.text[sizeof(answer.text) - 1] = 0;
    *ret = answer;
    *ret_fd = steal_fd(&passed_fd);
    return 0;
}

static void end(struct heap_attach *attach, bool is_killed)
{
    attach->io = loop_remove_io(attach->io);
    attach->timer = loop_remove_timer(attach->timer);
    foreign_leave(attach->foreign, attach->helper, attach->payer, is_killed);
}

static void give_up(void *userdata)
{
    struct heap_attach *attach = userdata;
    end(attach, true);
    attach->done(attach->userdata, attach, attach->pid, -ETIMEDOUT, -1,
                 "a look-up or read of its files took too long");
}

static void finish(struct heap_attach *attach, int flags)
{
    struct attach_answer answer = {0};
    int fd = -1, r = receive_answer(attach->fd, flags, &answer, &fd);
    if (r == -EAGAIN || r == -EINTR)
        return;
    end(attach, false);
    const char *text = answer.text;
    if (r < 0)
        text = "the helper ended without an answer";
    else
        r = answer.result;
    if (r == 0 && fd < 0 && !attach->is_java)
        r = -EPROTO;
    attach->stopped = answer.stopped_us * NSEC_PER_USEC;
    if (r < 0)
        fd = close_fd(fd);
    attach->done(attach->userdata, attach, attach->pid, r, fd, text);
}

static void socket_ready(void *userdata)
{
    finish(userdata, MSG_DONTWAIT);
}

void heap_attach_hurry(struct heap_attach *attach)
{
    if (attach->is_java)
        kill(attach->helper, SIGTERM);
}

void heap_attach_finish(struct heap_attach *attach, nsec_t deadline)
{
    struct pollfd poll_fd = {.fd = attach->fd, .events = POLLIN};
    nsec_t left = deadline - nsec_now(CLOCK_MONOTONIC);
    heap_attach_hurry(attach);
    if (poll(&poll_fd, 1, left > 0 ? (int)(left / NSEC_PER_MSEC) : 0) > 0)
        finish(attach, 0);
    else
        give_up(attach);
}

struct heap_attach *heap_attach_free(struct heap_attach *attach)
{
    if (!attach)
        return NULL;
    attach->io = loop_remove_io(attach->io);
    attach->timer = loop_remove_timer(attach->timer);
    close_fd(attach->fd);
    free(attach);
    return NULL;
}

static int attach_new(const struct heap_attach_env *env, nsec_t max, int32_t pid,
                      heap_attach_fn done, void *userdata, struct heap_attach **ret,
                      int *ret_helper_fd)
{
    int fds[2];
    struct heap_attach *attach = calloc(1, sizeof(*attach));
    if (!attach)
        return -ENOMEM;
    *attach = (struct heap_attach){
        .pid = pid, .foreign = env->foreign, .fd = -1, .done = done, .userdata = userdata};
    attach->first = env->first ? env->first : nsec_now(CLOCK_BOOTTIME);
    int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 ? -errno : 0;
    if (r == 0) {
        attach->fd = fds[0];
        r = loop_add_io(env->loop, fds[0], EPOLLIN, socket_ready, attach, &attach->io);
        if (r == 0)
            r = loop_add_timer(env->loop, nsec_now(CLOCK_BOOTTIME) + max, 0, give_up, attach,
                               &attach->timer);
        if (r < 0)
            close_fd(fds[1]);
    }
    if (r < 0) {
        heap_attach_free(attach);
        return r;
    }
    *ret = attach;
    *ret_helper_fd = fds[1];
    return 0;
}

int heap_attach_begin(const struct heap_attach_env *env, const struct ring_options *options,
                      const char *java_options, int32_t pid, heap_attach_fn done, void *userdata,
                      struct heap_attach **ret, struct err *err)
{
    struct heap_header header;
    struct heap_attach *attach;
    int helper_fd CLEANUP(close_fdp) = -1;
    uint64_t payer = foreign_payer("/proc", pid, geteuid());
    int r = foreign_check_left(env->foreign, payer, err);
    if (r < 0)
        return r;
    r = attach_new(env, java_options ? JAVA_MAX : NATIVE_MAX, pid, done, userdata, &attach,
                   &helper_fd);
    if (r < 0)
        return r;
    attach->is_java = java_options;
    attach->payer = payer;
    if (!java_options) {
        ring_header_fill(options, &header);
        r = send(attach->fd, &header, sizeof(header), MSG_NOSIGNAL) < 0 ? -errno : 0;
    }
    if (r == 0)
        r = spawn_helper(attach->is_java, pid, java_options, helper_fd, &attach->helper, err);
    if (r < 0)
        heap_attach_free(attach);
    else
        *ret = attach;
    return r;
}

void heap_attach_set_done(struct heap_attach *attach, heap_attach_fn done, void *userdata)
{
    attach->done = done;
    attach->userdata = userdata;
}

pid_t heap_attach_detach(int32_t pid, int ring_fd)
{
    pid_t helper;
    return spawn_helper(false, pid, "detach", ring_fd, &helper, NULL) == 0 ? helper : 0;
}

void heap_attach_wait(struct foreign *foreign, pid_t helper, int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    if (helper <= 0)
        return;
    bool is_over = pidfd >= 0 && poll(&poll_fd, 1, (int)(WAIT_MAX / NSEC_PER_MSEC)) > 0;
    foreign_leave(foreign, helper, 0, !is_over && pidfd >= 0);
}
