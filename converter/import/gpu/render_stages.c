// SPDX-License-Identifier: Apache-2.0
//
// GpuRenderStageEvent: slices of the queues of a GPU. Queues and stages are interned. In older
// traces, the order of their descriptions gives their numbers. A queue with events before its
// description has a track with a placeholder name. The description replaces this name.
#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/import/arg_writer.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define STAGE_ARGS_MAX 128 // of one event
#define SUBPASSES_MAX  4096
#define WAITS_MAX      256

struct described {
    struct wire_field name, text;
};
VEC_DEFINE(described_vec, struct described);

struct render_stages {
    struct described_vec queues, stages; // by number
    struct map64 unnamed;                // queues that have a placeholder
    struct gpu_events events;
};

struct stage_args {
    struct import *im;
    const struct packet *packet;
    struct arg items[STAGE_ARGS_MAX];
    size_t n;
};

struct queue {
    const char *source;
    uint64_t id;
    struct wire_field name, text; // of the track
    bool is_named;
};

static void stage_arg(struct stage_args *args, struct arg arg)
{
    if (args->n < STAGE_ARGS_MAX && arg.key)
        args->items[args->n++] = arg;
}

static const char *key_keep(struct import *im, const struct wire_field *name)
{
    return strset_text(&im->strings, strset_add(&im->strings, field_text(name), name->size));
}

static struct arg field_arg(const char *key, const struct wire_field *text)
{
    return arg_name(key, field_name(text));
}

static struct wire_field interned_get(const struct packet *packet, uint32_t table, uint64_t iid)
{
    return interned_message(generation_find(packet->state, table, iid));
}

static struct track_spec queue_tracks(struct import *im, uint32_t gpu, const struct queue *queue)
{
    return (struct track_spec){
        .type = "gpu_render_stage",
        .dimensions = {dimension_int("ugpu", gpus_get(im, gpu)), dimension_int("gpu", gpu),
                       dimension_text("render_stage_source", queue->source, strlen(queue->source)),
                       dimension_int("hwqueue_id", (uint32_t)queue->id),
                       dimension_text("hwqueue_name",
                                      queue->is_named ? field_text(&queue->name) : "",
                                      queue->is_named ? queue->name.size : 0)},
        .name = field_name(&queue->name),
    };
}

static void track_explain(struct import *im, uint32_t track, const struct wire_field *text)
{
    struct arg arg = field_arg("description", text);
    track_describe(&im->tracks, track, &arg, 1);
}

// Gives the placeholder track of a queue its name.
static void queue_name(struct import *im, uint32_t gpu, uint64_t id,
                       const struct described *described)
{
    struct queue queue = {.source = "id", .id = id, .name = described->name};
    struct track_spec spec = queue_tracks(im, gpu, &queue);
    uint32_t track = async_track_first(&im->async_tracks, &spec);
    if (track >= im->tracks.items.n)
        return;
    im->tracks.items.items[track].name =
        strset_add(&im->strings, field_text(&described->name), described->name.size);
    track_explain(im, track, &described->text);
}

static int queue_describe(struct render_stages *stages, uint64_t id,
                          const struct wire_field *message)
{
    MESSAGE(part, GpuRenderStageEvent_Specifications_Description, message);
    struct described described = {gpu_text(part.name), gpu_text(part.description)};
    bool has_name = field_present(&part.name);
    if (id >= stages->queues.n) // a queue without a name keeps its number
        return described_vec_push(&stages->queues, has_name ? described : (struct described){0});
    if (has_name)
        stages->queues.items[id] = described;
    return 0;
}

static void specifications_read(struct import *im, struct render_stages *stages, uint32_t gpu,
                                const struct wire_field *message)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    uint64_t n_queues = 0;
    int r = 0;
    while (r == 0 && wire_next(&reader, &field)) {
        if (field.number == PB_GpuRenderStageEvent_Specifications_hw_queue) {
            uint64_t id = n_queues++;
            r = queue_describe(stages, id, &field);
            if (r == 0 && field_present(&stages->queues.items[id].name) &&
                map64_remove(&stages->unnamed, id))
                queue_name(im, gpu, id, &stages->queues.items[id]);
        } else if (field.number == PB_GpuRenderStageEvent_Specifications_stage) {
            MESSAGE(part, GpuRenderStageEvent_Specifications_Description, &field);
            if (field_present(&part.name))
                r = described_vec_push(
                    &stages->stages,
                    (struct described){gpu_text(part.name), gpu_text(part.description)});
        }
    }
    import_fail(im, r);
}

