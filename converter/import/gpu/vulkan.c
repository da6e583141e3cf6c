// SPDX-License-Identifier: Apache-2.0
//
// Events of a Vulkan layer: memory that is allocated and bound, queue submissions, and a program's
// names for its objects, which are args of render stages.
#include "converter/import/gpu/gpu.h"

#include <errno.h>
#include <stdio.h>

#include "common/elements.h"
#include "converter/import/arg_writer.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define ANNOTATIONS_MAX 64  // of one event
#define BUFFERS_MAX     256 // of one submission
#define N_SCOPES        6

static const char *const sources[] = {"UNSPECIFIED",       "DRIVER",     "DEVICE",
                                      "GPU_DEVICE_MEMORY", "GPU_BUFFER", "GPU_IMAGE"};
static const char *const operations[] = {"UNSPECIFIED", "CREATE",        "DESTROY",
                                         "BIND",        "DESTROY_BOUND", "ANNOTATIONS"};
static const char *const scopes[N_SCOPES] = {"UNSPECIFIED", "COMMAND", "OBJECT",
                                             "CACHE",       "DEVICE",  "INSTANCE"};

// Sums of bytes over all processes.
struct memory {
    uint64_t driver[N_SCOPES];
    struct map64 allocated, bound; // by type of memory
};

static const char *word(const char *const *words, const struct wire_field *field)
{
    return field_u64(field) < N_SCOPES ? words[field_u64(field)] : words[0];
}

// Returns the sign of an operation in a sum: 1, -1, or 0 for other operations.
static int sign_of(uint64_t operation, uint64_t more, uint64_t less)
{
    return operation == more ? 1 : operation == less ? -1 : 0;
}

static void sum_push(struct import *im, int64_t ts, int64_t upid, const char *type,
                     struct track_dimension dimension, const char *name, uint64_t sum)
{
    struct track_spec spec = {
        .type = type,
        .counter = true,
        .dimensions = {dimension_int("upid", upid), dimension},
        .name = slice_name(name),
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), (double)(int64_t)sum, ARG_SET_NONE);
}

static void driver_push(struct import *im, struct memory *memory, int64_t upid,
                        const union message_VulkanMemoryEvent *event)
{
    uint64_t scope = field_u64(&event->allocation_scope);
    int sign = sign_of(field_u64(&event->operation), PB_OP_CREATE, PB_OP_DESTROY);
    if (!scope || scope >= N_SCOPES || !sign)
        return;
    memory->driver[scope] += (uint64_t)sign * field_u64(&event->memory_size);
    char name[64];
    snprintf(name, sizeof(name), "vulkan.mem.driver.scope.%s", scopes[scope]);
    sum_push(im, field_i64(&event->timestamp), upid, "vulkan_driver_mem",
             dimension_text("vulkan_allocation_scope", scopes[scope], strlen(scopes[scope])), name,
             memory->driver[scope]);
}

static void device_push(struct import *im, struct memory *memory, int64_t upid,
                        const union message_VulkanMemoryEvent *event)
{
    uint64_t operation = field_u64(&event->operation);
    bool is_bind = field_u64(&event->source) != PB_SOURCE_DEVICE_MEMORY, is_new;
    int sign = is_bind ? sign_of(operation, PB_OP_BIND, PB_OP_DESTROY_BOUND)
                       : sign_of(operation, PB_OP_CREATE, PB_OP_DESTROY);
    uint32_t type = (uint32_t)field_u64(&event->memory_type);
    if (!sign)
        return;
    uint64_t *sum =
        import_map_get(im, is_bind ? &memory->bound : &memory->allocated, type, 0, &is_new);
    if (!sum)
        return;
    *sum += (uint64_t)sign * field_u64(&event->memory_size);
    char name[80];
    snprintf(name, sizeof(name), "vulkan.mem.device.memory.type.%u.%s", type,
             is_bind ? "bind" : "allocation");
    sum_push(im, field_i64(&event->timestamp), upid,
             is_bind ? "vulkan_device_mem_bind" : "vulkan_device_mem_allocation",
             dimension_int("vulkan_memory_type", type), name, *sum);
}

