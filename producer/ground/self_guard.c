// SPDX-License-Identifier: Apache-2.0
//
// While memory is short, a process that needs a page must reclaim memory itself, and may wait for
// the disk. Therefore a recorder allocates its memory beforehand: the buffers (session_buffers.c),
// and here a reserve of heap and stack, for example for the name of a new task. malloc() keeps the
// reserve and does not give it back.
//
// The kernel resets the priority in children (SCHED_FLAG_RESET_ON_FORK). Children inherit
// oom_score_adj, which self_guard_release() resets. The priority of a session applies to all its
// processes, so children get sessions of their own.
#include "producer/ground/self_guard.h"

#include <malloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/ground/memory_lock.h"

#define HEAP_RESERVE   (64u << 10)
#define STACK_RESERVE  (48u << 10) // the deepest call of a recording has 32 KiB of buffers
#define NICE           (-10)
#define SLICE_NS       100000 // the minimum since kernel 6.12; other kernels ignore the value
#define RESET_ON_FORK  1
#define PAGE_BYTES_MIN 4096

// Layout of the system call. Only recent headers of the C library have the struct.
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void touch(volatile char *memory, size_t size)
{
    for (size_t i = 0; i < size; i += PAGE_BYTES_MIN)
        memory[i] = 0;
}

static __attribute__((noinline)) void touch_stack(void)
{
    char memory[STACK_RESERVE];
    touch(memory, sizeof(memory));
}

static void reserve_memory(void)
{
    mallopt(M_TRIM_THRESHOLD, 4 * HEAP_RESERVE);
    char *memory = malloc(HEAP_RESERVE);
    if (memory)
        touch(memory, HEAP_RESERVE);
    free(memory);
    touch_stack();
}

// Changes the score if it is `from`. Has no effect without the right: recording continues.
static void change_score(pid_t pid, int from, int to)
{
    char path[64];
    int score;
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    FILE *file CLEANUP(fclosep) = fopen(path, "r+e");
    if (!file || fscanf(file, "%d", &score) != 1 || score != from)
        return;
    rewind(file);
    fprintf(file, "%d", to);
}

static bool raise_priority(void)
{
    struct scheduling attr = {0};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != SCHED_OTHER ||
        attr.nice > 0)
        return false;
    attr.size = sizeof(attr);
    attr.flags = RESET_ON_FORK;
    attr.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0); // permitted for every process
    attr.nice = attr.nice < NICE ? attr.nice : NICE;
    return syscall(SYS_sched_setattr, 0, &attr, 0) == 0;
}

// If the kernel distributes processor time by session (sched_autogroup_enabled), a priority counts
// only among the processes of a session. Therefore the recorder's own session gets the priority,
// too. A session that the recorder shares with a shell, and perhaps with the recorded programs,
// keeps its priority.
static void raise_session(void)
{
    if (getsid(0) != getpid())
        return;
    FILE *file CLEANUP(fclosep) = fopen("/proc/self/autogroup", "we");
    if (file)
        fprintf(file, "%d", NICE);
}

void self_guard_take(void)
{
    reserve_memory();
    memory_lock();
    change_score(getpid(), 0, SELF_GUARD_OOM_SCORE_ADJ);
    if (raise_priority())
        raise_session();
}

void self_guard_release(pid_t child)
{
    change_score(child, SELF_GUARD_OOM_SCORE_ADJ, 0);
}