static uint32_t pid_of(const struct packet *packet, const union message_GpuRenderStageEvent *event)
{
    uint32_t pid = 0;
    if (field_present(&event->specifications)) {
        MESSAGE(all, GpuRenderStageEvent_Specifications, &event->specifications);
        MESSAGE(context, GpuRenderStageEvent_Specifications_ContextSpec, &all.context_spec);
        pid = (uint32_t)field_u64(&context.pid);
    }
    struct wire_field interned =
        interned_get(packet, PB_InternedData_graphics_contexts, field_u64(&event->context));
    if (!field_present(&event->context) || !field_present(&interned))
        return pid;
    MESSAGE(context, GpuRenderStageEvent_Specifications_ContextSpec, &interned);
    return (uint32_t)field_u64(&context.pid);
}

// Finds the queue of an event. False: the trace lacks the interned queue.
static bool queue_of(struct import *im, struct render_stages *stages, const struct packet *packet,
                     const union message_GpuRenderStageEvent *event, struct queue *ret)
{
    if (field_present(&event->hw_queue_iid)) {
        uint64_t iid = field_u64(&event->hw_queue_iid);
        struct wire_field interned = interned_get(packet, PB_InternedData_gpu_specifications, iid);
        MESSAGE(part, InternedGpuRenderStageSpecification, &interned);
        if (field_present(&interned))
            *ret = (struct queue){"iid", iid, part.name, part.description, true};
        return field_present(&interned);
    }
    uint64_t id = (uint32_t)field_u64(&event->hw_queue_id);
    const struct described *known = id < stages->queues.n ? &stages->queues.items[id] : NULL;
    if (known && field_present(&known->name)) {
        *ret = (struct queue){"id", id, known->name, known->text, true};
        return true;
    }
    struct slice_name name = import_text(im, "Unknown GPU Queue %llu", (unsigned long long)id);
    import_fail(im, map64_set(&stages->unnamed, id, 1));
    *ret = (struct queue){.source = "id",
                          .id = id,
                          .name = {.number = 1,
                                   .type = WIRE_BYTES,
                                   .data = (const uint8_t *)name.text,
                                   .size = name.size}};
    return true;
}

static struct slice_name stage_name(struct import *im, const struct render_stages *stages,
                                    const struct packet *packet,
                                    const union message_GpuRenderStageEvent *event)
{
    uint64_t stage = field_u64(&event->stage_id);
    struct wire_field name = {0};
    if (field_present(&event->name_iid)) {
        interned_text(packet->state, PB_InternedData_event_names, field_u64(&event->name_iid),
                      &name);
    } else if (field_present(&event->name)) {
        name = event->name;
    } else if (field_present(&event->stage_iid)) {
        struct wire_field interned =
            interned_get(packet, PB_InternedData_gpu_specifications, field_u64(&event->stage_iid));
        MESSAGE(part, InternedGpuRenderStageSpecification, &interned);
        name = part.name;
    } else if (stage < stages->stages.n) {
        name = stages->stages.items[stage].name;
    } else {
        return import_text(im, "render stage(%llu)", (unsigned long long)stage);
    }
    return (struct slice_name){(const char *)name.data, name.size};
}

static void stage_args_read(struct stage_args *args, const struct render_stages *stages,
                            const union message_GpuRenderStageEvent *event)
{
    uint64_t stage = field_u64(&event->stage_id);
    if (field_present(&event->stage_iid)) {
        struct wire_field interned = interned_get(args->packet, PB_InternedData_gpu_specifications,
                                                  field_u64(&event->stage_iid));
        if (!field_present(&interned))
            return;
        MESSAGE(part, InternedGpuRenderStageSpecification, &interned);
        stage_arg(args, arg_int("render_stage_category", (int32_t)field_u64(&part.category)));
        stage_arg(args, field_arg("description", &part.description));
    } else if (field_present(&event->stage_id) && stage < stages->stages.n &&
               stages->stages.items[stage].text.data) {
        stage_arg(args, field_arg("description", &stages->stages.items[stage].text));
    }
}

