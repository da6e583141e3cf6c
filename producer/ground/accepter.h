// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of a listening socket.
#pragma once

#include <stdbool.h>

#include "producer/ground/loop.h"

struct accepter {
    int fd;            // owned: the non-blocking listening socket; -1: none
    struct loop *loop; // borrowed; NULL: not started
    struct loop_io *io;
    struct loop_timer *rest;
    void (*comes)(void *userdata, int fd);
    void *userdata;
    bool (*is_full)(void *userdata); // true: clients wait; NULL: never
    unsigned most;                   // connections in ACCEPTER_REST, the others wait; 0: any number
    unsigned most_refused;           // refused connections in ACCEPTER_REST; 0: any number
    unsigned n, n_refused;           // since `since`
    nsec_t since;
};

#define ACCEPTER_REST (100 * NSEC_PER_MSEC)

// Calls `comes` with each connection until accepter_close() or accepter_leave(). `comes` owns the
// connection and may close the accepter. Returns 0 or a negative errno; accepter_close() must be
// called in both cases. The caller sets `fd`, `is_full`, `most` and `most_refused` before.
int accepter_begin(struct accepter *accepter, struct loop *loop,
                   void (*comes)(void *userdata, int fd), void *userdata);

// `comes` calls this for a connection that it refuses. A refused connection does not count for
// `most`, and takes no place from others.
void accepter_refuses(struct accepter *accepter);

void accepter_close(struct accepter *accepter);
// Closes all but the listening socket, and returns this socket (owned by the caller), or -1.
int accepter_leave(struct accepter *accepter);
