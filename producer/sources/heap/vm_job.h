// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of making a Java VM ask for a ring: examines the VM and makes a summons for it.
#pragma once

#include "common/err.h"
#include "producer/sources/heap/summons_job.h"

struct vm_place {
    struct summons_place summons;
    char text[ERR_TEXT_MAX]; // of a failure
};

// Request: an int32_t, the pid. Answer: a vm_place and the listening socket.
void vm_open_job(struct foreign_worker *worker, struct foreign_request *request,
                 struct foreign_answer *ret);
// Request: an int32_t, the pid. The result is the process's enum vm_state.
void vm_state_job(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret);
