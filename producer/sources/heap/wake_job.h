// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of waking a dormant program: checks the program, makes a summons, sends the
// signal.
#pragma once

#include "producer/sources/heap/summons.h"

struct wake_place {
    struct summons_place summons;
    int signal; // the signal that the process waits for
};

struct wake_signal {
    int32_t pid;
    int signal;
    uint64_t number; // of the summons
};

// Request: an int32_t, the pid. Answer: a wake_place and the listening socket, or a failure:
// -ENOENT if the process does not wait for a signal or no signal can be sent to it now; -EPROTO if
// it waits, but its library does not understand this recorder.
void wake_open_job(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret);
// Request: a wake_signal. Failure: -ENOENT as of wake_open_job().
void wake_send_job(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret);
