// SPDX-License-Identifier: Apache-2.0
//
// Clock packets, and the times of packets. A time stamp without a clock id is trace time on the
// host, and a time of the machine's default clock on another machine.
#include <errno.h>

#include "converter/decode/message.h"
#include "converter/decode/reader.h"
#include "protos/fields.h"

static clock_key_t own_clock(const struct reader *reader, uint32_t clock_id)
{
    return clock_key(clock_id, 0, reader->machine);
}

// Passes a snapshot to the handler. The time of the snapshot is the reading of the trace clock, or
// else the first reading that can be converted.
static void snapshot_tell(struct reader *reader, uint32_t id, const struct clock_reading *readings,
                          size_t n)
{
    struct clocks *clocks = reader->clocks;
    int64_t ts = 0;
    bool known = false;
    for (size_t i = 0; i < n && !known; i++)
        known = readings[i].clock == clocks->trace_clock &&
                clocks_convert(clocks, readings[i].clock, readings[i].timestamp, &ts);
    for (size_t i = 0; i < n && !known; i++)
        known = !readings[i].incremental &&
                clocks_convert(clocks, readings[i].clock, readings[i].timestamp, &ts);
    if (known)
        reader->handler->snapshot(reader->handler->userdata, id, ts, readings, n);
}

static int readings_add(struct reader *reader, const struct clock_reading *readings, size_t n)
{
    uint32_t id;
    int r = clocks_add(reader->clocks, readings, n, &id);
    if (r == -EINVAL) {
        reader_problem(reader, PROBLEM_CLOCK_SNAPSHOT, 0);
        return 0;
    }
    if (r == 0)
        snapshot_tell(reader, id, readings, n);
    return r;
}

int reader_snapshot(struct reader *reader, const struct header *header, uint32_t generation)
{
    const struct generation *state = sequences_generation(&reader->sequences, generation);
    struct clock_snapshot snapshot;
    clock_snapshot_read(wire_sub(&header->snapshot), state->sequence, reader->machine, &snapshot);
    struct clocks *clocks = reader->clocks;
    if (snapshot.default_clock) {
        reader_machine(reader)->default_clock = snapshot.default_clock;
        // A machine other than the host sets the trace clock only if no machine has set the clock
        // before.
        if (!reader->machine || !clocks->has_default)
            clocks_set_trace_clock(clocks, own_clock(reader, snapshot.default_clock));
        clocks->has_default = reader->result.has_trace_clock = true;
    }
    return readings_add(reader, snapshot.readings, snapshot.fits ? snapshot.n : 0);
}

// Adds snapshots: the other machine's readings of its own clocks are snapshots, and each offset to
// the host's clock is a snapshot of the two clocks.
int reader_remote_sync(struct reader *reader, const struct header *header)
{
    struct remote_sync *sync = remote_sync_read(wire_sub(&header->remote_sync));
    if (!sync)
        return -ENOMEM;
    struct clock_reading readings[CLOCK_READINGS_MAX];
    struct remote_offset offsets[CLOCK_READINGS_MAX];
    uint32_t host = clock_machine_of(reader->clocks->trace_clock);
    size_t n;
    int r = 0;
    while (r == 0 && (n = remote_sync_next(sync, reader->machine, readings)))
        r = readings_add(reader, readings, n);
    n = remote_sync_offsets(sync, offsets);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct remote_offset *offset = &offsets[i];
        uint64_t remote_time = offset->host_time + (uint64_t)offset->offset;
        struct clock_reading pair[] = {
            {.clock = clock_key(offset->clock_id, 0, host),
             .timestamp = (int64_t)offset->host_time,
             .unit_ns = 1},
            {.clock = own_clock(reader, offset->clock_id),
             .timestamp = (int64_t)remote_time,
             .unit_ns = 1},
        };
        r = readings_add(reader, pair, 2);
    }
    remote_sync_free(sync);
    return r;
}

