// SPDX-License-Identifier: Apache-2.0
//
// The entry points. A preloaded program asks its recorder before anything else runs in it, and may
// be summoned later (dormant.h). A program that was attached to is started by mmheap_attach().
// Neither way leaves a descriptor or a thread behind, and a failure leaves the program as it was.
#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "producer/agents/heap/client.h"
#include "producer/agents/heap/dormant.h"
#include "producer/agents/heap/unwind.h"
#include "producer/heap/recorder.h"

static const char *variable(char **environment, const char *name)
{
    size_t size = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, size) == 0 && (*environment)[size] == '=')
            return *environment + size + 1;
    return NULL;
}

static bool ask_recorder(char **environment)
{
    const char *name = variable(environment, HEAP_SOCKET_VARIABLE);
    if (!name)
        name = HEAP_SOCKET_FOLDER "/" HEAP_SOCKET_FILE;
    int socket_fd = recorder_connect(name, true);
    int fd = socket_fd >= 0 ? recorder_receive(socket_fd, recorder_wait_max(name)) : -1;
    bool is_wanted = fd >= 0;
    if (is_wanted) {
        client_start(fd);
        close(fd);
    }
    if (socket_fd >= 0)
        close(socket_fd);
    return is_wanted;
}

// getenv() finds variables only after the program's own code has begun to run.
static bool is_loaded_later(char **environment)
{
    char name[256];
    size_t size = environment && *environment ? strcspn(*environment, "=") : 0;
    if (size == 0 || size >= sizeof(name))
        return false;
    memcpy(name, *environment, size);
    name[size] = 0;
    return getenv(name) != NULL;
}

#pragma weak gnu_get_libc_version

// Runs before all other constructors, also before the C library's: getenv() finds nothing yet. If
// getenv() finds something, the library was loaded later: the helper that loaded the library does
// the rest, and nothing may wait here.
__attribute__((constructor)) static void begin_preloaded(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    // With another C library, or without an unwinder, the program runs as without this library.
    if (!gnu_get_libc_version || !unwind_is_there())
        return;
    int saved = errno;
    if (getauxval(AT_SECURE) == 0 && !is_loaded_later(environment) && !ask_recorder(environment))
        dormant_begin(variable(environment, HEAP_SIGNAL_VARIABLE));
    errno = saved;
}

// Runs after all other destructors, as the constructor runs before all others.
__attribute__((destructor)) static void end_program(void)
{
    client_finish();
}

// A thread that is borrowed for a call from outside may be anywhere in the program. It must not end
// there because of a cancellation, nor find its errno changed.
struct borrowed {
    int error, cancel;
};

static struct borrowed borrow(void)
{
    struct borrowed borrowed = {.error = errno};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &borrowed.cancel);
    return borrowed;
}

static void give_back(const struct borrowed *borrowed)
{
    pthread_setcancelstate(borrowed->cancel, NULL);
    errno = borrowed->error;
}

// Begins a profile with the ring behind `fd`, which is closed. Returns 0 or a negative errno, also
// in *ret_result, because a caller from outside does not see the return value.
__attribute__((visibility("default"))) int mmheap_attach(int fd, int *ret_result);
int mmheap_attach(int fd, int *ret_result)
{
    struct borrowed borrowed = borrow();
    int r = client_start(fd);
    close(fd);
    *ret_result = r;
    give_back(&borrowed);
    return r;
}

// Ends the profile, if there is one, without waiting for the next sample.
__attribute__((visibility("default"))) int mmheap_detach(int unused, int *ret_result);
int mmheap_detach(int unused, int *ret_result)
{
    (void)unused;
    struct borrowed borrowed = borrow();
    client_stop();
    *ret_result = 0;
    give_back(&borrowed);
    return 0;
}

// Answers the recorder in a process in which no thread does.
__attribute__((visibility("default"))) int mmheap_answer(int unused, int *ret_result);
int mmheap_answer(int unused, int *ret_result)
{
    (void)unused;
    struct borrowed borrowed = borrow();
    client_answer();
    *ret_result = 0;
    give_back(&borrowed);
    return 0;
}
