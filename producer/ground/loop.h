// SPDX-License-Identifier: Apache-2.0
//
// The event loop: file descriptors and timers, in one thread. A running loop allocates nothing. It
// sleeps in the kernel, and does not wake up while nothing is due.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "producer/ground/loop_share.h"

struct loop;

// Before loop_free(), remove all descriptors and timers.
int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *loop);

struct loop_io;
struct loop_timer;

typedef void (*loop_fn)(void *userdata);

// The reason of a call. The values stay until the next call.
struct loop_call {
    uint32_t events; // events of the descriptor
    nsec_t due;      // due time of the timer, by CLOCK_BOOTTIME
    uint64_t n_due;
};
const struct loop_call *loop_get_call(const struct loop *loop);

// Calls `ready` whenever `fd` (borrowed) has one of `events` (EPOLLIN etc., level-triggered).
// Returns 0 or a negative errno.
int loop_add_io(struct loop *loop, int fd, uint32_t events, loop_fn ready, void *userdata,
                struct loop_io **ret);
// Changes the awaited events (0: errors and hang-up only). Returns 0 or a negative errno.
int loop_set_io(struct loop_io *io, uint32_t events);
// Must be called before `fd` is closed. This function and loop_remove_timer() take NULL and return
// NULL.
struct loop_io *loop_remove_io(struct loop_io *io);

// Calls `fire` at `first` (CLOCK_BOOTTIME) and, if `period` > 0, every `period` from then on,
// exactly on that grid. A process that slept through several times gets one call: loop_call.n_due
// counts the times, loop_call.due is the last time. A timer without a period fires once, then rests
// until loop_set_timer() or loop_remove_timer().
int loop_add_timer(struct loop *loop, nsec_t first, nsec_t period, loop_fn fire, void *userdata,
                   struct loop_timer **ret);
// Moves an existing timer. NSEC_MAX as `first` disarms the timer.
void loop_set_timer(struct loop_timer *timer, nsec_t first, nsec_t period);
struct loop_timer *loop_remove_timer(struct loop_timer *timer);
// Counts the time of the calls in `share` (borrowed; NULL: no limit), but not their waits for a
// processor. While no time is left, the timer is late, as if the process slept.
void loop_set_share(struct loop_timer *timer, struct loop_share *share);

// Runs until loop_quit(). Callbacks may add and remove any descriptor or timer, also their own.
// Returns 0 or a negative errno of the loop itself.
int loop_run(struct loop *loop);
void loop_quit(struct loop *loop);

// The rounds of a loop, for a watchdog thread. While `watcher_sleeps` is set, the loop writes to
// `wake_fd` at the start of each round.
struct loop_rounds {
    _Atomic uint64_t number; // odd during a round
    _Atomic bool watcher_sleeps;
    int wake_fd;
};
// `rounds` is borrowed; NULL: no watcher.
void loop_set_rounds(struct loop *loop, struct loop_rounds *rounds);

// Runs one round: waits at most `timeout` (NSEC_MAX: forever) and makes the calls that are due.
// Besides loop_run(), only tests call this function.
int loop_run_once(struct loop *loop, nsec_t timeout);
// Returns the number of rounds that have begun.
uint64_t loop_n_rounds(const struct loop *loop);