bool reader_time(struct reader *reader, clock_key_t clock, int64_t timestamp, int64_t *ret)
{
    struct trace_machine *machine = reader_machine(reader);
    struct clock_reading readings[2];
    uint32_t id;
    if (reader->machine && !machine->has_conversions) {
        machine->has_conversions = true;
        if (machine_connect(reader->clocks, reader->machine, readings, &id) &&
            reader->clocks->has_default)
            snapshot_tell(reader, id, readings, 2);
    }
    return clocks_convert(reader->clocks, clock, timestamp, ret);
}

bool reader_packet_time(struct reader *reader, const struct header *header,
                        const struct generation *state, int64_t *ret, clock_key_t *ret_clock)
{
    if (header->has_thread_time) { // without snapshots, the time counts as trace time
        *ret = header->thread_time;
        reader_time(reader, own_clock(reader, CLOCK_ID_MONOTONIC), header->thread_time, ret);
        return true;
    }
    if (!header->has_timestamp) {
        *ret = reader->latest_ts;
        return true;
    }
    uint32_t clock_id = header->clock_id;
    if (!clock_id && state->defaults.pos < state->defaults.end) {
        struct wire_field given =
            message_field(state->defaults, PB_TracePacketDefaults_timestamp_clock_id);
        clock_id = (uint32_t)field_u64(&given);
    }
    if (!clock_id && reader->machine)
        clock_id = reader_machine(reader)->default_clock;
    *ret = header->timestamp;
    if (!clock_id)
        return true;
    *ret_clock = clock_key(clock_id, state->sequence, reader->machine);
    return reader_time(reader, *ret_clock, header->timestamp, ret);
}

void reader_clock_problem(struct reader *reader, clock_key_t clock)
{
    bool known = clocks_know(reader->clocks, clock);
    reader_problem(reader, known ? PROBLEM_CLOCK_UNRELATED : PROBLEM_CLOCK_UNKNOWN, 0);
}

bool reader_bundle_clock(struct reader *reader, const struct bundle_measure *bundle,
                         uint32_t sequence, clock_key_t *ret)
{
    struct trace_machine *machine = reader_machine(reader);
    switch (bundle->clock) {
    case PB_FTRACE_CLOCK_UNSPECIFIED:
        *ret = own_clock(reader, CLOCK_ID_BOOTTIME);
        return true;
    case PB_FTRACE_CLOCK_MONO_RAW:
        *ret = own_clock(reader, CLOCK_ID_MONOTONIC_RAW);
        break;
    case PB_FTRACE_CLOCK_GLOBAL:
    case PB_FTRACE_CLOCK_LOCAL:
        *ret = clock_key(CLOCK_ID_SEQUENCE_MIN, sequence, reader->machine);
        break;
    default:
        return false;
    }
    if (!bundle->has_clock_pair || bundle->clock_value == machine->last_ftrace_clock)
        return true;
    machine->last_ftrace_clock = bundle->clock_value;
    struct clock_reading pair[] = {
        {.clock = *ret, .timestamp = bundle->clock_value, .unit_ns = 1},
        {.clock = own_clock(reader, CLOCK_ID_BOOTTIME),
         .timestamp = bundle->boot_value,
         .unit_ns = 1},
    };
    uint32_t id;
    if (clocks_add(reader->clocks, pair, 2, &id) < 0)
        reader_problem(reader, PROBLEM_CLOCK_SNAPSHOT, 0);
    return true;
}

clock_key_t reader_item_clock(const struct reader *reader, const struct timeline_item *item)
{
    const struct generation *state = sequences_generation(&reader->sequences, item->generation);
    switch (item->clock) {
    case PB_FTRACE_CLOCK_MONO_RAW:
        return clock_key(CLOCK_ID_MONOTONIC_RAW, 0, state->machine);
    case PB_FTRACE_CLOCK_GLOBAL:
    case PB_FTRACE_CLOCK_LOCAL:
        return clock_key(CLOCK_ID_SEQUENCE_MIN, state->sequence, state->machine);
    default:
        return clock_key(CLOCK_ID_BOOTTIME, 0, state->machine);
    }
}
