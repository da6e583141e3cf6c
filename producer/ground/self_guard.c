// SPDX-License-Identifier: Apache-2.0
//
// Whoever needs a page while memory is short reclaims it himself, and may wait for the disk. So a
// recorder takes what it needs beforehand: the buffers (session_buffers.c), and here a reserve of
// heap and stack, for the name of a task that occurs for the first time and the like. malloc() then
// keeps the reserve, it is not given back.
//
// The priority is reset in children by the kernel (SCHED_FLAG_RESET_ON_FORK). The score is
// inherited, so it is taken from them. The priority of the session is that of all processes in it,
// so children get sessions of their own.
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
#define SLICE_NS       100000 // the least that kernels since 6.12 take; others ignore it
#define RESET_ON_FORK  1
#define PAGE_BYTES_MIN 4096

// As the system call has it; the C library's headers know it only of late.
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

// Where it may not, nothing happens: recording goes on without.
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
    syscall(SYS_sched_setattr, 0, &attr, 0); // everybody may
    attr.nice = attr.nice < NICE ? attr.nice : NICE;
    return syscall(SYS_sched_setattr, 0, &attr, 0) == 0;
}

// Where the kernel shares processors out by session (sched_autogroup_enabled), the priority counts
// among the processes of one session only. A session of its own gets it, too; one that the recorder
// shares with a shell, and perhaps with what it records, does not.
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
