// SPDX-License-Identifier: Apache-2.0
//
// Signals that the thread itself causes stay unblocked: a VM handles some of them on the thread's
// behalf, and the kernel kills a process that blocks them.
#include "producer/agents/jvm/quiet_thread.h"

#include <pthread.h>
#include <signal.h>

#include "common/elements.h"

static void mask_fill(sigset_t *set)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < ELEMENTS(own); i++)
        sigdelset(set, own[i]);
}

bool quiet_thread_start(void *(*run)(void *userdata), void *userdata)
{
    sigset_t mask, old;
    pthread_attr_t attr;
    pthread_t thread;
    mask_fill(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    bool begun = pthread_create(&thread, &attr, run, userdata) == 0;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return begun;
}
