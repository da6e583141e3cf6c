// SPDX-License-Identifier: Apache-2.0
//
// GpuCounterEvent: values of counters that a driver describes. A description is either interned and
// valid on its sequence, or part of an event and valid in the whole trace. Descriptions are read in
// file order, values in order of time.
//
// A value describes the time since the previous value of its counter. The row with the time of the
// previous value gets the value. If the counter's description says "forwards looking", a value
// describes the time after the value, and the row has the value's own time.
#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

// Units by number.
static const char *const units[] = {
    "",   "bit", "Kb", "Mb",     "Gb",    "Tb",        "Pb",       "B",           "KB", "MB", "GB",
    "TB", "PB",  "Hz", "KHz",    "MHz",   "GHz",       "THz",      "PHz",         "ns", "us", "ms",
    "s",  "min", "h",  "Vertex", "Pixel", "Triangle",  "mW",       "W",           "kW", "J",  "V",
    "A",  "C",   "F",  "K",      "%",     "Primitive", "Fragment", "Instruction",
};

struct counter {
    uint32_t track;
    bool is_forwards;
};
VEC_DEFINE(counter_vec, struct counter);

// The time of a track's last value. The row with this time waits for the next value.
struct waiting {
    uint32_t track;
    int64_t ts;
};
VEC_DEFINE(waiting_vec, struct waiting);

struct gpu_counters {
    struct strset descriptors; // (epoch, iid) -> number
    struct map64 by_id;        // descriptor's number and id of the counter -> index in counters
    struct counter_vec counters;
    struct map64 by_track; // -> index in waiting
    struct waiting_vec waiting;
};

struct group {
    struct wire_field name, description;
};
VEC_DEFINE(group_vec, struct group);

// Groups in a descriptor.
struct groups {
    struct map64 by_number; // -> index in items
    struct group_vec items;
};

// Key of the descriptions that are valid in the whole trace. No interned description has this
// epoch.
static const uint64_t whole_trace[2] = {UINT64_MAX, 0};

static void units_add(struct strbuf *text, const struct wire_field *spec, uint32_t field,
                      char first)
{
    struct values values = values_of(spec, field);
    uint64_t number;
    char separator = first;
    while (values_next(&values, &number)) {
        const char *unit = number < ELEMENTS(units) ? units[number] : "Unknown";
        if (field == PB_GpuCounterDescriptor_GpuCounterSpec_denominator_units && !*unit)
            continue;
        if (text->size || field == PB_GpuCounterDescriptor_GpuCounterSpec_denominator_units)
            strbuf_add_char(text, separator);
        separator = ':';
        strbuf_add_str(text, unit);
    }
}

static const char *string_keep(struct import *im, const char *text, size_t size)
{
    return strset_text(&im->strings, strset_add(&im->strings, text ? text : "", size));
}

static uint32_t counter_track(struct import *im, uint32_t gpu, const struct wire_field *message,
                              const union message_GpuCounterDescriptor_GpuCounterSpec *spec)
{
    const struct wire_field *name = &spec->name, *description = &spec->description;
    CLEANUP(strbuf_done) struct strbuf unit = {0};
    units_add(&unit, message, PB_GpuCounterDescriptor_GpuCounterSpec_numerator_units, ':');
    units_add(&unit, message, PB_GpuCounterDescriptor_GpuCounterSpec_denominator_units, '/');
    bool has_unit =
        field_present(&spec->numerator_units) || field_present(&spec->denominator_units);
    struct track_spec track = {
        .type = "gpu_counter",
        .unit = has_unit ? string_keep(im, unit.text, unit.size) : NULL,
        .counter = true,
        .dimensions = {dimension_int("ugpu", gpus_get(im, gpu)), dimension_int("gpu", gpu),
                       dimension_text("name", field_text(name), name->size)},
        .name = field_name(name),
    };
    uint32_t id = tracks_get(&im->tracks, &track);
    struct arg arg = arg_text("description", description->data, description->size);
    track_describe(&im->tracks, id, &arg, 1);
    if (description->size && id < im->tracks.items.n)
        im->tracks.items.items[id].description =
            string_keep(im, field_text(description), description->size);
    return id;
}

static void group_row(struct import *im, uint32_t track, uint64_t group, const struct group *named)
{
    struct cell *row = database_row(im->db, TABLE_gpu_counter_group, NULL);
    cell_int(row, COL_gpu_counter_group_group_id, (int32_t)group);
    cell_int(row, COL_gpu_counter_group_track_id, track);
    if (!named)
        return;
    cell_field(row, COL_gpu_counter_group_name, &named->name);
    cell_field(row, COL_gpu_counter_group_description, &named->description);
}

