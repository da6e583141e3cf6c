// SPDX-License-Identifier: Apache-2.0
//
// The clock of a sequence that one thread writes. A ThreadDescriptor sets the clock; track events
// and streamed stack samples have differences. Chrome wrote times in this way before packets had
// clocks of their own. The clock is CLOCK_MONOTONIC.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

// All zero: not set. The caller zeroes the clock when packets were lost or the sequence starts
// over.
struct thread_clock {
    bool is_set, is_used; // is_used: the descriptor has a time
    int64_t now_ns;
};

enum thread_time {
    THREAD_TIME_NONE,     // the packet's own time counts
    THREAD_TIME_KNOWN,    // *ret
    THREAD_TIME_UNSET,    // the time is a difference, and the clock is not set
    THREAD_TIME_NEGATIVE, // the time is before the clock began
};

// Sets the clock from a ThreadDescriptor, which may be a field of a TrackDescriptor.
void thread_clock_set(struct thread_clock *clock, const struct wire_field *descriptor);

// Reads the time of a TrackEvent.
enum thread_time thread_clock_event(struct thread_clock *clock, const struct wire_field *event,
                                    int64_t *ret);

// Reads the time to which the first sample of a StreamingProfilePacket is relative, and moves the
// clock to the last sample.
enum thread_time thread_clock_profile(struct thread_clock *clock, const struct wire_field *profile,
                                      int64_t *ret);

// Adds microseconds to nanoseconds; saturates at overflow.
int64_t nsec_after_usec(int64_t ts, int64_t usec);
