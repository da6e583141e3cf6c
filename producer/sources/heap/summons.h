// SPDX-License-Identifier: Apache-2.0
//
// The recorder's end of a socket that a helper has put into a folder of another process's root,
// where that process finds it whatever mount, pid or network namespace it is in.
#pragma once

#include "producer/foreign/helper.h"
#include "producer/sources/heap/summons_job.h"

struct summons {
    struct foreign_helper *helper; // borrowed
    uint64_t payer;
    struct summons_place place;
    int listen_fd; // owned; what is waited for; -1: there is none
};

// The connection (owned) if the process is there, itself; or a negative errno.
int summons_accept(const struct summons *summons);

// Also of what is all zero but for listen_fd, -1. Does not wait.
void summons_close(struct summons *summons);
