// SPDX-License-Identifier: Apache-2.0
//
// The recorder's end of a socket that a helper made in a folder of another process's root. The
// process finds it there whatever mount, pid or network namespace it is in.
#pragma once

#include "producer/foreign/helper.h"
#include "producer/sources/heap/summons_job.h"

struct summons {
    struct foreign_helper *helper; // borrowed
    uint64_t payer;
    struct summons_place place;
    int listen_fd; // owned; wait for this; -1: none
};

// Returns the connection (owned) if the process itself has connected; otherwise a negative errno.
int summons_accept(const struct summons *summons);

// Does not wait. Also for a struct that is all zero except listen_fd, which is -1.
void summons_close(struct summons *summons);
