// SPDX-License-Identifier: Apache-2.0
//
// A program may lose its handler at any moment, by executing another one: the default signal does
// nothing then, others would end it. It goes to one thread, right after the process has shown that
// the handler is the library's, and the kernel that the thread lets it through; a thread that runs
// is preferred, because one that waits in poll() or the like gets EINTR. It is sent once more: a
// process that is just taking its hooks out cannot follow.
//
// A program in a jail of its own making is left alone: nobody knows what the jail makes of the
// system calls that it would take. The filter that a container has put around all its processes is
// no such jail.
#include "producer/sources/heap/heap_wake.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "common/unix_socket.h"
#include "producer/agents/heap/heap_abi.h"
#include "producer/sources/heap/summons.h"
#include "producer/sources/proc_text.h"
#include "producer/sources/residency/maps.h"

#define STATUS_MAX  8192
#define AGAIN_AFTER (80 * NSEC_PER_MSEC)
#define TIME_MAX    (160 * NSEC_PER_MSEC)
#define THREADS_MAX 512 // that are looked at

struct heap_wake {
    int32_t pid;
    int signal;
    struct summons summons;
    const char *proc; // borrowed
    struct loop *loop;
    int fd;    // owned; the process's
    int pidfd; // owned; -1: the kernel has no such thing
    struct loop_io *listen_io, *io, *end_io;
    struct loop_timer *timer;
    bool sent_again;
    heap_wake_fn done;
    void *userdata;
};

int32_t heap_wake_pid(const struct heap_wake *wake)
{
    return wake->pid;
}

// What the kernel says of a thread.
struct thread_status {
    char state;
    uint64_t tracer, seccomp, filters, blocked, caught;
    uint32_t uid, gid; // those that files are opened with
};

static uint64_t take_hex(struct span span)
{
    span = span_trim(span);
    char text[17];
    size_t size = span_size(span) < sizeof(text) - 1 ? span_size(span) : sizeof(text) - 1;
    memcpy(text, span.pos, size);
    text[size] = 0;
    return strtoull(text, NULL, 16);
}

static uint32_t fourth_number(struct span span)
{
    uint64_t number = 0;
    for (int i = 0; i < 4; i++)
        span_take_u64(&span, &number);
    return (uint32_t)number;
}

static int read_status(const char *proc, const char *below, struct thread_status *ret)
{
    char text[STATUS_MAX];
    *ret = (struct thread_status){0};
    ssize_t n = text_file_read_once(text, sizeof(text), proc, "%s", below);
    struct span rest = span_over(text, n > 0 ? (size_t)n : 0), line;
    while (span_take_line(&rest, &line)) {
        if (span_take_prefix(&line, "State:"))
            ret->state = span_size(span_trim(line)) ? span_trim(line).pos[0] : 0;
        else if (span_take_prefix(&line, "TracerPid:"))
            span_take_u64(&line, &ret->tracer);
        else if (span_take_prefix(&line, "Seccomp:"))
            span_take_u64(&line, &ret->seccomp);
        else if (span_take_prefix(&line, "Seccomp_filters:"))
            span_take_u64(&line, &ret->filters);
        else if (span_take_prefix(&line, "SigBlk:"))
            ret->blocked = take_hex(line);
        else if (span_take_prefix(&line, "SigCgt:"))
            ret->caught = take_hex(line);
        else if (span_take_prefix(&line, "Uid:"))
            ret->uid = fourth_number(line);
        else if (span_take_prefix(&line, "Gid:"))
            ret->gid = fourth_number(line);
    }
    return n > 0 && ret->state ? 0 : -ESRCH;
}

static bool is_jailed(const char *proc, int32_t pid, const struct thread_status *status)
{
    enum { SECCOMP_FILTERS = 2 };
    char below[64];
    struct thread_status first;
    if (status->seccomp != SECCOMP_FILTERS)
        return status->seccomp != 0;
    snprintf(below, sizeof(below), "/%d/root/proc/1/status", pid);
    return read_status(proc, below, &first) < 0 || first.seccomp != SECCOMP_FILTERS ||
           first.filters != status->filters;
}

static void read_mark(const struct mapping *mapping, size_t at, int *ret_number, int *ret_version)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)(mapping->path_size - at), mapping->path + at);
    if (sscanf(text, "%d-abi%d", ret_number, ret_version) < 1)
        *ret_number = 0;
}

// The signal that the process waits for, or 0; *ret_version: of its library, 0 for those of old.
static int marked_signal(const char *proc, int32_t pid, int *ret_version)
{
    static const char mark[] = "/memfd:" HEAP_DORMANT_NAME;
    struct maps_reader *reader = malloc(sizeof(*reader));
    struct mapping mapping;
    int number = 0;
    *ret_version = 0;
    if (!reader || maps_open(reader, proc, pid) < 0) {
        free(reader);
        return 0;
    }
    while (number == 0 && maps_next(reader, &mapping) > 0)
        if (mapping.path_size > sizeof(mark) && memcmp(mapping.path, mark, sizeof(mark) - 1) == 0)
            read_mark(&mapping, sizeof(mark) - 1, &number, ret_version);
    maps_close(reader);
    free(reader);
    return number == SIGURG || (number >= SIGRTMIN && number <= SIGRTMAX) ? number : 0;
}

static bool takes_signal(const struct thread_status *status, int number)
{
    uint64_t bit = UINT64_C(1) << (number - 1);
    return (status->caught & bit) && !(status->blocked & bit) && status->tracer == 0 &&
           strchr("RSDI", status->state);
}

