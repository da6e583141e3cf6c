// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of a listening socket.
#pragma once

#include "producer/ground/loop.h"

struct accepter {
    int fd;            // owned: the listening socket, which does not block; -1: none
    struct loop *loop; // borrowed; NULL: nothing is accepted yet
    struct loop_io *io;
    struct loop_timer *rest;
    void (*comes)(void *userdata, int fd);
    void *userdata;
};

// From here until accepter_close(), calls `comes` with each connection (owned by `comes`, which may
// close the accepter). Returns 0 or a negative errno; accepter_close() must be called in both
// cases.
int accepter_begin(struct accepter *accepter, struct loop *loop,
                   void (*comes)(void *userdata, int fd), void *userdata);

void accepter_close(struct accepter *accepter);
