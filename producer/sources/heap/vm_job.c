// SPDX-License-Identifier: Apache-2.0
//
// The memory map of a VM and the folders of its root are read here, because both may block.
#include "producer/sources/heap/vm_job.h"

#include <stdio.h>
#include <string.h>

#include "producer/heap/vm_process.h"

void vm_state_job(struct foreign_worker *worker, struct foreign_request *request,
                  struct foreign_answer *ret)
{
    (void)worker;
    ret->result = (int)vm_process_state(*(const int32_t *)request->bytes);
}

void vm_open_job(struct foreign_worker *worker, struct foreign_request *request,
                 struct foreign_answer *ret)
{
    struct vm_process process;
    struct vm_place place = {0};
    struct err err = {0};
    struct summons_request asked = {.pid = *(const int32_t *)request->bytes};
    ret->result = vm_process_open(asked.pid, &process, &err);
    if (ret->result == 0) {
        vm_process_close(&process);
        asked.uid = process.uid;
        asked.gid = process.gid;
        snprintf(asked.suffix, sizeof(asked.suffix), "%s", HEAP_JAVA_SUFFIX);
        ret->result = summons_place_open(worker, &asked, &place.summons, &ret->fd);
        if (ret->result < 0)
            err_errno(&err, ret->result, "a socket for process %d", asked.pid);
    }
    snprintf(place.text, sizeof(place.text), "%s", err.text);
    memcpy(ret->bytes, &place, sizeof(place));
    ret->size = sizeof(place);
}