// A thread that takes the signal, or 0. Any thread may be the next that allocates: where one has
// put itself into a jail, none is the right one.
static int32_t find_thread(const struct heap_wake *wake)
{
    char path[64], below[64];
    struct thread_status status;
    int32_t found = 0;
    bool runs = false, jailed = false;
    snprintf(path, sizeof(path), "%s/%d/task", wake->proc, wake->pid);
    DIR *dir = opendir(path);
    int n = 0;
    for (const struct dirent *entry; dir && !jailed && (entry = readdir(dir));) {
        int32_t tid = (int32_t)strtol(entry->d_name, NULL, 10);
        snprintf(below, sizeof(below), "/%d/task/%d/status", wake->pid, tid);
        if (tid <= 0 || n++ >= THREADS_MAX || read_status(wake->proc, below, &status) < 0)
            continue;
        jailed = is_jailed(wake->proc, wake->pid, &status);
        if (takes_signal(&status, wake->signal) && !runs && (!found || status.state == 'R')) {
            found = tid;
            runs = status.state == 'R';
        }
    }
    if (dir)
        closedir(dir);
    return jailed ? 0 : found;
}

static int send_signal(const struct heap_wake *wake)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = (void *)(uintptr_t)wake->summons.number;
    int version;
    if (marked_signal(wake->proc, wake->pid, &version) != wake->signal)
        return -ENOENT;
    int32_t tid = find_thread(wake);
    if (tid == 0)
        return -ENOENT;
    return syscall(SYS_rt_tgsigqueueinfo, wake->pid, tid, wake->signal, &info) < 0 ? -errno : 0;
}

// The process comes.

static void fd_ready(void *userdata, uint32_t events)
{
    struct heap_wake *wake = userdata;
    char state = 0;
    int passed_fd = -1;
    (void)events;
    int64_t n = unix_socket_receive(wake->fd, &state, 1, MSG_DONTWAIT, &passed_fd);
    close_fd(passed_fd);
    wake->io = loop_remove_io(wake->io);
    if (n == 1)
        wake->done(wake->userdata, wake, wake->pid, state == HEAP_SUMMONS_READY ? 0 : -EBUSY,
                   wake->fd);
    else
        wake->fd = close_fd(wake->fd);
}

static void listen_ready(void *userdata, uint32_t events)
{
    struct heap_wake *wake = userdata;
    (void)events;
    int fd = summons_accept(&wake->summons);
    if (fd < 0 || wake->fd >= 0) {
        close_fd(fd);
        return;
    }
    wake->fd = fd;
    if (loop_add_io(wake->loop, fd, EPOLLIN, fd_ready, wake, &wake->io) < 0)
        wake->fd = close_fd(wake->fd);
}

static void time_passed(void *userdata, nsec_t due, uint64_t n_due)
{
    struct heap_wake *wake = userdata;
    (void)n_due;
    if (wake->fd >= 0)
        return;
    if (!wake->sent_again) {
        wake->sent_again = true;
        send_signal(wake);
        loop_set_timer(wake->timer, due + TIME_MAX - AGAIN_AFTER, 0);
        return;
    }
    wake->done(wake->userdata, wake, wake->pid, -ETIMEDOUT, -1);
}

static void process_ended(void *userdata, uint32_t events)
{
    struct heap_wake *wake = userdata;
    (void)events;
    wake->end_io = loop_remove_io(wake->end_io);
    wake->done(wake->userdata, wake, wake->pid, -ESRCH, -1);
}

static int watch(struct heap_wake *wake)
{
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    int r = loop_add_io(wake->loop, wake->summons.listen_fd, EPOLLIN, listen_ready, wake,
                        &wake->listen_io);
    wake->pidfd = (int)syscall(SYS_pidfd_open, wake->pid, 0);
    if (r == 0 && wake->pidfd >= 0)
        r = loop_add_io(wake->loop, wake->pidfd, EPOLLIN, process_ended, wake, &wake->end_io);
    if (r == 0)
        r = loop_add_timer(wake->loop, now + AGAIN_AFTER, 0, time_passed, wake, &wake->timer);
    return r == 0 ? send_signal(wake) : r;
}

int heap_wake_begin(struct loop *loop, const char *proc, int32_t pid, heap_wake_fn done,
                    void *userdata, struct heap_wake **ret, struct err *err)
{
    char below[32];
    struct thread_status status;
    int version;
    snprintf(below, sizeof(below), "/%d/status", pid);
    int number = marked_signal(proc, pid, &version);
    if (number != 0 && version != HEAP_ABI_VERSION)
        return err_set(err, -EPROTO, "it has another version of %s, until it is started anew",
                       HEAP_LIBRARY_FILE);
    if (number == 0 || read_status(proc, below, &status) < 0 || is_jailed(proc, pid, &status))
        return -ENOENT;
    struct heap_wake *wake = calloc(1, sizeof(*wake));
    if (!wake)
        return -ENOMEM;
    *wake = (struct heap_wake){
        .pid = pid,
        .signal = number,
        .proc = proc,
        .loop = loop,
        .summons = {.folder_fd = -1, .listen_fd = -1},
        .fd = -1,
        .pidfd = -1,
        .done = done,
        .userdata = userdata,
    };
    int r = summons_open(&wake->summons, proc, pid, status.uid, status.gid, "");
    if (r == 0)
        r = watch(wake);
    if (r < 0) {
        heap_wake_free(wake);
        return err_errno(err, r, "waking process %d", pid);
    }
    *ret = wake;
    return 0;
}

struct heap_wake *heap_wake_free(struct heap_wake *wake)
{
    if (!wake)
        return NULL;
    wake->io = loop_remove_io(wake->io);
    wake->listen_io = loop_remove_io(wake->listen_io);
    wake->end_io = loop_remove_io(wake->end_io);
    wake->timer = loop_remove_timer(wake->timer);
    summons_close(&wake->summons);
    close_fd(wake->fd);
    close_fd(wake->pidfd);
    free(wake);
    return NULL;
}
