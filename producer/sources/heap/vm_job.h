// SPDX-License-Identifier: Apache-2.0
//
// The helper's part of having a Java VM come: what the VM is, and a summons for it.
#pragma once

#include "common/err.h"
#include "producer/sources/heap/summons_job.h"

struct vm_place {
    struct summons_place summons;
    char text[ERR_TEXT_MAX]; // of a failure
};

// Of an int32_t, the pid. A vm_place, and the socket, which listens.
void vm_open_job(struct foreign_worker *worker, struct foreign_request *request,
                 struct foreign_answer *ret);
// Of an int32_t, the pid. The result is its enum vm_state.
void vm_state_job(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret);
