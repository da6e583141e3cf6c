// SPDX-License-Identifier: Apache-2.0
//
// RemoteClockSync: the two machines read their clocks in turn: client, host, client, host. Two
// pairs are a round. Each round gives two estimates of the offset, one from each side's round trip.
// The offset is the average over all rounds. Two pairs that are ROUND_NS or more apart belong to
// different rounds.
#include "converter/decode/clock_packets.h"

#include <stdlib.h>

#include "common/memory.h"
#include "converter/decode/message.h"
#include "protos/fields.h"

#define ROUND_NS 30000000000ULL

void clock_snapshot_read(struct wire_reader message, uint32_t sequence, uint32_t machine,
                         struct clock_snapshot *ret)
{
    *ret = (struct clock_snapshot){.fits = true};
    bool has_boot = false;
    struct wire_field field;
    wire_foreach(&message, &field) {
        if (field.number == PB_ClockSnapshot_primary_trace_clock)
            ret->default_clock = (uint32_t)field.value;
        if (field.number != PB_ClockSnapshot_clocks)
            continue;
        MESSAGE(clock, ClockSnapshot_Clock, &field);
        if (ret->n == CLOCK_READINGS_MAX) {
            ret->fits = false;
            break;
        }
        uint32_t id = (uint32_t)field_u64(&clock.clock_id);
        int64_t unit_ns = field_i64(&clock.unit_multiplier_ns);
        has_boot |= id == CLOCK_ID_BOOTTIME;
        ret->readings[ret->n++] = (struct clock_reading){
            .clock = clock_key(id, sequence, machine),
            .timestamp = field_i64(&clock.timestamp),
            .unit_ns = unit_ns ? unit_ns : 1,
            .incremental = field_u64(&clock.is_incremental) != 0,
        };
    }
    if (!ret->default_clock && has_boot)
        ret->default_clock = CLOCK_ID_BOOTTIME;
    ret->fits &= !message.error;
}

struct pair_clock {
    uint32_t clock_id;
    uint64_t host, remote; // 0: not read
};

struct clock_pairs {
    struct pair_clock clocks[CLOCK_READINGS_MAX];
    size_t n;
    size_t n_remote; // items of `remote`, in the order of the message
    struct pair_clock remote[CLOCK_READINGS_MAX];
};

struct estimate {
    uint32_t clock_id;
    uint64_t host_time;
    uint64_t sum; // wraps
    int64_t n;
};

struct remote_sync {
    struct wire_reader next; // position of remote_sync_next()
    struct estimate estimates[CLOCK_READINGS_MAX];
    size_t n_estimates;
};

static struct pair_clock *clock_get(struct clock_pairs *pairs, uint32_t clock_id)
{
    for (size_t i = 0; i < pairs->n; i++)
        if (pairs->clocks[i].clock_id == clock_id)
            return &pairs->clocks[i];
    if (pairs->n == CLOCK_READINGS_MAX)
        return NULL;
    pairs->clocks[pairs->n] = (struct pair_clock){.clock_id = clock_id};
    return &pairs->clocks[pairs->n++];
}

static void side_read(struct clock_pairs *pairs, const struct wire_field *snapshot, bool is_host)
{
    struct wire_reader reader = wire_sub(snapshot);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number != PB_ClockSnapshot_clocks)
            continue;
        MESSAGE(reading, ClockSnapshot_Clock, &field);
        uint32_t clock_id = (uint32_t)field_u64(&reading.clock_id);
        uint64_t timestamp = field_u64(&reading.timestamp);
        struct pair_clock *clock = clock_get(pairs, clock_id);
        if (clock)
            *(is_host ? &clock->host : &clock->remote) = timestamp;
        if (!is_host && pairs->n_remote < CLOCK_READINGS_MAX)
            pairs->remote[pairs->n_remote++] =
                (struct pair_clock){.clock_id = clock_id, .remote = timestamp};
    }
}

// Reads the next pair of snapshots; false at the end.
static bool pairs_next(struct wire_reader *message, struct clock_pairs *ret)
{
    struct wire_field field;
    while (wire_next(message, &field)) {
        if (field.number != PB_RemoteClockSync_synced_clocks)
            continue;
        MESSAGE(sides, RemoteClockSync_SyncedClocks, &field);
        ret->n = ret->n_remote = 0;
        side_read(ret, &sides.host_clocks, true);
        side_read(ret, &sides.client_clocks, false);
        return true;
    }
    return false;
}

