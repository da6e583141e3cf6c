// SPDX-License-Identifier: Apache-2.0
//
// A program may lose its handler at any moment, by executing another program. The default signal
// then has no effect, but other signals would kill the program. Therefore the signal goes to one
// thread, directly after two checks: the process shows that the handler is the library's, and the
// kernel shows that the thread does not block the signal. A running thread is preferred, because a
// thread that waits in poll() or a similar call gets EINTR.
//
// Between the checks and the signal, a process of another user can execute a set-uid program of
// root, to which that user must not send signals. The checks of a process with many threads take
// milliseconds. Therefore the signal is sent with the rights of the process's user.
//
// A program in a seccomp jail of its own is left alone: its jail may forbid the system calls of a
// profile. The filter that a container puts around all its processes is not a jail of this kind:
// the container's first process has the same filter. The container controls its own /proc, but
// false data there can only wake its own processes.
//
// All of this may block: the memory map of a process is locked during its page faults, and a file
// system of its own may serve these.
#include "producer/sources/heap/wake_job.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/foreign/path.h"
#include "producer/ground/maps.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"
#include "producer/sources/heap/summons.h"

#define STATUS_MAX  8192
#define THREADS_MAX 512 // maximum number of threads to examine
#define NOBODY      65534

// The kernel's description of a thread.
struct thread_status {
    char state;
    uint64_t tracer, seccomp, filters, blocked, caught;
    uint32_t uid, gid; // ids for opening files
    uint32_t real_uid;
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

static uint32_t nth_number(int n, struct span span)
{
    uint64_t number = 0;
    for (int i = 0; i < n; i++)
        span_take_u64(&span, &number);
    return (uint32_t)number;
}

static int parse_status(struct span text, struct thread_status *ret)
{
    struct span state = span_trim(span_value_of(text, "State:"));
    if (!span_size(state))
        return -ESRCH;
    *ret = (struct thread_status){
        .state = *state.pos,
        .tracer = span_number_of(text, "TracerPid:"),
        .seccomp = span_number_of(text, "Seccomp:"),
        .filters = span_number_of(text, "Seccomp_filters:"),
        .blocked = take_hex(span_value_of(text, "SigBlk:")),
        .caught = take_hex(span_value_of(text, "SigCgt:")),
        .uid = nth_number(4, span_value_of(text, "Uid:")),
        .gid = nth_number(4, span_value_of(text, "Gid:")),
        .real_uid = nth_number(1, span_value_of(text, "Uid:")),
    };
    return 0;
}

static int read_status(const char *proc, const char *below, struct thread_status *ret)
{
    char text[STATUS_MAX];
    return parse_status(text_file_span(text, sizeof(text), proc, "%s", below), ret);
}

// Reads the status of the process that `pid` sees as process 1.
static int read_first(const char *proc, int32_t pid, struct thread_status *ret)
{
    static const struct foreign_want regular = {.type = S_IFREG};
    char text[STATUS_MAX];
    int root_fd CLEANUP(close_fdp) = foreign_root(proc, pid);
    if (root_fd < 0)
        return root_fd;
    int fd CLEANUP(close_fdp) = foreign_open(root_fd, "proc/1/status", 0, &regular, NULL);
    ssize_t n = fd < 0 ? 0 : text_file_read(&(struct text_file){.fd = fd}, text, sizeof(text));
    return parse_status(span_over(text, n > 0 ? (size_t)n : 0), ret);
}

static bool is_jailed(const char *proc, int32_t pid, const struct thread_status *status)
{
    enum { SECCOMP_FILTERS = 2 };
    struct thread_status first;
    if (status->seccomp != SECCOMP_FILTERS)
        return status->seccomp != 0;
    return read_first(proc, pid, &first) < 0 || first.seccomp != SECCOMP_FILTERS ||
           first.filters != status->filters;
}

static void read_mark(const struct mapping *mapping, size_t at, int *ret_number, int *ret_version)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)(mapping->path_size - at), mapping->path + at);
    if (sscanf(text, "%d-abi%d", ret_number, ret_version) < 1)
        *ret_number = 0;
}

