// SPDX-License-Identifier: Apache-2.0
//
// TrackDescriptor in file order. A descriptor is about a thread, a process, a counter or a state.
// If a descriptor has several subjects, the first subject in this order counts. Writers repeat
// descriptors; later descriptors are compared with the first descriptor.
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/track_event/track_events.h"
#include "protos/fields.h"

static const char thread_time_name[] = "thread_time";
static const char instructions_name[] = "thread_instruction_count";

static void categories_read(struct import *im, struct described_track *track,
                            const struct wire_field *field)
{
    CLEANUP(strbuf_done) struct strbuf all = {0};
    for (struct fields each = fields_of(field, PB_CounterDescriptor_categories);
         fields_next(&each);) {
        if (all.size)
            strbuf_add_char(&all, ',');
        strbuf_add(&all, field_text(&each.field), each.field.size);
    }
    if (all.size)
        track->category = import_strbuf_keep(im, &all);
}

static void counter_read(struct import *im, struct described_track *track,
                         const struct wire_field *field)
{
    static const char *const units[] = {
        [PB_UNIT_TIME_NS] = "ns",
        [PB_CounterDescriptor_UNIT_COUNT] = "count",
        [PB_UNIT_SIZE_BYTES] = "bytes",
    };
    MESSAGE(counter, CounterDescriptor, field);
    track->is_counter = true;
    track->is_incremental = field_u64(&counter.is_incremental) != 0;
    track->multiplier = field_i64(&counter.unit_multiplier);
    uint64_t unit = field_u64(&counter.unit);
    uint64_t type = field_u64(&counter.type);
    if (type == PB_COUNTER_THREAD_TIME_NS) {
        unit = PB_UNIT_TIME_NS;
        track->builtin_type = thread_time_name;
    }
    if (type == PB_COUNTER_THREAD_INSTRUCTION_COUNT) {
        unit = PB_CounterDescriptor_UNIT_COUNT;
        track->builtin_type = instructions_name;
    }
    if (track->name == STRSET_NONE && track->builtin_type)
        track->name = strset_add(&im->strings, track->builtin_type, strlen(track->builtin_type));
    if (unit && unit < ELEMENTS(units))
        track->unit = units[unit];
    else if (field_present(&counter.unit_name))
        track->unit = strset_text(&im->strings, import_keep(im, &counter.unit_name));
    if (field_present(&counter.y_axis_share_key))
        track->share_key = import_keep(im, &counter.y_axis_share_key);
    categories_read(im, track, field);
}

static void merge_read(struct import *im, struct described_track *track,
                       const union message_TrackDescriptor *part)
{
    switch (field_u64(&part->sibling_merge_behavior)) {
    case PB_SIBLING_MERGE_BEHAVIOR_NONE:
        track->merge = MERGE_NEVER;
        break;
    case PB_SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY:
        track->merge = MERGE_BY_KEY;
        if (field_present(&part->sibling_merge_key)) {
            track->merge_key = import_keep(im, &part->sibling_merge_key);
        } else if (field_present(&part->sibling_merge_key_int)) {
            char text[64];
            int n = snprintf(text, sizeof(text), "sibling_merge_key_int:%llu",
                             (unsigned long long)field_u64(&part->sibling_merge_key_int));
            track->merge_key = strset_add(&im->strings, text, (size_t)n);
        }
        break;
    default:
        break;
    }
}

static void name_read(struct import *im, struct described_track *track,
                      const union message_TrackDescriptor *part)
{
    const struct wire_field *name = &part->name;
    if (!field_present(name))
        name = &part->static_name;
    if (!field_present(name))
        name = &part->atrace_name;
    if (field_present(name))
        track->name = import_keep(im, name);
    if (field_present(&part->description))
        track->description = import_keep(im, &part->description);
}

static void order_read(struct described_track *track, const union message_TrackDescriptor *part)
{
    track->child_ordering = (uint8_t)field_u64(&part->child_ordering);
    track->orders_processes = field_u64(&part->process_ordering) == PB_PROCESS_ORDERING_EXPLICIT;
    track->orders_threads = field_u64(&part->thread_ordering) == PB_THREAD_ORDERING_EXPLICIT;
    if (field_present(&part->sibling_order_rank)) {
        track->has_rank = true;
        track->rank = (int32_t)field_u64(&part->sibling_order_rank);
    }
}