static void compute_arg(struct stage_args *args, const struct wire_field *message)
{
    MESSAGE(part, GpuRenderStageEvent_ExtraComputeArg, message);
    struct wire_field name = part.name, text;
    if (field_present(&part.name_iid) &&
        !interned_text(args->packet->state, PB_InternedData_compute_arg_names,
                       field_u64(&part.name_iid), &name))
        return;
    if (!name.data)
        return;
    const char *key = key_keep(args->im, &name);
    if (field_present(&part.int_value))
        stage_arg(args, arg_int(key, field_i64(&part.int_value)));
    else if (field_present(&part.uint_value))
        stage_arg(args, arg_uint(key, field_u64(&part.uint_value)));
    else if (field_present(&part.double_value))
        stage_arg(args, arg_real(key, field_double(&part.double_value)));
    else if (field_present(&part.string_value))
        stage_arg(args, field_arg(key, &part.string_value));
    else if (field_present(&part.string_value_iid) &&
             interned_text(args->packet->state, PB_InternedData_debug_annotation_string_values,
                           field_u64(&part.string_value_iid), &text))
        stage_arg(args, field_arg(key, &text));
}

static void compute_args(struct stage_args *args, const struct wire_field *message, uint32_t number)
{
    for (struct fields each = fields_of(message, number);
         args->n < STAGE_ARGS_MAX && fields_next(&each);)
        compute_arg(args, &each.field);
}

static void kernel_args(struct stage_args *args, const union message_GpuRenderStageEvent *event)
{
    static const char *const keys[] = {
        [PB_InternedComputeKernel_name] = "kernel_name",
        [PB_InternedComputeKernel_demangled_name] = "kernel_demangled_name",
        [PB_InternedComputeKernel_arch] = "arch",
    };
    if (!field_present(&event->kernel_iid))
        return;
    struct wire_field kernel =
        interned_get(args->packet, PB_InternedData_compute_kernels, field_u64(&event->kernel_iid));
    MESSAGE(part, InternedComputeKernel, &kernel);
    for (size_t i = PB_InternedComputeKernel_name; i <= PB_InternedComputeKernel_arch; i++)
        if (field_present(&part.at[i]))
            stage_arg(args, field_arg(keys[i], &part.at[i]));
    compute_args(args, &kernel, PB_InternedComputeKernel_args);
}

static void launch_args(struct stage_args *args, const struct wire_field *launch)
{
    static const char *const keys[][4] = {
        [PB_GpuRenderStageEvent_ComputeKernelLaunch_grid_size] = {NULL, "launch.grid_size.x",
                                                                  "launch.grid_size.y",
                                                                  "launch.grid_size.z"},
        [PB_GpuRenderStageEvent_ComputeKernelLaunch_workgroup_size] = {NULL,
                                                                       "launch.workgroup_size.x",
                                                                       "launch.workgroup_size.y",
                                                                       "launch.workgroup_size.z"},
    };
    MESSAGE(part, GpuRenderStageEvent_ComputeKernelLaunch, launch);
    for (size_t i = PB_GpuRenderStageEvent_ComputeKernelLaunch_grid_size;
         i <= PB_GpuRenderStageEvent_ComputeKernelLaunch_workgroup_size; i++) {
        MESSAGE(size, GpuRenderStageEvent_Dim3, &part.at[i]);
        for (size_t k = PB_GpuRenderStageEvent_Dim3_x; k <= PB_GpuRenderStageEvent_Dim3_z; k++)
            if (field_present(&size.at[k]))
                stage_arg(args, arg_uint(keys[i][k], (uint32_t)field_u64(&size.at[k])));
    }
    compute_args(args, launch, PB_GpuRenderStageEvent_ComputeKernelLaunch_args);
}

static void extra_args(struct stage_args *args, const struct wire_field *message)
{
    for (struct fields each = fields_of(message, PB_GpuRenderStageEvent_extra_data);
         args->n < STAGE_ARGS_MAX / 2 && fields_next(&each);) {
        MESSAGE(part, GpuRenderStageEvent_ExtraData, &each.field);
        stage_arg(args, field_arg(key_keep(args->im, &part.name), &part.value));
    }
}

// Returns a list of the numbers of the set bits. Each number of the mask has 64 bits.
static struct slice_name subpasses_name(struct import *im, const struct wire_field *message)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct values masks = values_of(message, PB_GpuRenderStageEvent_render_subpass_index_mask);
    uint64_t mask;
    for (unsigned base = 0; base < SUBPASSES_MAX && values_next(&masks, &mask); base += 64)
        for (unsigned bit = 0; bit < 64; bit++)
            if (mask >> bit & 1)
                strbuf_addf(&text, "%s%u", text.size ? "," : "", base + bit);
    return slice_name_of(&im->strings, import_strbuf_keep(im, &text));
}