static struct estimate *estimate_get(struct remote_sync *sync, uint32_t clock_id)
{
    for (size_t i = 0; i < sync->n_estimates; i++)
        if (sync->estimates[i].clock_id == clock_id)
            return &sync->estimates[i];
    if (sync->n_estimates == CLOCK_READINGS_MAX)
        return NULL;
    size_t at = sync->n_estimates++;
    for (; at > 0 && sync->estimates[at - 1].clock_id > clock_id; at--)
        sync->estimates[at] = sync->estimates[at - 1];
    sync->estimates[at] = (struct estimate){.clock_id = clock_id};
    return &sync->estimates[at];
}

static void round_add(struct remote_sync *sync, struct clock_pairs *first,
                      struct clock_pairs *second)
{
    const struct pair_clock *boot_1 = clock_get(first, CLOCK_ID_BOOTTIME);
    const struct pair_clock *boot_2 = clock_get(second, CLOCK_ID_BOOTTIME);
    if ((boot_2 ? boot_2->remote : 0) - (boot_1 ? boot_1->remote : 0) >= ROUND_NS)
        return;
    for (size_t i = 0; i < first->n; i++) {
        const struct pair_clock *a = &first->clocks[i], *b = clock_get(second, a->clock_id);
        if (!b || !a->host || !a->remote || !b->host || !b->remote)
            continue;
        struct estimate *estimate = estimate_get(sync, a->clock_id);
        if (!estimate)
            continue;
        estimate->sum += (uint64_t)((int64_t)(a->remote + b->remote) / 2) - a->host;
        estimate->sum += b->remote - (uint64_t)((int64_t)(a->host + b->host) / 2);
        estimate->n += 2;
    }
}

static void anchors_note(struct remote_sync *sync, struct wire_reader message)
{
    struct clock_pairs pairs;
    while (pairs_next(&message, &pairs))
        for (size_t i = 0; i < pairs.n; i++)
            for (size_t k = 0; k < sync->n_estimates; k++)
                if (sync->estimates[k].clock_id == pairs.clocks[i].clock_id && pairs.clocks[i].host)
                    sync->estimates[k].host_time = pairs.clocks[i].host;
}

struct remote_sync *remote_sync_read(struct wire_reader message)
{
    struct remote_sync *sync = memory_calloc(1, sizeof(*sync));
    if (!sync)
        return NULL;
    sync->next = message;
    struct clock_pairs pairs[2];
    size_t n = 0;
    for (; pairs_next(&message, &pairs[n % 2]); n++)
        if (n)
            round_add(sync, &pairs[(n - 1) % 2], &pairs[n % 2]);
    anchors_note(sync, sync->next);
    return sync;
}

size_t remote_sync_next(struct remote_sync *sync, uint32_t machine,
                        struct clock_reading ret[CLOCK_READINGS_MAX])
{
    struct clock_pairs pairs;
    while (pairs_next(&sync->next, &pairs)) {
        for (size_t i = 0; i < pairs.n_remote; i++)
            ret[i] = (struct clock_reading){
                .clock = clock_key(pairs.remote[i].clock_id, 0, machine),
                .timestamp = (int64_t)pairs.remote[i].remote,
                .unit_ns = 1,
            };
        if (pairs.n_remote)
            return pairs.n_remote;
    }
    return 0;
}

size_t remote_sync_offsets(const struct remote_sync *sync,
                           struct remote_offset ret[CLOCK_READINGS_MAX])
{
    for (size_t i = 0; i < sync->n_estimates; i++) {
        const struct estimate *estimate = &sync->estimates[i];
        ret[i] = (struct remote_offset){
            .clock_id = estimate->clock_id,
            .host_time = estimate->host_time,
            .offset = (int64_t)estimate->sum / estimate->n,
        };
    }
    return sync->n_estimates;
}

struct remote_sync *remote_sync_free(struct remote_sync *sync)
{
    free(sync);
    return NULL;
}
