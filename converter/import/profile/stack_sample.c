// SPDX-License-Identifier: Apache-2.0
//
// StackSample: samples of any profiler. The task, the execution context, the counters and the call
// chain of a sample are either in the packet or interned.
#include <errno.h>

#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/profile/samples.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define ASYNC_DEPTH_MAX 64
#define FRAMES_MAX      4096 // of an inline call chain

struct stack_samples {
    struct strset async; // contexts as bytes; ids are row ids
};

static const char *text_kept(struct import *im, const struct wire_field *field)
{
    return field->size ? strset_text(&im->strings, import_keep(im, field)) : NULL;
}

// Finds a message in `inline_field` or, if the field is absent, in the interned data of `table`
// with `iid`.
static bool either(const struct packet *packet, const struct wire_field *inline_field,
                   const struct wire_field *iid, uint32_t table, struct wire_field *ret)
{
    struct wire_field found = *inline_field;
    if (!field_present(&found) && field_present(iid))
        found = interned_message(generation_find(packet->state, table, field_u64(iid)));
    if (field_present(&found))
        *ret = found;
    return field_present(&found);
}

// Adds the context and its ancestors, outermost first. Returns the context's id or SAMPLE_NONE.
static int64_t async_get(struct import *im, struct stack_samples *state,
                         const struct packet *packet, uint64_t iid)
{
    struct wire_field chain[ASYNC_DEPTH_MAX];
    size_t n = 0;
    while (iid && n < ASYNC_DEPTH_MAX) {
        chain[n] = interned_message(generation_find(
            packet->state, PB_InternedData_stack_sample_async_context_descriptors, iid));
        bool ends = !field_present(&chain[n]);
        for (size_t i = 0; i < n && !ends; i++)
            ends = chain[i].data == chain[n].data;
        if (ends)
            break;
        MESSAGE(part, StackSample_AsyncContextDescriptor, &chain[n]);
        iid = field_u64(&part.parent_iid);
        n++;
    }
    int64_t parent = SAMPLE_NONE;
    while (n-- > 0) {
        MESSAGE(part, StackSample_AsyncContextDescriptor, &chain[n]);
        const struct wire_field *name = &part.name;
        const struct wire_field *kind = &part.kind;
        int64_t key[] = {parent, import_keep(im, name), import_keep(im, kind), field_i64(&part.iid),
                         packet->state->epoch};
        size_t n_before = state->async.n;
        uint32_t id = strset_add(&state->async, (const char *)key, sizeof(key));
        if (id == STRSET_NONE)
            return SAMPLE_NONE;
        if (state->async.n > n_before) {
            struct cell *row = database_row_with_id(im->db, TABLE__profiler_async_context, id);
            cell_text(row, COL__profiler_async_context_name, text_kept(im, name));
            cell_text(row, COL__profiler_async_context_kind, text_kept(im, kind));
            if (parent != SAMPLE_NONE)
                cell_int(row, COL__profiler_async_context_parent_id, parent);
        }
        parent = id;
    }
    return parent;
}

static void task_read(struct import *im, struct stack_samples *state, const struct packet *packet,
                      const struct wire_field *message, struct sample *sample)
{
    MESSAGE(task, StackSample_TaskContext, message);
    const struct wire_field *pid = &task.pid;
    const struct wire_field *tid = &task.tid;
    if (field_present(pid))
        sample->upid = processes_process(&im->processes, (uint32_t)field_u64(pid));
    if (field_present(tid))
        sample->utid = field_present(pid)
                           ? processes_update_thread(&im->processes, (uint32_t)field_u64(tid),
                                                     (uint32_t)field_u64(pid))
                           : processes_thread(&im->processes, (uint32_t)field_u64(tid));
    if (field_present(&task.async_id))
        sample->async = async_get(im, state, packet, field_u64(&task.async_id));
}

static void execution_read(const struct wire_field *message, struct sample *sample)
{
    static const char *const modes[] = {
        NULL, "user", "kernel", "hypervisor", "guest_user", "guest_kernel",
    };
    MESSAGE(part, StackSample_ExecutionContext, message);
    if (field_present(&part.cpu))
        sample->cpu = (uint32_t)field_u64(&part.cpu);
    if (sample->cpu >= CPUS_MAX)
        sample->cpu = SAMPLE_NONE;
    uint64_t mode = field_u64(&part.mode);
    if (mode < ELEMENTS(modes))
        sample->cpu_mode = modes[mode];
}