static void sums_push(struct import *im, struct memory *memory, int64_t upid,
                      const union message_VulkanMemoryEvent *event)
{
    uint64_t source = field_u64(&event->source);
    if (source == PB_SOURCE_DRIVER)
        driver_push(im, memory, upid, event);
    else if (source == PB_SOURCE_DEVICE_MEMORY || source == PB_SOURCE_BUFFER ||
             source == PB_SOURCE_IMAGE)
        device_push(im, memory, upid, event);
}

static bool memory_text(struct import *im, const struct packet *packet, uint32_t table,
                        uint64_t iid, struct wire_field *ret)
{
    bool found = interned_text(packet->state, table, iid, ret);
    if (!found)
        stats_add(&im->stats, STAT_vulkan_allocations_invalid_string_id, 1);
    return found;
}

static int64_t annotations_read(struct import *im, const struct packet *packet,
                                const struct wire_field *event)
{
    struct arg args[ANNOTATIONS_MAX];
    size_t n = 0;
    struct wire_field key, text;
    for (struct fields each = fields_of(event, PB_VulkanMemoryEvent_annotations);
         n < ANNOTATIONS_MAX && fields_next(&each);) {
        MESSAGE(part, VulkanMemoryEventAnnotation, &each.field);
        if (!memory_text(im, packet, PB_InternedData_vulkan_memory_keys, field_u64(&part.key_iid),
                         &key))
            continue;
        uint32_t id = strset_add(&im->strings, field_text(&key), key.size);
        const char *name = strset_text(&im->strings, id);
        if (!name)
            continue;
        if (field_present(&part.int_value))
            ARG_APPEND(args, n, arg_int(name, field_i64(&part.int_value)));
        else if (field_present(&part.double_value))
            ARG_APPEND(args, n, arg_real(name, field_double(&part.double_value)));
        else if (field_present(&part.string_iid) &&
                 memory_text(im, packet, PB_InternedData_vulkan_memory_keys,
                             field_u64(&part.string_iid), &text))
            ARG_APPEND(args, n, arg_text(name, text.data, text.size));
    }
    return args_add(&im->args, args, n);
}

static void memory_sorted(struct import *im, const struct packet *packet)
{
    static const struct {
        uint32_t field;
        size_t column;
    } numbers[] = {
        {PB_VulkanMemoryEvent_device, COL_vulkan_memory_allocations_device},
        {PB_VulkanMemoryEvent_device_memory, COL_vulkan_memory_allocations_device_memory},
        {PB_VulkanMemoryEvent_memory_type, COL_vulkan_memory_allocations_memory_type},
        {PB_VulkanMemoryEvent_heap, COL_vulkan_memory_allocations_heap},
        {PB_VulkanMemoryEvent_object_handle, COL_vulkan_memory_allocations_object_handle},
        {PB_VulkanMemoryEvent_memory_address, COL_vulkan_memory_allocations_memory_address},
        {PB_VulkanMemoryEvent_memory_size, COL_vulkan_memory_allocations_memory_size},
    };
    MESSAGE(event, VulkanMemoryEvent, packet->message);
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&event.pid));
    sums_push(im, packet->own, upid, &event);
    int64_t set = annotations_read(im, packet, packet->message);
    struct wire_field caller = {0};
    if (field_present(&event.caller_iid))
        memory_text(im, packet, PB_InternedData_function_names, field_u64(&event.caller_iid),
                    &caller);
    struct cell *row = database_row(im->db, TABLE_vulkan_memory_allocations, NULL);
    cell_arg_set(row, COL_vulkan_memory_allocations_arg_set_id, set);
    cell_text(row, COL_vulkan_memory_allocations_source, word(sources, &event.source));
    cell_text(row, COL_vulkan_memory_allocations_operation, word(operations, &event.operation));
    cell_int(row, COL_vulkan_memory_allocations_timestamp, field_i64(&event.timestamp));
    cell_int(row, COL_vulkan_memory_allocations_upid, upid);
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        if (field_present(&event.at[numbers[i].field]))
            cell_int(row, numbers[i].column, field_i64(&event.at[numbers[i].field]));
    cell_field(row, COL_vulkan_memory_allocations_function_name, &caller);
    if (field_present(&event.allocation_scope))
        cell_text(row, COL_vulkan_memory_allocations_scope, word(scopes, &event.allocation_scope));
}

