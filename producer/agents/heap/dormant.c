// SPDX-License-Identifier: Apache-2.0
//
// The handler only makes the next allocation take the slow path (client_summon()). All work that
// takes locks is done there, in a thread that is between two steps of the program. A process that
// does not allocate has nothing to report and is not disturbed.
//
// A process that may send a signal to the program could do anything to it: a summons is obeyed
// without further checks.
#include "producer/agents/heap/dormant.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "producer/agents/heap/client.h"
#include "producer/agents/heap/dormant_signal.h"
#include "producer/heap/heap_abi.h"
#include "producer/heap/recorder.h"

#define SIGNAL_MIN 34 // the C library uses the signals below
#define SIGNAL_MAX 64

static int connect_summoner(uint64_t summons, char state)
{
    static const char *const folders[HEAP_SUMMONS_N_FOLDERS] = HEAP_SUMMONS_FOLDERS;
    char path[64];
    char *end = stpcpy(path, folders[HEAP_SUMMONS_FOLDER(summons)]);
    end = stpcpy(end, "/" HEAP_SUMMONS_PREFIX);
    for (int shift = 60; shift >= 0; shift -= 4)
        *end++ = "0123456789abcdef"[summons >> shift & 15];
    *end = 0;
    // No other process connects to the socket of a summons: a full queue is not waited for.
    int fd = recorder_connect(path, false);
    if (fd >= 0 && send(fd, &state, 1, MSG_NOSIGNAL) != 1) {
        close(fd);
        return -ECONNREFUSED;
    }
    return fd;
}

int dormant_answer(uint64_t summons)
{
    int socket_fd = connect_summoner(summons, HEAP_SUMMONS_READY);
    if (socket_fd < 0)
        return socket_fd;
    int fd = recorder_receive(socket_fd, RECORDER_WAIT);
    close(socket_fd);
    return fd;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno, cancel;
    uint64_t summons = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    (void)number;
    (void)context;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                           &cancel); // the program does not expect a cancellation here
    if (info->si_code == SI_QUEUE && summons && !client_summon(summons)) {
        int fd = connect_summoner(summons, HEAP_SUMMONS_BUSY);
        if (fd >= 0)
            close(fd);
    }
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
}

static int signal_number(const char *text)
{
    char *end;
    if (!text)
        return HEAP_SIGNAL_DEFAULT;
    long number = strtol(text, &end, 10);
    bool may_be = number == HEAP_SIGNAL_DEFAULT || (number >= SIGNAL_MIN && number <= SIGNAL_MAX);
    return *text && !*end && may_be ? (int)number : 0;
}

void dormant_begin(const char *signal_text)
{
    int number = signal_number(signal_text);
    if (number && dormant_signal_is_free(number) && client_prepare() == 0)
        dormant_signal_take(number, on_signal);
}