// Reads the thread of a track. False: the thread has no number.
static bool thread_read(struct described_track *track, const union message_TrackDescriptor *part)
{
    MESSAGE(thread, ThreadDescriptor, &part->thread);
    MESSAGE(chrome, ChromeThreadDescriptor, &part->chrome_thread);
    track->pid = track->named_pid = (uint32_t)field_u64(&thread.pid);
    track->tid = track->named_tid = (uint32_t)field_u64(&thread.tid);
    track->has_tid = track->has_pid = true;
    track->is_separate = field_u64(&part->disallow_merging_with_system_tracks) != 0;
    track->is_sandboxed =
        field_present(&part->chrome_thread) && field_u64(&chrome.is_sandboxed_tid);
    return field_present(&thread.pid) && field_present(&thread.tid);
}

static bool process_read(struct described_track *track, const union message_TrackDescriptor *part)
{
    MESSAGE(process, ProcessDescriptor, &part->process);
    track->pid = track->named_pid = (uint32_t)field_u64(&process.pid);
    track->has_pid = true;
    return field_present(&process.pid);
}

// Reads the track's subject. False: the descriptor has no use; *ret_wrong is the reason.
static bool subject_read(struct import *im, struct described_track *track,
                         const union message_TrackDescriptor *part, enum stat *ret_wrong)
{
    *ret_wrong = STAT_track_descriptor_thread_missing_pid_tid;
    if (field_present(&part->thread))
        return thread_read(track, part);
    *ret_wrong = STAT_track_descriptor_process_missing_pid;
    if (field_present(&part->process))
        return process_read(track, part);
    if (field_present(&part->counter))
        counter_read(im, track, &part->counter);
    else
        track->is_state = field_present(&part->state);
    return true;
}

static bool is_same_track(const struct described_track *a, const struct described_track *b)
{
    return a->parent_uuid == b->parent_uuid && a->has_pid == b->has_pid &&
           a->named_pid == b->named_pid && a->has_tid == b->has_tid &&
           a->named_tid == b->named_tid && a->is_counter == b->is_counter &&
           a->is_state == b->is_state && a->merge == b->merge && a->merge_key == b->merge_key &&
           a->category == b->category && a->multiplier == b->multiplier &&
           a->is_incremental == b->is_incremental && a->builtin_type == b->builtin_type &&
           a->share_key == b->share_key;
}

// Reads a repeated descriptor. The name of a merged track determines which tracks are merged, so
// only the first name counts.
static void known_track_read(struct import *im, struct described_track *known,
                             const struct described_track *again)
{
    if (!is_same_track(known, again))
        stats_add(&im->stats, STAT_track_descriptor_conflicting_reservation, 1);
    else if (again->name != STRSET_NONE &&
             (known->name == STRSET_NONE || known->merge == MERGE_NEVER))
        known->name = again->name;
}

void described_track_read(struct import *im, const struct wire_field *descriptor,
                          uint32_t trusted_pid)
{
    MESSAGE(part, TrackDescriptor, descriptor);
    if (!field_present(&part.uuid)) {
        stats_add(&im->stats, STAT_track_descriptor_missing_uuid, 1);
        return;
    }
    uint64_t uuid = field_u64(&part.uuid);
    struct described_track track = described_track_unknown(uuid);
    struct described_track *known = described_track_find(track_events_of(im), uuid);
    enum stat wrong = STAT_track_descriptor_invalid_child_ordering;
    track.parent_uuid = field_u64(&part.parent_uuid);
    track.trusted_pid = trusted_pid;
    merge_read(im, &track, &part);
    name_read(im, &track, &part);
    order_read(&track, &part);
    if (known && trusted_pid)
        known->trusted_pid = trusted_pid;
    if (field_u64(&part.child_ordering) > PB_EXPLICIT || !subject_read(im, &track, &part, &wrong))
        stats_add(&im->stats, wrong, 1);
    else if (!uuid && track.parent_uuid)
        stats_add(&im->stats, STAT_track_descriptor_default_track_with_parent, 1);
    else if (known)
        known_track_read(im, known, &track);
    else
        described_track_add(im, &track);
}