// Returns the signal that the process waits for, or 0. *ret_version is the version of its library,
// 0 for old libraries.
static int marked_signal(const char *proc, int32_t pid, int *ret_version)
{
    static const char mark[] = "/memfd:" HEAP_DORMANT_NAME;
    struct line_reader *reader = malloc(sizeof(*reader));
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
    line_reader_close(reader);
    free(reader);
    return number == SIGURG || (number >= SIGRTMIN && number <= SIGRTMAX) ? number : 0;
}

static bool takes_signal(const struct thread_status *status, int number)
{
    uint64_t bit = UINT64_C(1) << (number - 1);
    return (status->caught & bit) && !(status->blocked & bit) && status->tracer == 0 &&
           strchr("RSDI", status->state);
}

// Returns a thread that takes the signal, or 0; *ret_uid is its user. Any thread may be the next to
// allocate: if one thread has entered a jail, no thread is suitable.
static int32_t find_thread(const char *proc, const struct wake_signal *wake, uint32_t *ret_uid)
{
    char path[64], below[64];
    struct thread_status status;
    int32_t found = 0;
    bool runs = false, jailed = false;
    snprintf(path, sizeof(path), "%s/%d/task", proc, wake->pid);
    DIR *dir CLEANUP(closedirp) = opendir(path);
    int n = 0;
    for (int32_t tid; !jailed && (tid = process_next(dir));) {
        snprintf(below, sizeof(below), "/%d/task/%d/status", wake->pid, tid);
        if (n++ >= THREADS_MAX || read_status(proc, below, &status) < 0)
            continue;
        jailed = is_jailed(proc, wake->pid, &status);
        if (takes_signal(&status, wake->signal) && !runs && (!found || status.state == 'R')) {
            found = tid;
            *ret_uid = status.real_uid;
            runs = status.state == 'R';
        }
    }
    return jailed ? 0 : found;
}

// Sends the signal with the rights of the user. The kernel looks at the sender's real and effective
// user; with NOBODY as its real user the helper gets no signals from the user meanwhile. The helper
// has one thread.
static int send_as(uint32_t uid, const struct wake_signal *wake, int32_t tid, siginfo_t *info)
{
    uid_t own = geteuid();
    bool changes = own == 0 && uid != own;
    if (changes && setresuid(NOBODY, uid, own) < 0)
        return -errno;
    int r = syscall(SYS_rt_tgsigqueueinfo, wake->pid, tid, wake->signal, info) < 0 ? -errno : 0;
    if (changes && setresuid(own, own, own) < 0)
        _exit(1);
    return r;
}

static int send_signal(const char *proc, const struct wake_signal *wake)
{
    uint32_t uid = 0;
    siginfo_t info = {.si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_ptr = (void *)(uintptr_t)wake->number;
    int version;
    if (marked_signal(proc, wake->pid, &version) != wake->signal)
        return -ENOENT;
    int32_t tid = find_thread(proc, wake, &uid);
    return tid == 0 ? -ENOENT : send_as(uid, wake, tid, &info);
}

void wake_send_job(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret)
{
    ret->result = send_signal(worker->proc, request->bytes);
}

void wake_open_job(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret)
{
    const int32_t *pid = request->bytes;
    char below[32];
    struct thread_status status;
    struct wake_place place = {0};
    int version;
    snprintf(below, sizeof(below), "/%d/status", *pid);
    place.signal = marked_signal(worker->proc, *pid, &version);
    if (place.signal != 0 && version != HEAP_ABI_VERSION) {
        ret->result = -EPROTO;
        return;
    }
    ret->result = -ENOENT;
    if (place.signal == 0 || read_status(worker->proc, below, &status) < 0 ||
        is_jailed(worker->proc, *pid, &status))
        return;
    const struct summons_request asked = {.pid = *pid, .uid = status.uid, .gid = status.gid};
    ret->result = summons_place_open(worker, &asked, &place.summons, &ret->fd);
    memcpy(ret->bytes, &place, sizeof(place));
    ret->size = sizeof(place);
}