static const char *unit_text(struct import *im,
                             const union message_StackSample_CounterDescriptor *part)
{
    static const char *const units[] = {
        NULL,          "ns",           "cycles",           "instructions",  "bytes",
        "page-faults", "cache-misses", "cache-references", "branch-misses", "count",
    };
    uint64_t unit = field_u64(&part->unit);
    if (unit)
        return unit < ELEMENTS(units) ? units[unit] : NULL;
    return text_kept(im, &part->unit_str);
}

// *ret: the track of a counter. False: the counter belongs to a CPU, but the sample has no CPU.
static bool counter_track(struct import *im, const struct sample *sample,
                          const struct wire_field *descriptor, bool is_timebase, uint32_t *ret)
{
    MESSAGE(part, StackSample_CounterDescriptor, descriptor);
    const struct wire_field *name = &part.name;
    bool of_cpu = field_u64(&part.scope) == PB_SCOPE_CPU;
    if (of_cpu && sample->cpu == SAMPLE_NONE)
        return false;
    const char *source = sample->source ? sample->source : "";
    struct track_spec spec = {
        .type = of_cpu ? "stack_sample_cpu_counter" : "stack_sample_session_counter",
        .unit = unit_text(im, &part),
        .counter = true,
        .name = field_name(name),
    };
    size_t n = 0;
    if (of_cpu)
        spec.dimensions[n++] = dimension_int("cpu", sample->cpu);
    spec.dimensions[n++] = dimension_int("session_id", sample->session);
    spec.dimensions[n++] = dimension_text("source", source, strlen(source));
    spec.dimensions[n] = dimension_text("counter_name", field_text(name), name->size);
    *ret = tracks_get(&im->tracks, &spec);
    if (is_timebase && spec.unit)
        samples_set_unit(im, sample->session, spec.unit);
    if (*ret >= im->tracks.items.n || im->tracks.items.items[*ret].source_set != ARG_SET_NONE)
        return true;
    const struct wire_field *text = &part.description;
    struct arg args[3] = {arg_bool("is_timebase", is_timebase)};
    n = 1;
    if (field_present(&part.unit_multiplier))
        ARG_APPEND(args, n, arg_int("unit_multiplier", field_i64(&part.unit_multiplier)));
    if (text->size)
        ARG_APPEND(args, n, arg_text("description", text->data, text->size));
    im->tracks.items.items[*ret].source_set = args_add(&im->args, args, n);
    return true;
}

static void counter_add(struct import *im, struct sample *sample,
                        const struct wire_field *descriptor, bool is_timebase, uint64_t weight)
{
    uint32_t track;
    if (sample->n_counters < SAMPLE_COUNTERS_MAX &&
        counter_track(im, sample, descriptor, is_timebase, &track))
        sample->counters[sample->n_counters++] =
            counter_push(im, sample->ts, track, (double)weight, ARG_SET_NONE);
}

static size_t fields_keep(const struct wire_field *message, uint32_t number, struct wire_field *ret)
{
    struct fields each = fields_of(message, number);
    size_t n = 0;
    while (n < SAMPLE_COUNTERS_MAX && fields_next(&each))
        ret[n++] = each.field;
    return n;
}

// Reads the descriptions of the further counters, which are in the packet, interned, or in the
// defaults.
static size_t followers_read(const struct packet *packet, const struct wire_field *message,
                             const struct wire_field *defaults, struct wire_field *ret)
{
    size_t n = fields_keep(message, PB_StackSample_follower_descriptors, ret);
    if (n)
        return n;
    struct values iids = values_of(message, PB_StackSample_follower_descriptor_iids);
    uint64_t iid;
    while (n < SAMPLE_COUNTERS_MAX && values_next(&iids, &iid)) {
        ret[n++] = interned_message(
            generation_find(packet->state, PB_InternedData_stack_sample_counter_descriptors, iid));
    }
    return n ? n : fields_keep(defaults, PB_StackSampleDefaults_follower_descriptors, ret);
}

