// SPDX-License-Identifier: Apache-2.0
//
// What a Vulkan layer tells: memory that is allocated and bound, queue submissions, and the names
// that a program gives its objects, which stages of rendering are shown with.
#include "converter/import/gpu/gpu.h"

#include <errno.h>
#include <stdio.h>

#include "common/elements.h"
#include "converter/import/arg_writer.h"
#include "converter/import/importer.h"

enum { PACKET_MEMORY = 62, PACKET_API = 65 };
enum { INTERNED_FUNCTION_NAMES = 5, INTERNED_MEMORY_KEYS = 22 };
enum {
    MEMORY_SOURCE = 1,
    MEMORY_OPERATION,
    MEMORY_TIMESTAMP,
    MEMORY_PID,
    MEMORY_ADDRESS,
    MEMORY_SIZE,
    MEMORY_CALLER,
    MEMORY_SCOPE,
    MEMORY_ANNOTATION,
    MEMORY_DEVICE = 16,
    MEMORY_DEVICE_MEMORY,
    MEMORY_TYPE,
    MEMORY_HEAP,
    MEMORY_OBJECT
};
enum { ANNOTATION_KEY = 1, ANNOTATION_INT, ANNOTATION_DOUBLE, ANNOTATION_TEXT };
enum { SOURCE_DRIVER = 1, SOURCE_DEVICE_MEMORY = 3, SOURCE_BUFFER, SOURCE_IMAGE };
enum { OPERATION_CREATE = 1, OPERATION_DESTROY, OPERATION_BIND, OPERATION_DESTROY_BOUND };
enum { API_OBJECT_NAME = 1, API_QUEUE_SUBMIT };
enum { OBJECT_TYPE = 3, OBJECT_HANDLE, OBJECT_NAME };
enum { SUBMIT_DURATION = 1, SUBMIT_PID, SUBMIT_TID, SUBMIT_BUFFER = 5, SUBMIT_ID };

#define ANNOTATIONS_MAX 64  // of one event
#define BUFFERS_MAX     256 // of one submission
#define N_SCOPES        6

static const char *const sources[] = {"UNSPECIFIED",       "DRIVER",     "DEVICE",
                                      "GPU_DEVICE_MEMORY", "GPU_BUFFER", "GPU_IMAGE"};
static const char *const operations[] = {"UNSPECIFIED", "CREATE",        "DESTROY",
                                         "BIND",        "DESTROY_BOUND", "ANNOTATIONS"};
static const char *const scopes[N_SCOPES] = {"UNSPECIFIED", "COMMAND", "OBJECT",
                                             "CACHE",       "DEVICE",  "INSTANCE"};

// Bytes, of all processes together.
struct memory {
    uint64_t driver[N_SCOPES];
    struct map64 allocated, bound; // by type of memory
};

static const char *word(const char *const *words, const struct wire_field *field)
{
    return field_u64(field) < N_SCOPES ? words[field_u64(field)] : words[0];
}

// What an operation does to a sum: 1, -1 or, if it is about something else, 0.
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
        .name = name,
        .name_size = strlen(name),
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), (double)(int64_t)sum, ARG_SET_NONE);
}

static void driver_push(struct import *im, struct memory *memory, int64_t upid,
                        const struct wire_field *event)
{
    uint64_t scope = field_u64(&event[MEMORY_SCOPE]);
    int sign = sign_of(field_u64(&event[MEMORY_OPERATION]), OPERATION_CREATE, OPERATION_DESTROY);
    if (!scope || scope >= N_SCOPES || !sign)
        return;
    memory->driver[scope] += (uint64_t)sign * field_u64(&event[MEMORY_SIZE]);
    char name[64];
    snprintf(name, sizeof(name), "vulkan.mem.driver.scope.%s", scopes[scope]);
    sum_push(im, field_i64(&event[MEMORY_TIMESTAMP]), upid, "vulkan_driver_mem",
             dimension_text("vulkan_allocation_scope", scopes[scope], strlen(scopes[scope])), name,
             memory->driver[scope]);
}

