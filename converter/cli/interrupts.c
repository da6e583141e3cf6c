// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/interrupts.h"

#include <signal.h>
#include <stddef.h>

#include "common/elements.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

static volatile sig_atomic_t interrupted; // set by the signal handler

static void on_signal(int signal_number)
{
    interrupted = signal_number;
}

static void handle_all(void (*from)(int), void (*to)(int))
{
    struct sigaction action = {.sa_handler = to}, old;
    for (size_t i = 0; i < ELEMENTS(signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == from)
            sigaction(signals[i], &action, NULL);
}

void interrupts_note(void)
{
    handle_all(SIG_DFL, on_signal);
}

bool interrupts_let(void)
{
    handle_all(on_signal, SIG_DFL);
    return !interrupted;
}

bool interrupts_none(void *userdata)
{
    (void)userdata;
    return !interrupted;
}