static void groups_done(struct groups *groups)
{
    map64_done(&groups->by_number);
    group_vec_done(&groups->items);
}

// Reads a group of a descriptor. False: the group has no number.
static bool group_read(const struct wire_field *field, struct group *ret, uint64_t *ret_number)
{
    MESSAGE(part, GpuCounterDescriptor_GpuCounterGroupSpec, field);
    if (!field_present(&part.group_id))
        return false;
    *ret = (struct group){part.name, part.description};
    *ret_number = field_u64(&part.group_id);
    return true;
}

static void groups_read(struct import *im, struct groups *groups,
                        const struct wire_field *descriptor)
{
    struct group group;
    uint64_t number;
    for (struct fields each = fields_of(descriptor, PB_GpuCounterDescriptor_counter_groups);
         !import_failed(im) && fields_next(&each);)
        if (group_read(&each.field, &group, &number)) {
            import_fail(im, map64_set(&groups->by_number, (uint32_t)number, groups->items.n));
            import_fail(im, group_vec_push(&groups->items, group));
        }
}

// Writes the groups of a counter, or group 0 if the counter names no group.
static void counter_groups(struct import *im, uint32_t track, const struct groups *groups,
                           const struct wire_field *spec)
{
    struct values numbers = values_of(spec, PB_GpuCounterDescriptor_GpuCounterSpec_groups);
    uint64_t number;
    bool has_group = false;
    while (values_next(&numbers, &number)) {
        const uint64_t *index = map64_find(&groups->by_number, (uint32_t)number);
        group_row(im, track, number, index ? &groups->items.items[*index] : NULL);
        has_group = true;
    }
    if (!has_group)
        group_row(im, track, 0, NULL);
}

// Writes the counters in the lists of groups.
static void group_counters(struct import *im, const struct gpu_counters *all,
                           uint64_t descriptor_id, const struct wire_field *descriptor)
{
    struct group group;
    uint64_t number, id;
    for (struct fields each = fields_of(descriptor, PB_GpuCounterDescriptor_counter_groups);
         fields_next(&each);) {
        if (!group_read(&each.field, &group, &number))
            continue;
        struct values ids =
            values_of(&each.field, PB_GpuCounterDescriptor_GpuCounterGroupSpec_counter_ids);
        while (values_next(&ids, &id)) {
            const uint64_t *index = map64_find(&all->by_id, descriptor_id << 32 | (uint32_t)id);
            if (index)
                group_row(im, all->counters.items[*index].track, number, &group);
        }
    }
}

// Reads the description of a counter. `is_strict`: a second description of a counter is an error.
static void spec_read(struct import *im, struct gpu_counters *all, uint64_t number, uint32_t gpu,
                      const struct groups *groups, const struct wire_field *message, bool is_strict)
{
    MESSAGE(spec, GpuCounterDescriptor_GpuCounterSpec, message);
    uint64_t key = number << 32 | (uint32_t)field_u64(&spec.counter_id);
    bool is_whole = field_present(&spec.counter_id) && field_present(&spec.name), is_new;
    if (!is_whole || (is_strict && map64_find(&all->by_id, key))) {
        if (is_strict)
            stats_add(&im->stats, STAT_gpu_counters_invalid_spec, 1);
        return;
    }
    struct counter counter = {
        .track = counter_track(im, gpu, message, &spec),
        .is_forwards = field_u64(&spec.value_direction) == PB_VALUE_DIRECTION_FORWARDS_LOOKING,
    };
    if (!import_map_get(im, &all->by_id, key, all->counters.n, &is_new) || !is_new)
        return;
    counter_groups(im, counter.track, groups, message);
    import_fail(im, counter_vec_push(&all->counters, counter));
}

static void descriptor_read(struct import *im, struct gpu_counters *all, const uint64_t key[2],
                            const struct wire_field *gpu_id, const struct wire_field *descriptor,
                            bool is_strict)
{
    uint32_t number = strset_add(&all->descriptors, (const char *)key, 2 * sizeof(*key));
    uint32_t gpu = (uint32_t)field_u64(gpu_id);
    if (number == STRSET_NONE) {
        import_fail(im, -ENOMEM);
        return;
    }
    CLEANUP(groups_done) struct groups groups = {0};
    groups_read(im, &groups, descriptor);
    for (struct fields each = fields_of(descriptor, PB_GpuCounterDescriptor_specs);
         !import_failed(im) && fields_next(&each);)
        spec_read(im, all, number, gpu, &groups, &each.field, is_strict);
    if (!import_failed(im))
        group_counters(im, all, number, descriptor);
}

