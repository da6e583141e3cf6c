// SPDX-License-Identifier: Apache-2.0
//
// The clock of sequences that one thread writes: a ThreadDescriptor sets it, and track events and
// streamed stack samples say by how much it went on. Chrome wrote times this way before packets had
// clocks of their own. It shows CLOCK_MONOTONIC.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

// All zero: not set. To be zeroed when packets were lost or the sequence starts over.
struct thread_clock {
    bool is_set, is_used; // used: the descriptor has a time
    int64_t now_ns;
};

enum thread_time {
    THREAD_TIME_NONE,     // the packet's own time counts
    THREAD_TIME_KNOWN,    // *ret
    THREAD_TIME_UNSET,    // a difference, and the clock is not set
    THREAD_TIME_NEGATIVE, // before the clock began
};

// A ThreadDescriptor, by itself or in a TrackDescriptor.
void thread_clock_set(struct thread_clock *clock, const struct wire_field *descriptor);

// When a TrackEvent was.
enum thread_time thread_clock_event(struct thread_clock *clock, const struct wire_field *event,
                                    int64_t *ret);

// The time that the first sample of a StreamingProfilePacket is relative to; moves the clock behind
// the last one.
enum thread_time thread_clock_profile(struct thread_clock *clock, const struct wire_field *profile,
                                      int64_t *ret);

// Microseconds on top of `ts`, neither wrapping around.
int64_t nsec_after_usec(int64_t ts, int64_t usec);
