// SPDX-License-Identifier: Apache-2.0
//
// Commands of a guest for the GPU of its host.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

struct virtio_gpu {
    struct map64 commands; // queue and number -> time of sending (ns)
};

static const char *command_name(uint32_t type)
{
    static const char *const names_2d[] = {
        "GET_DISPLAY_INFO",
        "RESOURCE_CREATE_2D",
        "RESOURCE_UNREF",
        "SET_SCANOUT",
        "RESOURCE_FLUSH",
        "TRANSFER_TO_HOST_2D",
        "RESOURCE_ATTACH_BACKING",
        "RESOURCE_DETACH_BACKING",
        "GET_CAPSET_INFO",
        "GET_CAPSET",
        "GET_EDID",
        "RESOURCE_ASSIGN_UUID",
        "RESOURCE_CREATE_BLOB",
        "SET_SCANOUT_BLOB",
    };
    static const char *const names_3d[] = {
        "CTX_CREATE",         "CTX_DESTROY",         "CTX_ATTACH_RESOURCE",   "CTX_DETACH_RESOURCE",
        "RESOURCE_CREATE_3D", "TRANSFER_TO_HOST_3D", "TRANSFER_FROM_HOST_3D", "SUBMIT_3D",
        "RESOURCE_MAP_BLOB",  "RESOURCE_UNMAP_BLOB",
    };
    static const char *const names_cursor[] = {"UPDATE_CURSOR", "MOVE_CURSOR"};
    static const struct {
        uint32_t first;
        size_t n;
        const char *const *names;
    } groups[] = {
        {0x100, ELEMENTS(names_2d), names_2d},
        {0x200, ELEMENTS(names_3d), names_3d},
        {0x300, ELEMENTS(names_cursor), names_cursor},
    };
    for (size_t i = 0; i < ELEMENTS(groups); i++)
        if (type >= groups[i].first && type - groups[i].first < groups[i].n)
            return groups[i].names[type - groups[i].first];
    return "";
}

// Returns "Control" or "Cursor", from the event's name; NULL: another queue.
static const char *virtual_queue(const struct ftrace_event *event)
{
    struct slice_name name = ftrace_text(event, "name");
    return name_is(name, "control") ? "Control" : name_is(name, "cursor") ? "Cursor" : NULL;
}

// Returns the tracks of a queue, such as "Virtgpu Control Free".
static struct track_spec virtual_tracks(struct import *im, const char *type, const char *queue,
                                        const char *what)
{
    return (struct track_spec){
        .type = type,
        .dimensions = {dimension_text("virtgpu_name", queue, strlen(queue))},
        .name = import_text(im, "Virtgpu %s %s", queue, what),
    };
}

static void virtual_counter(struct import *im, int64_t ts, const char *type, const char *queue,
                            const char *what, double value)
{
    struct track_spec track = virtual_tracks(im, type, queue, what);
    track.counter = true;
    counter_push(im, ts, tracks_get(&im->tracks, &track), value, ARG_SET_NONE);
}

// A command that enters or leaves a queue.
struct command {
    const char *queue;
    uint32_t number;
    struct track_spec tracks;
};

// Reads a command, and adds a value to the counter of free entries. False: the queue is unknown.
static bool command_read(struct import *im, const struct ftrace_event *event, struct command *ret)
{
    const char *queue = virtual_queue(event);
    if (!queue)
        return false;
    virtual_counter(im, event->ts, "virtgpu_num_free", queue, "Free",
                    (uint32_t)ftrace_int(event, "num_free"));
    *ret = (struct command){
        .queue = queue,
        .number = (uint32_t)ftrace_int(event, "seqno"),
        .tracks = virtual_tracks(im, "virtgpu_queue_event", queue, "Queue"),
    };
    return true;
}

static uint64_t command_key(const struct command *command)
{
    return (uint64_t)(command->queue[1] == 'u') << 32 | command->number; // "Cursor" or "Control"
}

static void virtio_gpu_cmd_queue(struct import *im, const struct ftrace_event *event)
{
    struct virtio_gpu *gpu = event->own;
    struct command command;
    if (!command_read(im, event, &command))
        return;
    struct slice_spec spec = {
        .ts = event->ts,
        .track = async_track_begin(&im->async_tracks, &command.tracks, command.number, false),
        .name = slice_name(command_name((uint32_t)ftrace_int(event, "type"))),
    };
    slice_begin(&im->slices, &spec);
    // A host may delay the answer to a command with a fence, so commands with a fence have no
    // latency.
    if (!ftrace_int(event, "fence_id"))
        import_fail(im, map64_set(&gpu->commands, command_key(&command), (uint64_t)event->ts));
}

static void virtio_gpu_cmd_response(struct import *im, const struct ftrace_event *event)
{
    struct virtio_gpu *gpu = event->own;
    struct command command;
    if (!command_read(im, event, &command))
        return;
    slice_close(&im->slices, event->ts,
                async_track_end(&im->async_tracks, &command.tracks, command.number));
    uint64_t key = command_key(&command);
    const uint64_t *begin = map64_find(&gpu->commands, key);
    if (!begin)
        return;
    virtual_counter(im, event->ts, "virtgpu_latency", command.queue, "Latency",
                    (double)(int64_t)((uint64_t)event->ts - *begin));
    map64_remove(&gpu->commands, key);
}

static const struct ftrace_form forms[] = {
    {"virtio_gpu_cmd_queue", FORM_CALL(virtio_gpu_cmd_queue)},
    {"virtio_gpu_cmd_response", FORM_CALL(virtio_gpu_cmd_response)},
    {0},
};

const struct ftrace_subject ftrace_virtio_gpu = {
    .forms = forms,
    .state_size = sizeof(struct virtio_gpu),
    .n_maps = 1,
};
