// SPDX-License-Identifier: Apache-2.0
//
// KernelWakelockData: the time that each wakelock was held. A sequence gives the name of each lock
// once. A packet has the increments of the locks that were held since the previous packet.
#include "common/elements.h"
#include "converter/import/importer.h"
#include "converter/import/power/sparse_counters.h"
#include "protos/fields.h"

#define TYPE_BITS 2

// Errors in the data, by bit of error_flags.
static const enum stat errors[] = {
    STAT_kernel_wakelock_zero_value_reported,
    STAT_kernel_wakelock_non_monotonic_value_reported,
    STAT_kernel_wakelock_implausibly_large_value_reported,
};

// Keeps the name of a lock. `of->ids` has the names (in strings) and types of locks, `of->sums` the
// times (ms) by name.
static void lock_name(struct import *im, struct sequence_sums *of, const struct wire_field *message)
{
    MESSAGE(lock, KernelWakelockData_Wakelock, message);
    const struct wire_field *name = &lock.wakelock_name;
    uint64_t string = strset_add(&im->strings, field_text(name), name->size);
    uint64_t type = field_u64(&lock.wakelock_type) & ((1 << TYPE_BITS) - 1);
    bool is_new;
    if (import_map_get(im, &of->ids, (uint32_t)field_u64(&lock.wakelock_id),
                       string << TYPE_BITS | type, &is_new) &&
        !is_new)
        stats_add(&im->stats, STAT_kernel_wakelock_reused_id, 1);
}

static void lock_push(struct import *im, struct sparse_counters *all,
                      const struct sequence_sums *of, uint64_t lock)
{
    static const char *const types[1 << TYPE_BITS] = {"unknown", "kernel", "native", "unknown"};
    const uint64_t *held_ms = map64_find(&of->sums, lock >> TYPE_BITS);
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
    // As in Perfetto, the values are nanoseconds although the unit is ms.
    if (held_ms)
        sparse_counters_push(im, all, tracks_get(&im->tracks, &spec),
                             (double)NSEC_PER_MSEC * (double)*held_ms);
}

static bool lock_next(struct values *ids, struct values *times, uint64_t *ret_id, uint64_t *ret_ms)
{
    return values_next(ids, ret_id) && values_next(times, ret_ms);
}

static void wakelocks_sorted(struct import *im, const struct packet *packet)
{
    struct sparse_counters *all = packet->own;
    struct sequence_sums *of = sparse_counters_sequence(im, all, packet);
    struct values ids = values_of(packet->message, PB_KernelWakelockData_wakelock_id),
                  times = values_of(packet->message, PB_KernelWakelockData_time_held_millis);
    uint64_t id, ms;
    if (!of)
        return;
    for (struct fields each = fields_of(packet->message, PB_KernelWakelockData_wakelock);
         fields_next(&each);)
        lock_name(im, of, &each.field);
    MESSAGE(data, KernelWakelockData, packet->message);
    for (size_t i = 0; i < ELEMENTS(errors); i++)
        stats_add(&im->stats, errors[i], field_u64(&data.error_flags) >> i & 1);
    for (struct values of_ids = ids, of_times = times; lock_next(&of_ids, &of_times, &id, &ms);) {
        const uint64_t *lock = map64_find(&of->ids, (uint32_t)id);
        if (lock)
            sparse_sum_add(im, &of->sums, *lock >> TYPE_BITS, ms);
        else
            stats_add(&im->stats, STAT_kernel_wakelock_unknown_id, 1);
    }
    sparse_counters_round(all, packet->ts);
    while (!import_failed(im) && lock_next(&ids, &times, &id, &ms)) {
        const uint64_t *lock = map64_find(&of->ids, (uint32_t)id);
        if (lock)
            lock_push(im, all, of, *lock);
    }
}

static void wakelocks_done(void *state)
{
    sparse_counters_done(state);
}

const struct importer importer_kernel_wakelocks = {
    .field = PB_TracePacket_kernel_wakelock_data,
    .sorted = wakelocks_sorted,
    .state_size = sizeof(struct sparse_counters),
    .done = wakelocks_done,
};
