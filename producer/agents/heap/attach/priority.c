// SPDX-License-Identifier: Apache-2.0
//
// Before this module changes the scheduling of a thread, it stores the thread's own scheduling in
// memory that a guard process shares. A pipe tells the guard that the helper has ended. Threads of
// unusual scheduling classes are left alone, and so are threads of processes that limit the time of
// real-time threads.
#include "producer/agents/heap/attach/priority.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

// As in the system call; the C library's headers have it only in recent versions.
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

#define RESET_ON_FORK 1

struct priority {
    atomic_int tid; // the thread whose priority is raised; 0: none
    struct scheduling before;
    int pipe_fd; // owned; the guard has the other end
};

static const struct scheduling first = {
    .size = sizeof(first),
    .policy = SCHED_RR,
    .priority = 1,
};

static int set(int tid, const struct scheduling *attr)
{
    return (int)syscall(SYS_sched_setattr, tid, attr, 0);
}

static _Noreturn void guard(const struct priority *shared, int fd)
{
    char byte;
    dup2(fd, 0);
    close_range(1, ~0u, 0);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        continue;
    int tid = atomic_load(&shared->tid);
    if (tid)
        set(tid, &shared->before);
    _exit(0);
}

struct priority *priority_new(void)
{
    int fds[2];
    struct priority *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return NULL;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        munmap(shared, sizeof(*shared));
        return NULL;
    }
    pid_t child = fork();
    if (child == 0)
        guard(shared, fds[0]);
    close_fd(fds[0]);
    shared->pipe_fd = fds[1];
    return child < 0 || set(0, &first) < 0 ? priority_free(shared) : shared;
}

struct priority *priority_free(struct priority *priority)
{
    if (!priority)
        return NULL;
    priority_restore(priority);
    close_fd(priority->pipe_fd);
    munmap(priority, sizeof(*priority));
    return NULL;
}

void priority_raise(struct priority *priority, int tid)
{
    struct rlimit limit;
    struct scheduling before;
    // Threads that the borrowed thread starts must not inherit the priority, which only privileges
    // can undo.
    if (!priority || geteuid() != 0 || prlimit(tid, RLIMIT_RTTIME, NULL, &limit) < 0 ||
        limit.rlim_cur != RLIM_INFINITY ||
        syscall(SYS_sched_getattr, tid, &before, sizeof(before), 0) < 0 ||
        (before.policy != SCHED_OTHER && before.policy != SCHED_BATCH &&
         before.policy != SCHED_IDLE))
        return;
    struct scheduling raised = first;
    raised.flags = before.flags | RESET_ON_FORK;
    priority->before = before;
    atomic_store(&priority->tid, tid);
    set(tid, &raised);
}

void priority_restore(struct priority *priority)
{
    int tid = priority ? atomic_load(&priority->tid) : 0;
    if (tid == 0)
        return;
    set(tid, &priority->before);
    atomic_store(&priority->tid, 0);
}