static int device_push(struct import *im, struct memory *memory, int64_t upid,
                       const struct wire_field *event)
{
    uint64_t operation = field_u64(&event[MEMORY_OPERATION]);
    bool is_bind = field_u64(&event[MEMORY_SOURCE]) != SOURCE_DEVICE_MEMORY, is_new;
    int sign = is_bind ? sign_of(operation, OPERATION_BIND, OPERATION_DESTROY_BOUND)
                       : sign_of(operation, OPERATION_CREATE, OPERATION_DESTROY);
    uint32_t type = (uint32_t)field_u64(&event[MEMORY_TYPE]);
    if (!sign)
        return 0;
    uint64_t *sum =
        map64_get_or_add(is_bind ? &memory->bound : &memory->allocated, type, 0, &is_new);
    if (!sum)
        return -ENOMEM;
    *sum += (uint64_t)sign * field_u64(&event[MEMORY_SIZE]);
    char name[80];
    snprintf(name, sizeof(name), "vulkan.mem.device.memory.type.%u.%s", type,
             is_bind ? "bind" : "allocation");
    sum_push(im, field_i64(&event[MEMORY_TIMESTAMP]), upid,
             is_bind ? "vulkan_device_mem_bind" : "vulkan_device_mem_allocation",
             dimension_int("vulkan_memory_type", type), name, *sum);
    return 0;
}

static int sums_push(struct import *im, struct memory *memory, int64_t upid,
                     const struct wire_field *event)
{
    switch (field_u64(&event[MEMORY_SOURCE])) {
    case SOURCE_DRIVER:
        driver_push(im, memory, upid, event);
        return 0;
    case SOURCE_DEVICE_MEMORY:
    case SOURCE_BUFFER:
    case SOURCE_IMAGE:
        return device_push(im, memory, upid, event);
    default:
        return 0;
    }
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
    struct wire_reader reader = wire_sub(event);
    struct wire_field field, key, text;
    while (n < ANNOTATIONS_MAX && wire_next(&reader, &field)) {
        if (field.number != MEMORY_ANNOTATION)
            continue;
        MESSAGE(part, ANNOTATION_TEXT, &field);
        if (!memory_text(im, packet, INTERNED_MEMORY_KEYS, field_u64(&part[ANNOTATION_KEY]), &key))
            continue;
        uint32_t id = strset_add(&im->strings, field_text(&key), key.size);
        const char *name = strset_text(&im->strings, id);
        if (!name)
            continue;
        if (field_present(&part[ANNOTATION_INT]))
            args[n++] = arg_int(name, field_i64(&part[ANNOTATION_INT]));
        else if (field_present(&part[ANNOTATION_DOUBLE]))
            args[n++] = (struct arg){
                .key = name, .real = field_double(&part[ANNOTATION_DOUBLE]), .type = ARG_REAL};
        else if (field_present(&part[ANNOTATION_TEXT]) &&
                 memory_text(im, packet, INTERNED_MEMORY_KEYS, field_u64(&part[ANNOTATION_TEXT]),
                             &text))
            args[n++] = arg_text(name, text.data, text.size);
    }
    return args_add(&im->args, args, n);
}

static int memory_sorted(struct import *im, void *state, const struct packet *packet,
                         const struct wire_field *message)
{
    static const struct {
        uint32_t field;
        size_t column;
    } numbers[] = {
        {MEMORY_DEVICE, COL_vulkan_memory_allocations_device},
        {MEMORY_DEVICE_MEMORY, COL_vulkan_memory_allocations_device_memory},
        {MEMORY_TYPE, COL_vulkan_memory_allocations_memory_type},
        {MEMORY_HEAP, COL_vulkan_memory_allocations_heap},
        {MEMORY_OBJECT, COL_vulkan_memory_allocations_object_handle},
        {MEMORY_ADDRESS, COL_vulkan_memory_allocations_memory_address},
        {MEMORY_SIZE, COL_vulkan_memory_allocations_memory_size},
    };
    MESSAGE(event, MEMORY_OBJECT, message);
    int64_t upid = processes_process(&im->processes, (uint32_t)field_u64(&event[MEMORY_PID]));
    int r = sums_push(im, state, upid, event);
    int64_t set = annotations_read(im, packet, message);
    struct wire_field caller = {0};
    if (field_present(&event[MEMORY_CALLER]))
        memory_text(im, packet, INTERNED_FUNCTION_NAMES, field_u64(&event[MEMORY_CALLER]), &caller);
    struct cell *row = database_row(im->db, TABLE_vulkan_memory_allocations, NULL);
    cell_arg_set(row, COL_vulkan_memory_allocations_arg_set_id, set);
    cell_text(row, COL_vulkan_memory_allocations_source, word(sources, &event[MEMORY_SOURCE]));
    cell_text(row, COL_vulkan_memory_allocations_operation,
              word(operations, &event[MEMORY_OPERATION]));
    cell_int(row, COL_vulkan_memory_allocations_timestamp, field_i64(&event[MEMORY_TIMESTAMP]));
    cell_int(row, COL_vulkan_memory_allocations_upid, upid);
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        if (field_present(&event[numbers[i].field]))
            cell_int(row, numbers[i].column, field_i64(&event[numbers[i].field]));
    cell_field(row, COL_vulkan_memory_allocations_function_name, &caller);
    if (field_present(&event[MEMORY_SCOPE]))
        cell_text(row, COL_vulkan_memory_allocations_scope, word(scopes, &event[MEMORY_SCOPE]));
    return r;
}

