// SPDX-License-Identifier: Apache-2.0
//
// GraphicsFrameEvent: the life of graphics buffers. Each buffer of a layer has a track of its
// events and tracks of its phases: the application draws (APP), the GPU finishes (GPU), the
// compositor works (SF), the layer's frame is on the screen (Display).
#include <errno.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define NAME_MAX_SIZE 1023 // bytes of the name of a phase's track, as in Perfetto

enum phase { PHASE_NONE, PHASE_APP, PHASE_GPU, PHASE_SF };

// A buffer of a layer.
struct buffer {
    int64_t acquire_ts, queue_ts, latch_ts;
    enum phase phase; // the open phase
    uint32_t track;   // of the phase
    int64_t dequeue_ts, last_acquire_ts;
    bool was_acquired;
};
VEC_DEFINE(buffer_vec, struct buffer);

struct frames {
    struct strset keys; // buffer and layer; ids are indexes in buffers
    struct buffer_vec buffers;
    struct map64 displays; // layer, in strings -> track of the layer's frame on the screen
    struct strbuf name;
};

struct buffer_event {
    int64_t ts;
    uint32_t type, frame, id;
    bool has_type;
    int64_t dur;
    struct wire_field layer;
    struct slice_name layer_name; // for the track's name
};

static uint32_t frames_track(struct import *im, const char *name, size_t size)
{
    struct track_spec spec = {
        .type = "graphics_frame_event",
        .dimensions = {dimension_text("name", name, size)},
        .name = {name, size},
    };
    return tracks_get(&im->tracks, &spec);
}

// Returns the track with a name of `word`, the buffer (if `of_buffer`) and the layer.
static uint32_t phase_track(struct import *im, struct frames *frames, const char *word,
                            bool of_buffer, const struct buffer_event *event)
{
    struct strbuf *name = &frames->name;
    strbuf_clear(name);
    strbuf_add_str(name, word);
    if (of_buffer)
        strbuf_addf(name, "%u ", event->id);
    strbuf_add(name, field_text(&event->layer), event->layer.size);
    return frames_track(im, name->text, name->size < NAME_MAX_SIZE ? name->size : NAME_MAX_SIZE);
}

static void event_add(struct import *im, struct frames *frames, const struct buffer_event *event,
                      const struct buffer *buffer)
{
    static const char *const types[] = {
        "unspecified_event",
        "Dequeue",
        "Queue",
        "Post",
        "AcquireFenceSignaled",
        "Latch",
        "HWCCompositionQueued",
        "FallbackComposition",
        "PresentFenceSignaled",
        "ReleaseFenceSignaled",
        "Modify",
        "Detach",
        "Attach",
        "Cancel",
    };
    int64_t wait = (int64_t)((uint64_t)buffer->acquire_ts - (uint64_t)buffer->queue_ts);
    struct arg args[] = {
        arg_int("frame_number", event->frame),
        arg_name("layer_name", event->layer_name),
        arg_int("queue_to_acquire_time", wait > 0 ? wait : 0),
        arg_int("acquire_to_latch_time",
                (int64_t)((uint64_t)buffer->latch_ts - (uint64_t)buffer->acquire_ts)),
        arg_int("latch_to_present_time",
                (int64_t)((uint64_t)event->ts - (uint64_t)buffer->latch_ts)),
    };
    struct slice_spec spec = {
        .ts = event->ts,
        .dur = event->dur,
        .track = phase_track(im, frames, "Buffer: ", true, event),
        .name = slice_name(event->has_type && event->type < ELEMENTS(types) ? types[event->type]
                                                                            : "unknown_event"),
        .args = args,
        .n_args = 5,
    };
    slice_add(&im->slices, &spec);
}

// Begins a phase. The name of a phase is its frame's number, or its start if the frame is not
// known.
static void phase_begin(struct import *im, const struct buffer_event *event, uint32_t track)
{
    struct arg args[] = {arg_int("frame_number", event->frame),
                         arg_name("layer_name", event->layer_name)};
    struct slice_spec spec = {
        .ts = event->ts,
        .track = track,
        .name =
            import_text(im, "%lld", event->frame ? (long long)event->frame : (long long)event->ts),
        .args = args,
        .n_args = 2,
    };
    slice_begin(&im->slices, &spec);
}

// Names the application's phase after its frame.
static void app_name(struct import *im, const struct buffer *buffer, uint32_t frame)
{
    struct arg arg = arg_int("frame_number", frame);
    struct slice_spec spec = {.track = buffer->track, .args = &arg, .n_args = 1};
    slice_add_args(&im->slices, &spec);
    slice_rename(&im->slices, buffer->track, import_text(im, "%u", frame));
}

static void buffer_dequeued(struct import *im, struct frames *frames,
                            const struct buffer_event *event, struct buffer *buffer)
{
    if (buffer->phase == PHASE_APP) // the buffer was never queued
        app_name(im, buffer, 0);
    buffer->phase = PHASE_APP;
    buffer->track = phase_track(im, frames, "APP_", true, event);
    buffer->dequeue_ts = event->ts;
    phase_begin(im, event, buffer->track);
}

