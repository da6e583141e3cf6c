// SPDX-License-Identifier: Apache-2.0
//
// The helper examines the process and sends the signal (wake_job.h). The signal is sent a second
// time, because a process that is just taking its hooks out cannot follow the first.
//
// A busy helper sends late: the time of a process begins when the signal is sent, not when the
// helper is asked. On a busy machine, a process gets the processor late, and has more time.
#include "producer/sources/heap/heap_wake.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "producer/foreign/payer.h"
#include "producer/foreign/process_file.h"
#include "producer/heap/heap_abi.h"
#include "producer/sources/heap/summons.h"
#include "producer/sources/heap/wake_job.h"

#define TIME_MAX      (80 * NSEC_PER_MSEC) // from each signal on
#define TIME_BUSY_MAX (2 * NSEC_PER_SEC)   // the same, if the process waits for a processor
#define RUN_ENOUGH    (20 * NSEC_PER_MSEC) // processor time in which a process answers

struct heap_wake {
    int32_t pid;
    int signal;
    struct summons summons;
    struct loop *loop;
    struct foreign_call *call; // the running call; NULL: none
    bool is_opening, is_freed;
    int fd;    // owned; to the process
    int pidfd; // owned; -1: the kernel has no pidfds
    struct loop_io *io, *end_io;
    struct loop_timer *timer;
    bool sent_again;
    nsec_t sent_at, ran_before; // the last signal, and the processor time of the process then
    const char *proc;           // borrowed
    heap_wake_fn done;
    void *userdata;
};

int32_t heap_wake_pid(const struct heap_wake *wake)
{
    return wake->pid;
}

uint64_t heap_wake_payer(const struct heap_wake *wake)
{
    return wake->summons.payer;
}

static int ask(struct heap_wake *wake, enum foreign_job_id job, const void *bytes, size_t size,
               foreign_done_fn done, struct err *err)
{
    const struct foreign_ask ask = {
        .job = job, .payer = wake->summons.payer, .bytes = bytes, .size = size, .fd = -1};
    return foreign_helper_ask(wake->summons.helper, &ask, done, wake, &wake->call, err);
}

static void tell_failure(struct heap_wake *wake, int result)
{
    static const int known[] = {-ENOENT, -EPROTO, -ESRCH, -ECANCELED};
    bool is_known = false;
    for (size_t i = 0; i < ELEMENTS(known); i++)
        is_known |= result == known[i];
    if (!is_known)
        result = result == -ETIMEDOUT ? -EAGAIN : -ENOENT;
    wake->done(wake->userdata, wake, wake->pid, result, -1);
}

// Returns the processor time of the process; 0 if the process has ended.
static nsec_t time_run(int32_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? nsec_now(clock) : 0;
}

// Returns whether the process has hardly had a processor since the signal, and wants one.
static bool waits_for_processor(const struct heap_wake *wake)
{
    char text[4096];
    struct span status = process_file_span(text, sizeof(text), wake->proc, wake->pid, "status");
    struct span state = span_trim(span_value_of(status, "State:"));
    bool is_running = span_take_prefix(&state, "R") || span_take_prefix(&state, "D");
    return is_running && time_run(wake->pid) - wake->ran_before < RUN_ENOUGH;
}

static void signal_sent(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct heap_wake *wake = userdata;
    (void)answer, (void)size;
    close_fd(fd);
    wake->call = NULL;
    wake->sent_at = nsec_now(CLOCK_BOOTTIME);
    // A failure of the second signal does not matter: the first one was sent.
    if (result < 0 && !wake->sent_again)
        tell_failure(wake, result);
    else
        loop_set_timer(wake->timer, wake->sent_at + TIME_MAX, 0);
}

static int ask_for_signal(struct heap_wake *wake)
{
    const struct wake_signal asked = {wake->pid, wake->signal, wake->summons.place.number};
    foreign_call_cancel(wake->call);
    wake->call = NULL;
    wake->ran_before = time_run(wake->pid);
    return ask(wake, FOREIGN_WAKE_SEND, &asked, sizeof(asked), signal_sent, NULL);
}

// The process connects.

static void leave(struct heap_wake *wake)
{
    summons_leave(&wake->summons, wake->fd);
    wake->fd = -1;
}

