// SPDX-License-Identifier: Apache-2.0
//
// The event loop: file descriptors and timers, in one thread. It allocates nothing while it runs.
// It sleeps in the kernel, and never wakes up if nothing is due.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"

struct loop;

// Remove everything that was added before you call loop_free().
int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *loop);

struct loop_io;
struct loop_timer;

typedef void (*loop_fn)(void *userdata);

// What the loop calls a function for. The values stay until the next call.
struct loop_call {
    uint32_t events; // of the descriptor
    nsec_t due;      // of the timer
    uint64_t n_due;
};
const struct loop_call *loop_get_call(const struct loop *loop);

// Calls `ready` whenever `fd` (borrowed) has one of `events` (EPOLLIN and so on; level-triggered).
int loop_add_io(struct loop *loop, int fd, uint32_t events, loop_fn ready, void *userdata,
                struct loop_io **ret);
// Changes the events to wait for (0: errors and hang-up only). Returns 0 or a negative errno.
int loop_set_io(struct loop_io *io, uint32_t events);
// Call this before `fd` is closed. This and loop_remove_timer() take NULL and return NULL.
struct loop_io *loop_remove_io(struct loop_io *io);

// Calls `fire` at `first` (CLOCK_BOOTTIME) and, if `period` > 0, every `period` from then on,
// exactly on that grid. If the process slept through several times, there is one call: its `n_due`
// counts the times, its `due` is the last one. A timer without a period fires once, then rests
// until loop_set_timer() or loop_remove_timer().
int loop_add_timer(struct loop *loop, nsec_t first, nsec_t period, loop_fn fire, void *userdata,
                   struct loop_timer **ret);
// Moves an existing timer; NSEC_MAX as `first` disarms it.
void loop_set_timer(struct loop_timer *timer, nsec_t first, nsec_t period);
struct loop_timer *loop_remove_timer(struct loop_timer *timer);

// Runs until loop_quit(). Callbacks may add and remove anything, themselves included. Returns 0 or
// a negative errno of the loop itself.
int loop_run(struct loop *loop);
void loop_quit(struct loop *loop);

// For a thread that watches whether rounds end. While `watcher_sleeps` is set, the loop writes to
// `wake_fd` at the start of each round.
struct loop_rounds {
    _Atomic uint64_t number; // odd during a round
    _Atomic bool watcher_sleeps;
    int wake_fd;
};
// `rounds` is borrowed; NULL: no watcher.
void loop_set_rounds(struct loop *loop, struct loop_rounds *rounds);

// Runs one round: waits at most `timeout` (NSEC_MAX: for ever) and calls what is due. For tests.
int loop_run_once(struct loop *loop, nsec_t timeout);
