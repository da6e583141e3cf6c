// SPDX-License-Identifier: Apache-2.0
//
// The recorder's end of a socket that a helper made in a folder of another process's root. The
// process finds it there whatever mount, pid or network namespace it is in.
#pragma once

#include "producer/foreign/helper.h"
#include "producer/ground/accepter.h"
#include "producer/sources/heap/summons_job.h"

struct summons {
    struct foreign_helper *helper; // borrowed
    uint64_t payer;
    struct summons_place place;
    struct accepter accepter; // its descriptor comes with the place
    void (*comes)(void *userdata, int fd);
    void *userdata;
};

// From here until summons_close(), calls `comes` with each connection of the process itself (owned
// by `comes`). Returns 0 or a negative errno.
int summons_wait(struct summons *summons, struct loop *loop, void (*comes)(void *userdata, int fd),
                 void *userdata);

// Does not wait. Also for a struct that is all zero except accepter.fd, which is -1.
void summons_close(struct summons *summons);