static void fd_ready(void *userdata)
{
    struct heap_wake *wake = userdata;
    char state = 0;
    ssize_t n = recv(wake->fd, &state, 1, MSG_DONTWAIT); // without room for descriptors
    wake->io = loop_remove_io(wake->io);
    if (n == 1)
        wake->done(wake->userdata, wake, wake->pid, state == HEAP_SUMMONS_READY ? 0 : -EBUSY,
                   wake->fd);
    else
        leave(wake);
}

static void process_comes(void *userdata, int fd)
{
    struct heap_wake *wake = userdata;
    if (wake->fd >= 0) {
        summons_leave(&wake->summons, fd);
        return;
    }
    wake->fd = fd;
    if (loop_add_io(wake->loop, fd, EPOLLIN, fd_ready, wake, &wake->io) < 0)
        leave(wake);
}

static void time_passed(void *userdata)
{
    struct heap_wake *wake = userdata;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    if (wake->fd >= 0)
        return;
    if (now - wake->sent_at < TIME_BUSY_MAX && waits_for_processor(wake)) {
        loop_set_timer(wake->timer, now + TIME_MAX, 0);
        return;
    }
    if (!wake->sent_again) {
        wake->sent_again = true;
        if (ask_for_signal(wake) == 0)
            return;
    }
    wake->done(wake->userdata, wake, wake->pid, -ETIMEDOUT, -1);
}

static void process_ended(void *userdata)
{
    struct heap_wake *wake = userdata;
    wake->end_io = loop_remove_io(wake->end_io);
    wake->done(wake->userdata, wake, wake->pid, -ESRCH, -1);
}

static int watch(struct heap_wake *wake)
{
    int r = summons_wait(&wake->summons, wake->loop, process_comes, wake);
    wake->pidfd = (int)syscall(SYS_pidfd_open, wake->pid, 0);
    if (r == 0 && wake->pidfd >= 0)
        r = loop_add_io(wake->loop, wake->pidfd, EPOLLIN, process_ended, wake, &wake->end_io);
    if (r == 0)
        r = loop_add_timer(wake->loop, NSEC_MAX, 0, time_passed, wake, &wake->timer);
    return r == 0 ? ask_for_signal(wake) : r;
}

static void opened(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct heap_wake *wake = userdata;
    const struct wake_place *place = answer;
    wake->call = NULL;
    wake->is_opening = false;
    if (result == 0 && size == sizeof(*place)) {
        wake->summons.place = place->summons;
        wake->summons.accepter.fd = fd;
        wake->signal = place->signal;
    } else {
        close_fd(fd);
    }
    if (wake->is_freed) {
        heap_wake_free(wake);
        return;
    }
    if (result == 0)
        result = watch(wake);
    if (result < 0)
        tell_failure(wake, result);
}

int heap_wake_begin(const struct heap_wake_env *env, int32_t pid, heap_wake_fn done, void *userdata,
                    struct heap_wake **ret, struct err *err)
{
    struct heap_wake *wake = calloc(1, sizeof(*wake));
    if (!wake)
        return -ENOMEM;
    *wake = (struct heap_wake){
        .pid = pid,
        .proc = env->proc,
        .loop = env->loop,
        .summons = {.helper = env->helper,
                    .payer = foreign_payer(env->proc, pid, geteuid()),
                    .accepter.fd = -1},
        .is_opening = true,
        .fd = -1,
        .pidfd = -1,
        .done = done,
        .userdata = userdata,
    };
    int r = ask(wake, FOREIGN_WAKE_OPEN, &pid, sizeof(pid), opened, err);
    if (r < 0)
        free(wake);
    else
        *ret = wake;
    return r;
}

struct heap_wake *heap_wake_free(struct heap_wake *wake)
{
    if (!wake)
        return NULL;
    if (wake->is_opening) { // the socket that the helper opens must be closed
        wake->is_freed = true;
        return NULL;
    }
    foreign_call_cancel(wake->call);
    wake->io = loop_remove_io(wake->io);
    wake->end_io = loop_remove_io(wake->end_io);
    wake->timer = loop_remove_timer(wake->timer);
    leave(wake);
    close_fd(wake->pidfd);
    summons_close(&wake->summons);
    free(wake);
    return NULL;
}