static void memory_done(void *state)
{
    struct memory *memory = state;
    map64_done(&memory->allocated);
    map64_done(&memory->bound);
}

static struct map64 *names_of(struct import *im, int32_t type)
{
    switch (type) {
    case VULKAN_COMMAND_BUFFER:
        return &im->machine->vulkan_names[0];
    case VULKAN_RENDER_PASS:
        return &im->machine->vulkan_names[1];
    case VULKAN_FRAMEBUFFER:
        return &im->machine->vulkan_names[2];
    default:
        return NULL;
    }
}

struct slice_name vulkan_object_name(struct import *im, enum vulkan_object type, uint64_t handle)
{
    const uint64_t *id = map64_find(names_of(im, (int32_t)type), handle);
    const struct strset_entry *name = id ? &im->strings.entries[*id] : NULL;
    return name ? (struct slice_name){name->text, name->size} : (struct slice_name){0};
}

static int object_name(struct import *im, const struct wire_field *message)
{
    MESSAGE(object, OBJECT_NAME, message);
    struct wire_field name = gpu_text(object[OBJECT_NAME]);
    struct map64 *names = names_of(im, (int32_t)field_u64(&object[OBJECT_TYPE]));
    if (!names) // of no kind that anything is shown with
        return 0;
    uint32_t id = strset_add(&im->strings, field_text(&name), name.size);
    return id == STRSET_NONE ? -ENOMEM : map64_set(names, field_u64(&object[OBJECT_HANDLE]), id);
}

static void submit_add(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(submit, SUBMIT_ID, message);
    struct arg args[BUFFERS_MAX + 4];
    size_t n = 0, n_buffers = 0;
    args[n++] = arg_int("pid", (uint32_t)field_u64(&submit[SUBMIT_PID]));
    args[n++] = arg_int("tid", (uint32_t)field_u64(&submit[SUBMIT_TID]));
    struct values buffers = values_of(message, SUBMIT_BUFFER);
    uint64_t buffer;
    for (; n_buffers < BUFFERS_MAX && values_next(&buffers, &buffer); n_buffers++) {
        char key[48];
        snprintf(key, sizeof(key), "command_buffers[%zu]", n_buffers);
        uint32_t id = strset_add(&im->strings, key, strlen(key));
        if (id == STRSET_NONE)
            break;
        if (!n_buffers)
            args[n++] = arg_uint("command_buffer", buffer);
        args[n] = arg_uint(strset_text(&im->strings, id), buffer);
        args[n++].flat_key = "command_buffers";
    }
    args[n++] = arg_int("submission_id", (uint32_t)field_u64(&submit[SUBMIT_ID]));
    struct track_spec track = {
        .type = "vulkan_events", .name = "Vulkan Events", .name_size = strlen("Vulkan Events")};
    struct slice_spec spec = {
        .ts = ts,
        .dur = field_i64(&submit[SUBMIT_DURATION]),
        .track = tracks_get(&im->tracks, &track),
        .name = slice_name("vkQueueSubmit"),
        .args = args,
        .n_args = n,
    };
    slice_add(&im->slices, &spec);
}

static int api_sorted(struct import *im, void *state, const struct packet *packet,
                      const struct wire_field *message)
{
    (void)state;
    MESSAGE(event, API_QUEUE_SUBMIT, message);
    if (field_present(&event[API_QUEUE_SUBMIT]))
        submit_add(im, packet->ts, &event[API_QUEUE_SUBMIT]);
    return field_present(&event[API_OBJECT_NAME]) ? object_name(im, &event[API_OBJECT_NAME]) : 0;
}

const struct importer importer_vulkan_memory = {
    .field = PACKET_MEMORY,
    .sorted = memory_sorted,
    .state_size = sizeof(struct memory),
    .done = memory_done,
};
const struct importer importer_vulkan_api = {.field = PACKET_API, .sorted = api_sorted};