static void memory_done(void *state)
{
    struct memory *memory = state;
    map64_done(&memory->allocated);
    map64_done(&memory->bound);
}

static const enum vulkan_object named_types[] = {VULKAN_COMMAND_BUFFER, VULKAN_RENDER_PASS,
                                                 VULKAN_FRAMEBUFFER};

// Names of objects of these types by their handles, in strings.
struct names {
    struct map64 by_handle[ELEMENTS(named_types)];
};

static struct map64 *names_of(struct import *im, int32_t type)
{
    struct names *names = importer_state(im, &importer_vulkan_api);
    for (size_t i = 0; i < ELEMENTS(named_types); i++)
        if ((int32_t)named_types[i] == type)
            return &names->by_handle[i];
    return NULL;
}

struct slice_name vulkan_object_name(struct import *im, enum vulkan_object type, uint64_t handle)
{
    const uint64_t *id = map64_find(names_of(im, (int32_t)type), handle);
    return slice_name_of(&im->strings, id ? (uint32_t)*id : STRSET_NONE);
}

static void object_name(struct import *im, const struct wire_field *message)
{
    MESSAGE(object, VulkanApiEvent_VkDebugUtilsObjectName, message);
    struct wire_field name = gpu_text(object.object_name);
    struct map64 *names = names_of(im, (int32_t)field_u64(&object.object_type));
    if (!names) // names of other types are not used
        return;
    uint32_t id = strset_add(&im->strings, field_text(&name), name.size);
    import_fail(im, id == STRSET_NONE ? -ENOMEM : map64_set(names, field_u64(&object.object), id));
}

static void submit_add(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(submit, VulkanApiEvent_VkQueueSubmit, message);
    struct arg args[BUFFERS_MAX + 4];
    size_t n = 0, n_buffers = 0;
    ARG_APPEND(args, n, arg_int("pid", (uint32_t)field_u64(&submit.pid)));
    ARG_APPEND(args, n, arg_int("tid", (uint32_t)field_u64(&submit.tid)));
    struct values buffers = values_of(message, PB_VulkanApiEvent_VkQueueSubmit_vk_command_buffers);
    uint64_t buffer;
    for (; n_buffers < BUFFERS_MAX && values_next(&buffers, &buffer); n_buffers++) {
        if (!n_buffers)
            ARG_APPEND(args, n, arg_uint("command_buffer", buffer));
        args[n] = arg_uint(import_text(im, "command_buffers[%zu]", n_buffers).text, buffer);
        args[n++].flat_key = "command_buffers";
    }
    ARG_APPEND(args, n, arg_int("submission_id", (uint32_t)field_u64(&submit.submission_id)));
    struct track_spec track = {.type = "vulkan_events", .name = slice_name("Vulkan Events")};
    struct slice_spec spec = {
        .ts = ts,
        .dur = field_i64(&submit.duration_ns),
        .track = tracks_get(&im->tracks, &track),
        .name = slice_name("vkQueueSubmit"),
        .args = args,
        .n_args = n,
    };
    slice_add(&im->slices, &spec);
}

static void api_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(event, VulkanApiEvent, packet->message);
    if (field_present(&event.vk_queue_submit))
        submit_add(im, packet->ts, &event.vk_queue_submit);
    if (field_present(&event.vk_debug_utils_object_name))
        object_name(im, &event.vk_debug_utils_object_name);
}

const struct importer importer_vulkan_memory = {
    .field = PB_TracePacket_vulkan_memory_event,
    .sorted = memory_sorted,
    .state_size = sizeof(struct memory),
    .done = memory_done,
};
static void names_done(void *state)
{
    struct names *names = state;
    for (size_t i = 0; i < ELEMENTS(names->by_handle); i++)
        map64_done(&names->by_handle[i]);
}

const struct importer importer_vulkan_api = {
    .field = PB_TracePacket_vulkan_api_event,
    .sorted = api_sorted,
    .state_size = sizeof(struct names),
    .done = names_done,
};
