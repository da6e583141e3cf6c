// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of waking a dormant program: whether it is one, a summons for it, the signal.
#pragma once

#include "producer/sources/heap/summons_job.h"

struct wake_place {
    struct summons_place summons;
    int signal; // that the process waits for
};

struct wake_signal {
    int32_t pid;
    int signal;
    uint64_t number; // of the summons
};

// Of an int32_t, the pid. A wake_place, and the socket, which listens. -ENOENT: the process does
// not wait for a signal, or none can be sent to it just now; -EPROTO: it does, with a library that
// does not understand this recorder.
void wake_open_job(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret);
// Of a wake_signal. -ENOENT as above.
void wake_send_job(struct foreign_worker *worker, struct foreign_request *request,
                   struct foreign_answer *ret);
