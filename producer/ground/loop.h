// SPDX-License-Identifier: Apache-2.0
//
// The event loop: file descriptors and timers, one thread, no allocation while it runs. It sleeps
// in the kernel; without anything due it wakes up never.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"

struct loop;

// Everything that was added has to be removed before loop_free().
int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *loop);

struct loop_io;
struct loop_timer;

// Calls `ready` whenever `fd` (borrowed) has one of `events` (EPOLLIN and so on; level-triggered).
typedef void (*loop_io_fn)(void *userdata, uint32_t events);
int loop_add_io(struct loop *loop, int fd, uint32_t events, loop_io_fn ready, void *userdata,
                struct loop_io **ret);
// Waits for other events from now on (0: only for errors and hang-up). 0 or a negative errno.
int loop_set_io(struct loop_io *io, uint32_t events);
// Before `fd` is closed. Takes NULL, returns NULL; loop_remove_timer() too.
struct loop_io *loop_remove_io(struct loop_io *io);

// Calls `fire` at `first` (CLOCK_BOOTTIME) and, if `period` > 0, every `period` from there. Times
// are kept exactly on that grid; where the process slept through some, they come as one call whose
// `n_due` counts them and whose `due` is the last of them. A timer without period fires once and
// then rests until loop_set_timer() or loop_remove_timer().
typedef void (*loop_timer_fn)(void *userdata, nsec_t due, uint64_t n_due);
int loop_add_timer(struct loop *loop, nsec_t first, nsec_t period, loop_timer_fn fire,
                   void *userdata, struct loop_timer **ret);
// Moves an existing timer; NSEC_MAX as `first` disarms it.
void loop_set_timer(struct loop_timer *timer, nsec_t first, nsec_t period);
struct loop_timer *loop_remove_timer(struct loop_timer *timer);

// Runs until loop_quit(); 0 or a negative errno of the loop itself. Callbacks may add and remove
// anything, themselves included.
int loop_run(struct loop *loop);
void loop_quit(struct loop *loop);

// For a thread that watches whether rounds end. The loop writes to `wake_fd` at the begin of a
// round while `watcher_sleeps`.
struct loop_rounds {
    _Atomic uint64_t number; // odd inside of a round
    _Atomic bool watcher_sleeps;
    int wake_fd;
};
// Borrowed; NULL: nobody watches.
void loop_set_rounds(struct loop *loop, struct loop_rounds *rounds);

// One round: waits at most `timeout` (NSEC_MAX: for ever) and calls what is due. For tests.
int loop_run_once(struct loop *loop, nsec_t timeout);