static void buffer_queued(struct import *im, struct frames *frames,
                          const struct buffer_event *event, struct buffer *buffer)
{
    if (buffer->phase == PHASE_APP) {
        app_name(im, buffer, event->frame);
        slice_close(&im->slices, event->ts, buffer->track);
        buffer->phase = PHASE_NONE;
        if (buffer->was_acquired && buffer->last_acquire_ts > buffer->dequeue_ts)
            return; // the GPU has finished already
    }
    buffer->phase = PHASE_GPU;
    buffer->track = phase_track(im, frames, "GPU_", true, event);
    phase_begin(im, event, buffer->track);
}

static void buffer_acquired(struct import *im, const struct buffer_event *event,
                            struct buffer *buffer)
{
    if (buffer->phase == PHASE_GPU) {
        slice_close(&im->slices, event->ts, buffer->track);
        buffer->phase = PHASE_NONE;
    }
    buffer->was_acquired = true;
    buffer->last_acquire_ts = event->ts;
}

static void buffer_latched(struct import *im, struct frames *frames,
                           const struct buffer_event *event, struct buffer *buffer)
{
    if (buffer->phase == PHASE_APP) // the queue event is missing
        app_name(im, buffer, 0);
    buffer->phase = PHASE_SF;
    buffer->track = phase_track(im, frames, "SF_", true, event);
    phase_begin(im, event, buffer->track);
}

static void buffer_presented(struct import *im, struct frames *frames,
                             const struct buffer_event *event, struct buffer *buffer)
{
    if (buffer->phase == PHASE_SF) {
        slice_close(&im->slices, event->ts, buffer->track);
        buffer->phase = PHASE_NONE;
    }
    uint32_t layer = strset_add(&im->strings, event->layer_name.text, event->layer_name.size);
    const uint64_t *shown = map64_find(&frames->displays, layer);
    if (shown)
        slice_close(&im->slices, event->ts, (uint32_t)*shown);
    uint32_t track = phase_track(im, frames, "Display_", false, event);
    phase_begin(im, event, track);
    import_fail(im, layer == STRSET_NONE ? -ENOMEM : map64_set(&frames->displays, layer, track));
}

static struct buffer *buffer_get(struct frames *frames, const struct buffer_event *event)
{
    struct strbuf *key = &frames->name;
    strbuf_clear(key);
    strbuf_addf(key, "%u %d", event->id, field_present(&event->layer));
    strbuf_add(key, field_text(&event->layer), event->layer.size);
    uint32_t id = key->failed ? STRSET_NONE : strset_add(&frames->keys, key->text, key->size);
    if (id == STRSET_NONE ||
        (id == frames->buffers.n && buffer_vec_push(&frames->buffers, (struct buffer){0}) < 0))
        return NULL;
    return &frames->buffers.items[id];
}

static void event_read(struct import *im, struct frames *frames, const struct buffer_event *event)
{
    struct buffer *buffer = buffer_get(frames, event);
    if (!buffer) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (event->type == PB_ACQUIRE_FENCE)
        buffer->acquire_ts = event->ts;
    else if (event->type == PB_QUEUE)
        buffer->queue_ts = event->ts;
    else if (event->type == PB_LATCH)
        buffer->latch_ts = event->ts;
    else if (event->type != PB_DEQUEUE) // as in Perfetto, also for PB_PRESENT_FENCE
        stats_add(&im->stats, STAT_graphics_frame_event_parser_errors, 1);
    event_add(im, frames, event, buffer);
    if (event->type == PB_DEQUEUE)
        buffer_dequeued(im, frames, event, buffer);
    else if (event->type == PB_QUEUE)
        buffer_queued(im, frames, event, buffer);
    else if (event->type == PB_ACQUIRE_FENCE)
        buffer_acquired(im, event, buffer);
    else if (event->type == PB_LATCH)
        buffer_latched(im, frames, event, buffer);
    else if (event->type == PB_PRESENT_FENCE)
        buffer_presented(im, frames, event, buffer);
}

static void frames_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(frame, GraphicsFrameEvent, packet->message);
    if (!field_present(&frame.buffer_event))
        return;
    MESSAGE(part, GraphicsFrameEvent_BufferEvent, &frame.buffer_event);
    if (!field_present(&part.buffer_id)) {
        stats_add(&im->stats, STAT_graphics_frame_event_parser_errors, 1);
        return;
    }
    const struct wire_field *layer = &part.layer_name;
    struct buffer_event event = {
        .ts = packet->ts,
        .type = (uint32_t)field_u64(&part.type),
        .frame = (uint32_t)field_u64(&part.frame_number),
        .id = (uint32_t)field_u64(&part.buffer_id),
        .has_type = field_present(&part.type),
        .dur = field_i64(&part.duration_ns),
        .layer = *layer,
        .layer_name = field_present(layer) ? field_name(layer) : slice_name("no_layer_name"),
    };
    event_read(im, packet->own, &event);
}

static void frames_done(void *state)
{
    struct frames *frames = state;
    strset_done(&frames->keys);
    buffer_vec_done(&frames->buffers);
    map64_done(&frames->displays);
    strbuf_done(&frames->name);
}

const struct importer importer_graphics_frames = {
    .field = PB_TracePacket_graphics_frame_event,
    .sorted = frames_sorted,
    .state_size = sizeof(struct frames),
    .done = frames_done,
};
