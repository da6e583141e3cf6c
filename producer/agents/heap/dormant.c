// SPDX-License-Identifier: Apache-2.0
//
// The handler makes the next allocation a look (client_summon()) and returns; what takes locks is
// done there, in a thread that is between two of the program's own steps. A process that does not
// allocate has nothing to tell, and is not disturbed.
//
// Recorders must not send the signal to a program that would die of it or has a handler of its own.
// So a program says that it waits for one: it maps an empty file whose name has the number. The
// mapping goes where the handler goes: it is in a child after fork, and not behind an exec.
//
// Who may send a process a signal may do with it as he likes, so a summons is followed as it comes.
#include "producer/agents/heap/dormant.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/unix_socket.h"
#include "producer/agents/heap/client.h"
#include "producer/agents/heap/heap_abi.h"
#include "producer/agents/heap/recorder.h"

#define SIGNAL_MIN 34 // those before are the C library's
#define SIGNAL_MAX 64
#define MARK_BYTES 4096
#define STATUS_MAX 8192

static int connect_summoner(uint64_t summons, char state)
{
    static const char *const folders[HEAP_SUMMONS_N_FOLDERS] = HEAP_SUMMONS_FOLDERS;
    char path[64];
    char *end = stpcpy(path, folders[HEAP_SUMMONS_FOLDER(summons)]);
    end = stpcpy(end, "/" HEAP_SUMMONS_PREFIX);
    for (int shift = 60; shift >= 0; shift -= 4)
        *end++ = "0123456789abcdef"[summons >> shift & 15];
    *end = 0;
    int fd = recorder_connect(path);
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
    int fd = recorder_receive(socket_fd);
    close(socket_fd);
    return fd;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    uint64_t summons = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    (void)number;
    (void)context;
    if (info->si_code == SI_QUEUE && summons && !client_summon(summons)) {
        int fd = connect_summoner(summons, HEAP_SUMMONS_BUSY);
        if (fd >= 0)
            close(fd);
    }
    errno = saved;
}

static int signal_number(const char *text)
{
    char *end;
    if (!text)
        return HEAP_SIGNAL_DEFAULT;
    long number = strtol(text, &end, 10);
    return *text && !*end && number >= SIGNAL_MIN && number <= SIGNAL_MAX ? (int)number : 0;
}

// What the kernel says. An emulator of another machine takes all signals, and may count them
// otherwise: then the number means nothing to the outside.
static bool is_caught(int number)
{
    static const char name[] = "\nSigCgt:\t";
    char text[STATUS_MAX];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *mask = strstr(text, name);
    return !mask || (strtoull(mask + sizeof(name) - 1, NULL, 16) >> (number - 1) & 1);
}

static bool is_free(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
           action.sa_handler == SIG_DFL && !is_caught(number);
}

static bool show_mark(int number)
{
    char name[] = HEAP_DORMANT_NAME "00";
    name[sizeof(name) - 3] = (char)('0' + number / 10);
    name[sizeof(name) - 2] = (char)('0' + number % 10);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return false;
    void *mark = mmap(NULL, MARK_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return mark != MAP_FAILED;
}

void dormant_begin(const char *signal_text)
{
    int number = signal_number(signal_text);
    struct sigaction former, action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    action.sa_sigaction = on_signal;
    sigfillset(&action.sa_mask);
    if (number && is_free(number) && client_prepare() == 0 &&
        sigaction(number, &action, &former) == 0 && !show_mark(number))
        sigaction(number, &former, NULL);
}
