// SPDX-License-Identifier: Apache-2.0
//
// A clock that stands still while this thread waits for a processor: on a busy machine, others must
// not make a piece of work look long.
#pragma once

#include "common/nsec.h"

// Returns the time, in nanoseconds since an unknown moment. Opens a file of /proc at the first call
// in a thread, which stays open: for threads that live as long as their process. Without the file,
// the clock is CLOCK_MONOTONIC.
nsec_t work_time_now(void);

// Returns the time for which this thread has waited for a processor, or 0 without the file.
nsec_t work_time_queued(void);
