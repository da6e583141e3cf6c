// SPDX-License-Identifier: Apache-2.0
//
// A new thread inherits the signal mask of the thread that starts it.
#include "common/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *userdata), void *userdata)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int r = -pthread_attr_init(&attributes);
    if (r < 0)
        return r;
    pthread_attr_setstacksize(&attributes, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = -pthread_create(ret, &attributes, run, userdata);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return r;
}
