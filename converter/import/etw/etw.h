// SPDX-License-Identifier: Apache-2.0
//
// Events of the Windows kernel (ETW).
#pragma once

#include <stdint.h>

#include "common/map.h"
#include "common/vec.h"
#include "converter/import/import.h"

// An operation on a file that has begun.
struct etw_started {
    struct slice_name name;
    int64_t ts, utid;
    uint64_t request;
    uint64_t next_free; // index + 1
    bool is_over;
};
VEC_DEFINE(etw_started_vec, struct etw_started);

// The state of a machine. All zero is empty.
struct etw {
    struct map64 running; // request (IRP) -> index in started
    struct etw_started_vec started;
    uint64_t first_free; // index + 1
};

// Handles an event of a file or a disk. event->number is the event's field of EtwTraceEvent. False:
// the event is of another kind.
bool etw_io_handle(struct import *im, struct etw *etw, int64_t ts, uint32_t tid,
                   const struct wire_field *event);

// Ends operations whose end the trace lacks.
void etw_io_finish(struct import *im, struct etw *etw);
