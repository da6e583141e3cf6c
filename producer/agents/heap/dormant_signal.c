// SPDX-License-Identifier: Apache-2.0
//
// Recorders must not send the signal to a program that has a handler of its own. Therefore a
// program shows that it waits for a signal: it maps an empty file whose name has the signal's
// number (heap_abi.h). The mapping lives exactly as long as the handler: it survives fork, and
// disappears at exec.
//
// A program may want the signal for itself later. Therefore the calls that set handlers are hooked
// in the objects that the program began with. If the program sets a handler, the mapping is
// removed, and the program gets the signal. Some programs set the default for all signals at their
// start. The default of SIGURG is to ignore the signal, which makes no difference: then the call
// reports success, and our handler stays. The program never learns of our handler.
//
// After vfork the child shares memory and mapping with the parent, but not the handlers. A child
// after fork that sets a handler keeps the mapping, because it cannot be distinguished from a child
// after vfork.
#include "producer/agents/heap/dormant_signal.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/agents/heap/first_objects.h"
#include "producer/agents/heap/hooks.h"
#include "producer/agents/heap/unwind.h"
#include "producer/heap/heap_abi.h"

#define MARK_BYTES 4096
#define STATUS_MAX 8192

#define TEXT_OF(number)     #number
#define TEXT_OF_ALL(number) TEXT_OF(number)

typedef void (*handler_fn)(int);
typedef int (*sigaction_fn)(int, const struct sigaction *, struct sigaction *);
typedef handler_fn (*signal_fn)(int, handler_fn);

static struct {
    atomic_int number; // 0: none
    pid_t pid;
    void *mark;
    void (*handler)(int, siginfo_t *, void *);
} taken;

static int hook_sigaction(int number, const struct sigaction *action, struct sigaction *former);
static handler_fn hook_signal(int number, handler_fn handler);
static handler_fn hook_sysv_signal(int number, handler_fn handler);

enum { REAL_SIGACTION, REAL_SIGNAL, REAL_SYSV_SIGNAL, HOOKS_N };

static struct got_hook hooks[HOOKS_N] = {
    [REAL_SIGACTION] = {"sigaction", (void *)(uintptr_t)hook_sigaction, NULL},
    [REAL_SIGNAL] = {"signal", (void *)(uintptr_t)hook_signal, NULL},
    [REAL_SYSV_SIGNAL] = {"__sysv_signal", (void *)(uintptr_t)hook_sysv_signal, NULL},
};

static int real_sigaction(int number, const struct sigaction *action, struct sigaction *former)
{
    return ((sigaction_fn)hooks[REAL_SIGACTION].real)(number, action, former);
}

static bool has_our_handler(int number)
{
    struct sigaction now;
    return number != 0 && number == atomic_load(&taken.number) &&
           real_sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == taken.handler;
}

// Returns true if our handler can stay: the default of SIGURG is to ignore the signal.
static bool is_as_before(int number, handler_fn handler)
{
    return handler == SIG_DFL && number == SIGURG;
}

static void give_up(void)
{
    if (getpid() != taken.pid)
        return;
    // Another thread may do the same, and another mapping may be in the mark's place by then.
    if (atomic_exchange(&taken.number, 0) != 0)
        munmap(taken.mark, MARK_BYTES);
}

static int hook_sigaction(int number, const struct sigaction *action, struct sigaction *former)
{
    if (!has_our_handler(number))
        return real_sigaction(number, action, former);
    if (action && !is_as_before(number, action->sa_handler)) {
        give_up();
        if (real_sigaction(number, action, NULL) < 0)
            return -1;
    }
    if (former)
        *former = (struct sigaction){.sa_handler = SIG_DFL};
    return 0;
}

static handler_fn set_handler(int which, int number, handler_fn handler)
{
    signal_fn real = (signal_fn)hooks[which].real;
    if (!has_our_handler(number))
        return real(number, handler);
    if (is_as_before(number, handler))
        return SIG_DFL;
    give_up();
    return real(number, handler) == SIG_ERR ? SIG_ERR : SIG_DFL;
}

static handler_fn hook_signal(int number, handler_fn handler)
{
    return set_handler(REAL_SIGNAL, number, handler);
}

static handler_fn hook_sysv_signal(int number, handler_fn handler)
{
    return set_handler(REAL_SYSV_SIGNAL, number, handler);
}

// Returns whether the kernel reports a handler. An emulator of another machine handles all signals,
// and may number them differently: the number then means nothing to other processes.
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

bool dormant_signal_is_free(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
           action.sa_handler == SIG_DFL && !is_caught(number);
}

static bool show_mark(int number)
{
    static const char before[] = HEAP_DORMANT_NAME;
    char name[] = HEAP_DORMANT_NAME "00-abi" TEXT_OF_ALL(HEAP_ABI_VERSION);
    name[sizeof(before) - 1] = (char)('0' + number / 10);
    name[sizeof(before)] = (char)('0' + number % 10);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return false;
    taken.mark = mmap(NULL, MARK_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return taken.mark != MAP_FAILED;
}

static void take_calls(void)
{
    const void *const spared[] = {(const void *)(uintptr_t)hook_signal, unwind_code()};
    struct got_walk walk = {
        .hooks = hooks,
        .n_hooks = HOOKS_N,
        .install = true,
        .spared = spared,
        .n_spared = 2,
    };
    hooks_resolve_all(hooks, HOOKS_N);
    first_objects_walk(&walk);
}

bool dormant_signal_take(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction former, action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    action.sa_sigaction = handler;
    sigfillset(&action.sa_mask);
    if (!dormant_signal_is_free(number) || sigaction(number, &action, &former) < 0)
        return false;
    taken.handler = handler;
    taken.pid = getpid();
    atomic_store(&taken.number, number);
    take_calls();
    if (show_mark(number))
        return true;
    atomic_store(&taken.number, 0);
    sigaction(number, &former, NULL);
    return false;
}
