// SPDX-License-Identifier: Apache-2.0
//
// KernelWakelockData: how long each wakelock was held. Locks are named once per sequence; a packet
// has what was added to those that were held since the one before.
#include <errno.h>

#include "common/elements.h"
#include "converter/import/importer.h"
#include "converter/import/power/sparse_counters.h"
#include "protos/fields.h"

#define TYPE_BITS 2

// What is wrong with the data, by bit of its flags.
static const enum stat errors[] = {
    STAT_kernel_wakelock_zero_value_reported,
    STAT_kernel_wakelock_non_monotonic_value_reported,
    STAT_kernel_wakelock_implausibly_large_value_reported,
};

// Of one sequence, until it starts over.
struct sequence_locks {
    uint32_t epoch;
    struct map64 by_id;   // -> name (in strings) and type
    struct map64 held_ms; // by name
};
VEC_DEFINE(sequence_locks_vec, struct sequence_locks);

struct wakelocks {
    struct map64 by_sequence; // -> index in sequences
    struct sequence_locks_vec sequences;
    struct sparse_counters counters;
};

static struct sequence_locks *locks_of(struct wakelocks *all, const struct packet *packet)
{
    bool is_new;
    const uint64_t *index =
        map64_get_or_add(&all->by_sequence, packet->sequence_id, all->sequences.n, &is_new);
    if (!index)
        return NULL;
    if (is_new && sequence_locks_vec_push(&all->sequences, (struct sequence_locks){0}) < 0)
        return NULL;
    struct sequence_locks *locks = &all->sequences.items[*index];
    if (locks->epoch != packet->state->epoch) {
        map64_done(&locks->by_id);
        map64_done(&locks->held_ms);
    }
    locks->epoch = packet->state->epoch;
    return locks;
}

static int lock_name(struct import *im, struct sequence_locks *locks,
                     const struct wire_field *message)
{
    MESSAGE(lock, KernelWakelockData_Wakelock, message);
    const struct wire_field *name = &lock.wakelock_name;
    uint64_t string = strset_add(&im->strings, field_text(name), name->size);
    uint64_t type = field_u64(&lock.wakelock_type) & ((1 << TYPE_BITS) - 1);
    bool is_new;
    if (string == STRSET_NONE ||
        !map64_get_or_add(&locks->by_id, (uint32_t)field_u64(&lock.wakelock_id),
                          string << TYPE_BITS | type, &is_new))
        return -ENOMEM;
    if (!is_new)
        stats_add(&im->stats, STAT_kernel_wakelock_reused_id, 1);
    return 0;
}

static void lock_push(struct import *im, struct wakelocks *all, const struct sequence_locks *locks,
                      uint64_t lock)
{
    static const char *const types[1 << TYPE_BITS] = {"unknown", "kernel", "native", "unknown"};
    const uint64_t *held_ms = map64_find(&locks->held_ms, lock >> TYPE_BITS);
    const struct strset_entry *name = &im->strings.entries[lock >> TYPE_BITS];
    const char *type = types[lock & ((1 << TYPE_BITS) - 1)];
    struct track_spec spec = {
        .type = "android_kernel_wakelock",
        .unit = "ms",
        .counter = true,
        .dimensions = {dimension_text("wakelock_name", name->text, name->size),
                       dimension_text("wakelock_type", type, strlen(type))},
        .name = {name->text, name->size},
    };
    // As Perfetto: nanoseconds, whatever the unit says.
    if (held_ms)
        sparse_counters_push(im, &all->counters, tracks_get(&im->tracks, &spec),
                             (double)NSEC_PER_MSEC * (double)*held_ms);
}

static bool lock_next(struct values *ids, struct values *times, uint64_t *ret_id, uint64_t *ret_ms)
{
    return values_next(ids, ret_id) && values_next(times, ret_ms);
}

static void held_add(struct import *im, struct sequence_locks *locks,
                     const struct wire_field *message)
{
    struct values ids = values_of(message, PB_KernelWakelockData_wakelock_id),
                  times = values_of(message, PB_KernelWakelockData_time_held_millis);
    uint64_t id, ms;
    while (lock_next(&ids, &times, &id, &ms)) {
        const uint64_t *lock = map64_find(&locks->by_id, (uint32_t)id);
        if (!lock) {
            stats_add(&im->stats, STAT_kernel_wakelock_unknown_id, 1);
            continue;
        }
        bool is_new;
        uint64_t *held = import_map_get(im, &locks->held_ms, *lock >> TYPE_BITS, 0, &is_new);
        if (!held)
            return;
        *held += ms;
    }
}

static void wakelocks_sorted(struct import *im, const struct packet *packet)
{
    struct wakelocks *all = packet->own;
    struct sequence_locks *locks = locks_of(all, packet);
    int r = locks ? 0 : -ENOMEM;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    while (r == 0 && wire_next(&reader, &field))
        if (field.number == PB_KernelWakelockData_wakelock)
            r = lock_name(im, locks, &field);
    if (r == 0)
        held_add(im, locks, packet->message);
    MESSAGE(data, KernelWakelockData, packet->message);
    for (size_t i = 0; i < ELEMENTS(errors); i++)
        stats_add(&im->stats, errors[i], field_u64(&data.error_flags) >> i & 1);
    sparse_counters_round(&all->counters, packet->ts);
    struct values ids = values_of(packet->message, PB_KernelWakelockData_wakelock_id),
                  times = values_of(packet->message, PB_KernelWakelockData_time_held_millis);
    uint64_t id, ms;
    import_fail(im, r);
    while (!import_failed(im) && lock_next(&ids, &times, &id, &ms)) {
        const uint64_t *lock = map64_find(&locks->by_id, (uint32_t)id);
        if (lock)
            lock_push(im, all, locks, *lock);
    }
}

static void wakelocks_done(void *state)
{
    struct wakelocks *all = state;
    vec_foreach(&all->sequences, locks) {
        map64_done(&locks->by_id);
        map64_done(&locks->held_ms);
    }
    sequence_locks_vec_done(&all->sequences);
    map64_done(&all->by_sequence);
    sparse_counters_done(&all->counters);
}

const struct importer importer_kernel_wakelocks = {
    .field = PB_TracePacket_kernel_wakelock_data,
    .sorted = wakelocks_sorted,
    .state_size = sizeof(struct wakelocks),
    .done = wakelocks_done,
};