static void event_args(struct stage_args *args, const struct render_stages *stages,
                       const struct wire_field *message,
                       const union message_GpuRenderStageEvent *event, const struct queue *queue,
                       int64_t upid)
{
    static const struct {
        uint32_t field;
        const char *key, *name_key;
        enum vulkan_object type;
    } objects[] = {
        {PB_GpuRenderStageEvent_render_target_handle, "render_target", "render_target_name",
         VULKAN_FRAMEBUFFER},
        {PB_GpuRenderStageEvent_render_pass_handle, "render_pass", "render_pass_name",
         VULKAN_RENDER_PASS},
        {PB_GpuRenderStageEvent_command_buffer_handle, "command_buffer", "command_buffer_name",
         VULKAN_COMMAND_BUFFER},
    };
    struct import *im = args->im;
    stage_args_read(args, stages, event);
    stage_arg(args, arg_uint("context_id", field_u64(&event->context)));
    for (size_t i = 0; i < ELEMENTS(objects); i++) {
        uint64_t handle = field_u64(&event->at[objects[i].field]);
        stage_arg(args, arg_uint(objects[i].key, handle));
        stage_arg(args,
                  arg_name(objects[i].name_key, vulkan_object_name(im, objects[i].type, handle)));
    }
    stage_arg(args, arg_name("render_subpasses", subpasses_name(im, message)));
    stage_arg(args, arg_int("submission_id", (uint32_t)field_u64(&event->submission_id)));
    stage_arg(args, arg_uint("hw_queue_id", queue->id));
    stage_arg(args, arg_int("upid", upid));
    if (field_u64(&event->render_pass_instance_id))
        stage_arg(args,
                  arg_name("correlation_id", import_text(im, "rp:#%llu",
                                                         (unsigned long long)field_u64(
                                                             &event->render_pass_instance_id))));
    extra_args(args, message);
    kernel_args(args, event);
    launch_args(args, &event->launch);
}

static void stage_add(struct import *im, struct render_stages *stages, const struct packet *packet,
                      const struct wire_field *message,
                      const union message_GpuRenderStageEvent *event, const struct queue *queue)
{
    uint32_t gpu = (uint32_t)field_u64(&event->gpu_id);
    int64_t dur = field_i64(&event->duration);
    int64_t upid = processes_process(&im->processes, pid_of(packet, event));
    struct track_spec tracks = queue_tracks(im, gpu, queue);
    struct stage_args args = {.im = im, .packet = packet};
    event_args(&args, stages, message, event, queue, upid);
    struct slice_spec spec = {
        .ts = packet->ts,
        .dur = dur,
        .track = async_track_span(&im->async_tracks, &tracks, packet->ts, dur),
        .name = stage_name(im, stages, packet, event),
        .args = args.items,
        .n_args = args.n,
    };
    if (queue->text.size)
        track_explain(im, spec.track, &queue->text);
    int64_t slice = slice_add(&im->slices, &spec);
    if (slice == SLICE_NONE)
        return;
    gpu_event_add(im, field_u64(&event->event_id), GPU_EVENT_RAN, slice);
    struct values waits = values_of(message, PB_GpuRenderStageEvent_event_wait_ids);
    uint64_t number;
    for (size_t n = 0; n < WAITS_MAX && values_next(&waits, &number); n++)
        gpu_event_add(im, number, GPU_EVENT_FOLLOWED, slice);
}

static void stages_now(struct import *im, const struct packet *packet)
{
    (void)packet;
    gpu_events_of(im)->is_used = true;
}

static void stages_sorted(struct import *im, const struct packet *packet)
{
    struct render_stages *stages = packet->own;
    MESSAGE(event, GpuRenderStageEvent, packet->message);
    uint32_t gpu = (uint32_t)field_u64(&event.gpu_id);
    specifications_read(im, stages, gpu, &event.specifications);
    struct queue queue;
    if (field_present(&event.event_id) && queue_of(im, stages, packet, &event, &queue))
        stage_add(im, stages, packet, packet->message, &event, &queue);
}

struct gpu_events *gpu_events_of(const struct import *im)
{
    return &((struct render_stages *)importer_state(im, &importer_render_stages))->events;
}

static void stages_done(void *state)
{
    struct render_stages *stages = state;
    described_vec_done(&stages->queues);
    described_vec_done(&stages->stages);
    gpu_events_done(&stages->events);
    map64_done(&stages->unnamed);
}

const struct importer importer_render_stages = {
    .field = PB_TracePacket_gpu_render_stage_event,
    .now = stages_now,
    .sorted = stages_sorted,
    .state_size = sizeof(struct render_stages),
    .done = stages_done,
};
