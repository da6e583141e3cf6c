// SPDX-License-Identifier: Apache-2.0
//
// The loop counts its rounds: the number is odd during a round. While the loop sleeps, the thread
// sleeps, too, without a timeout. The loop wakes the thread at the start of the next round. From
// then on, the thread checks periodically, until the loop has slept from one check to the next.
// Therefore an idle daemon is not woken, a busy daemon costs a check each 20 seconds, and a round
// costs two stores and a load.
//
// A stopped process or machine must not count as hanging. Therefore the thread counts its checks,
// not only the time: the pause between two checks may have any length.
//
// A signal that was not handled keeps the signalfd readable for every poll(). Therefore the thread
// notices that the loop did not handle the signal.
//
// The thread's last actions must work while the loop holds any lock: no allocation, no log. The
// thread releases the file lock, because a process cannot end while one of its system calls does
// not return.
#include "producer/service/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/thread.h"

#define SIGNAL_LOOKS 8 // checks within the time that a signal may wait
#define LOOP_LOOKS   3 // checks within the time that a round may take
#define STACK_BYTES  ((size_t)64 << 10)

struct watchdog {
    struct watchdog_options options;
    struct loop_rounds rounds;
    int wake_fd;
    pthread_t thread;
    bool has_thread;
    atomic_bool ends;
};

static _Noreturn void bite(const struct watchdog *watchdog, const char *why)
{
    char line[160];
    int n = snprintf(line, sizeof(line), "%s: %s: the process ends itself\n",
                     watchdog->options.name, why);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
    if (watchdog->options.lock_fd >= 0)
        flock(watchdog->options.lock_fd, LOCK_UN);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static bool signal_waits(const struct watchdog *watchdog)
{
    struct pollfd fd = {.fd = watchdog->options.signal_fd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

// Sleeps until the loop begins a round, or a signal has come.
static void sleep_on(struct watchdog *watchdog)
{
    struct pollfd fds[] = {{.fd = watchdog->wake_fd, .events = POLLIN},
                           {.fd = watchdog->options.signal_fd, .events = POLLIN}};
    uint64_t n;
    atomic_store(&watchdog->rounds.watcher_sleeps, true);
    if (!(atomic_load(&watchdog->rounds.number) &
          1)) // otherwise the round began before the loop saw watcher_sleeps
        poll(fds, 2, -1);
    atomic_store(&watchdog->rounds.watcher_sleeps, false);
    (void)!read(watchdog->wake_fd, &n, sizeof(n));
}

// Pauses until the next check: briefly while a signal waits. watchdog_free() ends the pause.
static void rest(const struct watchdog *watchdog, bool waits)
{
    const struct watchdog_options *o = &watchdog->options;
    struct pollfd fds[] = {{.fd = watchdog->wake_fd, .events = POLLIN},
                           {.fd = waits ? -1 : o->signal_fd, .events = POLLIN}};
    struct timespec time =
        nsec_to_timespec(waits ? o->signal_max / SIGNAL_LOOKS : o->loop_max / LOOP_LOOKS);
    ppoll(fds, 2, &time, NULL);
}

// Checks until the loop has slept from one check to the next and no signal waits.
static void look_on(struct watchdog *watchdog)
{
    const struct watchdog_options *o = &watchdog->options;
    nsec_t since = nsec_now(CLOCK_MONOTONIC), signal_since = since;
    unsigned n_round = 0, n_signal = 0; // checks without a change since
    uint64_t seen = atomic_load(&watchdog->rounds.number);
    bool waits = signal_waits(watchdog);
    while (!atomic_load(&watchdog->ends)) {
        rest(watchdog, waits);
        uint64_t number = atomic_load(&watchdog->rounds.number);
        bool moved = number != seen;
        waits = signal_waits(watchdog);
        nsec_t now = nsec_now(CLOCK_MONOTONIC);
        n_round = moved || !(number & 1) ? 0 : n_round + 1;
        n_signal = moved || !waits ? 0 : n_signal + 1;
        if (n_round == 0)
            since = now;
        if (n_signal == 0)
            signal_since = now;
        seen = number;
        if (n_round >= LOOP_LOOKS && now - since >= o->loop_max)
            bite(watchdog, "its loop hangs");
        if (n_signal >= SIGNAL_LOOKS && now - signal_since >= o->signal_max)
            bite(watchdog, "its loop hangs and does not handle a signal");
        if (!moved && !(number & 1) && !waits)
            return;
    }
}

static void *run(void *userdata)
{
    struct watchdog *watchdog = userdata;
    while (!atomic_load(&watchdog->ends)) {
        sleep_on(watchdog);
        look_on(watchdog);
    }
    return NULL;
}

int watchdog_new(const struct watchdog_options *options, struct watchdog **ret)
{
    struct watchdog *watchdog = calloc(1, sizeof(*watchdog));
    if (!watchdog)
        return -ENOMEM;
    watchdog->options = *options;
    if (!watchdog->options.loop_max)
        watchdog->options.loop_max = WATCHDOG_LOOP_MAX;
    if (!watchdog->options.signal_max)
        watchdog->options.signal_max = WATCHDOG_SIGNAL_MAX;
    watchdog->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = watchdog->wake_fd < 0 ? -errno : 0;
    watchdog->rounds.wake_fd = watchdog->wake_fd;
    if (r == 0)
        r = thread_start(&watchdog->thread, STACK_BYTES, run, watchdog);
    watchdog->has_thread = r == 0;
    if (r < 0)
        return watchdog_free(watchdog), r;
    loop_set_rounds(options->loop, &watchdog->rounds);
    *ret = watchdog;
    return 0;
}

struct watchdog *watchdog_free(struct watchdog *watchdog)
{
    if (!watchdog)
        return NULL;
    if (watchdog->has_thread) {
        uint64_t one = 1;
        loop_set_rounds(watchdog->options.loop, NULL);
        atomic_store(&watchdog->rounds.number, 0);
        atomic_store(&watchdog->ends, true);
        (void)!write(watchdog->wake_fd, &one, sizeof(one));
        pthread_join(watchdog->thread, NULL);
    }
    close_fd(watchdog->wake_fd);
    free(watchdog);
    return NULL;
}
