// SPDX-License-Identifier: Apache-2.0
//
// Differences are valid only in file order, so the first walk keeps the clock. The timeline keeps
// the resulting time of the packet.
#include "converter/decode/thread_clock.h"

#include "common/nsec.h"
#include "converter/decode/message.h"
#include "protos/fields.h"

int64_t nsec_after_usec(int64_t ts, int64_t usec)
{
    int64_t nsec, sum;
    if (__builtin_mul_overflow(usec, (int64_t)NSEC_PER_USEC, &nsec))
        nsec = usec < 0 ? INT64_MIN : INT64_MAX;
    if (__builtin_add_overflow(ts, nsec, &sum))
        sum = ts < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

void thread_clock_set(struct thread_clock *clock, const struct wire_field *descriptor)
{
    MESSAGE(part, ThreadDescriptor, descriptor);
    const struct wire_field *reference = &part.reference_timestamp_us;
    clock->is_set = true;
    clock->is_used = field_present(reference);
    clock->now_ns = nsec_after_usec(0, field_i64(reference));
}

enum thread_time thread_clock_event(struct thread_clock *clock, const struct wire_field *event,
                                    int64_t *ret)
{
    struct wire_field delta = message_field(wire_sub(event), PB_TrackEvent_timestamp_delta_us);
    struct wire_field absolute =
        message_field(wire_sub(event), PB_TrackEvent_timestamp_absolute_us);
    if (field_present(&delta)) {
        if (!clock->is_set)
            return THREAD_TIME_UNSET;
        *ret = clock->now_ns = nsec_after_usec(clock->now_ns, field_i64(&delta));
    } else if (field_u64(&absolute)) { // an absolute time does not move the clock
        *ret = nsec_after_usec(0, field_i64(&absolute));
    } else {
        return THREAD_TIME_NONE;
    }
    return *ret < 0 ? THREAD_TIME_NEGATIVE : THREAD_TIME_KNOWN;
}

enum thread_time thread_clock_profile(struct thread_clock *clock, const struct wire_field *profile,
                                      int64_t *ret)
{
    if (!clock->is_set)
        return THREAD_TIME_UNSET;
    *ret = clock->now_ns;
    struct wire_reader reader = wire_sub(profile);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        struct wire_packed packed = {0};
        uint64_t delta;
        while (field.number == PB_StreamingProfilePacket_timestamp_delta_us &&
               wire_packed_next(&packed, &field, WIRE_VARINT, &delta))
            clock->now_ns = nsec_after_usec(clock->now_ns, (int64_t)delta);
    }
    return *ret < 0 ? THREAD_TIME_NEGATIVE : THREAD_TIME_KNOWN;
}