static void counters_read(struct import *im, const struct packet *packet,
                          const struct wire_field *message, const union message_StackSample *part,
                          const struct wire_field *defaults, struct sample *sample)
{
    MESSAGE(common, StackSampleDefaults, defaults);
    struct wire_field primary;
    if (!either(packet, &part->primary_descriptor, &part->primary_descriptor_iid,
                PB_InternedData_stack_sample_counter_descriptors, &primary))
        primary = common.primary_descriptor;
    if (field_present(&primary) && field_present(&part->primary_weight))
        counter_add(im, sample, &primary, true, field_u64(&part->primary_weight));
    struct wire_field followers[SAMPLE_COUNTERS_MAX];
    size_t n = followers_read(packet, message, defaults, followers);
    struct values weights = values_of(message, PB_StackSample_follower_weights);
    uint64_t weight;
    for (size_t next = 0; next < n && values_next(&weights, &weight); next++)
        if (field_present(&followers[next]))
            counter_add(im, sample, &followers[next], false, weight);
}

int64_t stacks_inline(struct import *im, const struct wire_field *message, const char *mapping_name)
{
    const int64_t numbers[5] = {[3] = -1};
    uint32_t empty = strset_add(&im->strings, "", 0);
    uint32_t name = strset_add(&im->strings, mapping_name, strlen(mapping_name));
    int64_t callsite = CALLSITE_NONE, depth = 0;
    struct fields each = fields_of(message, PB_InlineCallstack_frames);
    while (depth < FRAMES_MAX && fields_next(&each)) {
        MESSAGE(part, InlineCallstack_Frame, &each.field);
        const struct wire_field *file = &part.source_file;
        int64_t frame = stacks_frame(im, stacks_mapping(im, name, empty, numbers), 0,
                                     import_keep(im, &part.function_name),
                                     field_present(file) ? import_keep(im, file) : STRSET_NONE,
                                     (uint32_t)field_u64(&part.line_number), STRSET_NONE);
        if (frame < 0)
            return CALLSITE_NONE;
        callsite = stacks_child(im, callsite, frame, depth++);
    }
    return callsite;
}

static void stack_sample_sorted(struct import *im, const struct packet *packet)
{
    struct wire_field found, defaults = message_field(packet->state->defaults,
                                                      PB_TracePacketDefaults_stack_sample_defaults);
    MESSAGE(common, StackSampleDefaults, &defaults);
    MESSAGE(part, StackSample, packet->message);
    struct sample sample = {
        .ts = packet->ts,
        .source = text_kept(im, &common.source),
        .utid = SAMPLE_NONE,
        .upid = SAMPLE_NONE,
        .async = SAMPLE_NONE,
        .cpu = SAMPLE_NONE,
        .callsite = SAMPLE_NONE,
    };
    if (either(packet, &part.task_context, &part.task_context_iid,
               PB_InternedData_stack_sample_task_contexts, &found))
        task_read(im, packet->own, packet, &found, &sample);
    if (either(packet, &part.execution_context, &part.execution_context_iid,
               PB_InternedData_stack_sample_execution_contexts, &found))
        execution_read(&found, &sample);
    bool is_new;
    sample.session = samples_session(im, sample.source, packet->sequence_id, &is_new);
    counters_read(im, packet, packet->message, &part, &defaults, &sample);
    struct stack_source source = stack_source_interned(packet->state);
    if (field_present(&part.callstack_iid))
        sample.callsite = stacks_callsite(im, &source, field_u64(&part.callstack_iid));
    else if (field_present(&part.callstack))
        sample.callsite = stacks_inline(im, &part.callstack, "stack_sample_inline");
    sample_write(im, &sample);
}

static void stack_sample_done(void *userdata)
{
    strset_done(&((struct stack_samples *)userdata)->async);
}

const struct importer importer_stack_sample = {
    .field = PB_TracePacket_stack_sample,
    .sorted = stack_sample_sorted,
    .state_size = sizeof(struct stack_samples),
    .of_all_machines = true,
    .done = stack_sample_done,
};