static void interned_read(struct import *im, struct gpu_counters *all, const struct packet *packet,
                          uint64_t iid)
{
    uint64_t key[2] = {packet->state->epoch, iid};
    if (strset_find(&all->descriptors, (const char *)key, sizeof(key)) != STRSET_NONE)
        return;
    struct wire_field whole = interned_message(
        generation_find(packet->state, PB_InternedData_gpu_counter_descriptors, iid));
    MESSAGE(interned, InternedGpuCounterDescriptor, &whole);
    if (!field_present(&interned.counter_descriptor)) {
        stats_add(&im->stats, STAT_gpu_counters_invalid_spec, 1);
        return;
    }
    descriptor_read(im, all, key, &interned.gpu_id, &interned.counter_descriptor, false);
}

static void counters_now(struct import *im, const struct packet *packet)
{
    struct gpu_counters *all = packet->own;
    MESSAGE(event, GpuCounterEvent, packet->message);
    if (field_present(&event.counter_descriptor_iid))
        interned_read(im, all, packet, field_u64(&event.counter_descriptor_iid));
    else if (field_present(&event.counter_descriptor))
        descriptor_read(im, all, whole_trace, &event.gpu_id, &event.counter_descriptor, true);
}

static void value_push(struct import *im, struct gpu_counters *all, int64_t ts,
                       const struct counter *counter, double value)
{
    if (counter->is_forwards) {
        counter_push(im, ts, counter->track, value, ARG_SET_NONE);
        return;
    }
    struct waiting waiting = {.track = counter->track, .ts = ts};
    bool is_new;
    const uint64_t *index =
        import_map_get(im, &all->by_track, counter->track, all->waiting.n, &is_new);
    if (!index)
        return;
    if (is_new) {
        import_fail(im, waiting_vec_push(&all->waiting, waiting));
        return;
    }
    counter_push(im, all->waiting.items[*index].ts, counter->track, value, ARG_SET_NONE);
    all->waiting.items[*index] = waiting;
}

static bool has_timestamp(const struct packet *packet)
{
    struct wire_field timestamp = message_field(packet->fields, PB_TracePacket_timestamp);
    return field_present(&timestamp);
}

static void counters_sorted(struct import *im, const struct packet *packet)
{
    struct gpu_counters *all = packet->own;
    MESSAGE(event, GpuCounterEvent, packet->message);
    const struct wire_field *iid = &event.counter_descriptor_iid;
    if (!field_present(&event.counters))
        return;
    if (!has_timestamp(packet)) {
        stats_add(&im->stats, STAT_gpu_counters_missing_timestamp, 1);
        return;
    }
    uint64_t key[2] = {packet->state->epoch, field_u64(iid)};
    const void *used = field_present(iid) ? key : whole_trace;
    uint64_t number = strset_find(&all->descriptors, used, sizeof(key));
    for (struct fields each = fields_of(packet->message, PB_GpuCounterEvent_counters);
         !import_failed(im) && number != STRSET_NONE && fields_next(&each);) {
        MESSAGE(part, GpuCounterEvent_GpuCounter, &each.field);
        if (!field_present(&part.counter_id) ||
            (!field_present(&part.int_value) && !field_present(&part.double_value)))
            continue;
        const uint64_t *index =
            map64_find(&all->by_id, number << 32 | (uint32_t)field_u64(&part.counter_id));
        if (index)
            value_push(im, all, packet->ts, &all->counters.items[*index],
                       field_present(&part.int_value) ? (double)field_i64(&part.int_value)
                                                      : field_double(&part.double_value));
        else if (field_present(iid))
            stats_add(&im->stats, STAT_gpu_counters_invalid_spec, 1);
    }
}

// Writes the last rows. As in Perfetto, the unknown time after the last value has the value 0.
static void counters_finish(struct import *im, void *state)
{
    const struct gpu_counters *all = state;
    vec_foreach(&all->waiting, waiting) {
        counter_push(im, waiting->ts, waiting->track, 0, ARG_SET_NONE);
    }
}

static void counters_done(void *state)
{
    struct gpu_counters *all = state;
    strset_done(&all->descriptors);
    map64_done(&all->by_id);
    counter_vec_done(&all->counters);
    map64_done(&all->by_track);
    waiting_vec_done(&all->waiting);
}

const struct importer importer_gpu_counters = {
    .field = PB_TracePacket_gpu_counter_event,
    .now = counters_now,
    .sorted = counters_sorted,
    .state_size = sizeof(struct gpu_counters),
    .finish = counters_finish,
    .done = counters_done,
};
