// SPDX-License-Identifier: Apache-2.0
#include "producer/agents/heap/attach/tracee.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define STOPS 50

static struct {
    uint32_t version, flags;
    uint64_t start, size, abort;
} sequence __attribute__((aligned(32)));

// Begins a restartable sequence that has no end, again and again: the kernel aborts the sequence
// whenever another process gets the processor.
static _Noreturn void stay_in_sequence(void)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    __asm__ volatile("lea 1f(%%rip), %%rax\n"
                     "mov %%rax, 8(%1)\n"
                     "movq $(2f - 1f), 16(%1)\n"
                     "lea 4f(%%rip), %%rax\n"
                     "mov %%rax, 24(%1)\n"
                     "3: mov %1, 8(%0)\n"
                     "1: nop\n"
                     "jmp 1b\n"
                     "2: jmp 3b\n"
                     ".long 0x53053053\n" // RSEQ_SIG
                     "4: jmp 3b\n"
                     :
                     : "r"(area), "r"(&sequence)
                     : "rax", "memory");
    __builtin_unreachable();
}

static _Noreturn void spin(void)
{
    for (volatile int i = 0;; i++)
        continue;
}

static pid_t start(void (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body();
        _exit(1);
    }
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, __WALL);
}

// Stops the child again and again. Returns how often the child was in a sequence.
static int count(pid_t child)
{
    sigset_t children;
    int n = 0;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    for (int i = 0; i < STOPS; i++) {
        struct tracee tracee;
        usleep(1000);
        int r = tracee_stop(child, nsec_now(CLOCK_MONOTONIC) + 10 * NSEC_PER_SEC, &tracee);
        if (r == -EPERM)
            n = -1;
        if (r < 0)
            break;
        n += tracee_is_in_sequence(&tracee);
        tracee_release(&tracee);
    }
    end(child);
    return n;
}

static void test_a_thread_in_a_restartable_sequence(void **state)
{
    (void)state;
    if (__rseq_size == 0)
        skip_because(
            "no restartable sequences: the kernel has none, or GLIBC_TUNABLES forbids them");
    int n = count(start(stay_in_sequence));
    if (n < 0)
        skip_because("this user may not trace");
    assert_true(n > STOPS / 2);
}

static void test_a_thread_in_none(void **state)
{
    (void)state;
    int n = count(start(spin));
    if (n < 0)
        skip_because("this user may not trace");
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_in_a_restartable_sequence),
        cmocka_unit_test(test_a_thread_in_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
