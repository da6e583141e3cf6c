// SPDX-License-Identifier: Apache-2.0
//
// FrameTimelineEvent: expected and actual times of the frames of applications (surface) and of the
// screen (display), and their jank. A cookie pairs a begin and its end. Both kinds of frames have
// the same fields under different numbers: a display frame is read as a surface frame with
// additional fields.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

// ns: later times are errors.
#define TS_MAX (INT64_MAX - INT64_C(10000000000))

#define JANK_OF_DISPLAY                                                                            \
    (PB_JANK_SF_SCHEDULING | PB_JANK_PREDICTION_ERROR | PB_JANK_DISPLAY_HAL |                      \
     PB_JANK_SF_CPU_DEADLINE_MISSED | PB_JANK_SF_GPU_DEADLINE_MISSED)
#define JANK_OF_SURFACE                                                                            \
    (PB_JANK_APP_DEADLINE_MISSED | PB_JANK_UNKNOWN | PB_JANK_APP_RESYNCED_JITTER)
#define ARGS_MAX 24 // of an actual frame

// The kinds of jank, in the order of the arg's text.
static const struct {
    uint32_t bit;
    const char *name;
} janks[] = {
    {PB_JANK_SF_SCHEDULING, "SurfaceFlinger Scheduling"},
    {PB_JANK_PREDICTION_ERROR, "Prediction Error"},
    {PB_JANK_DISPLAY_HAL, "Display HAL"},
    {PB_JANK_SF_CPU_DEADLINE_MISSED, "SurfaceFlinger CPU Deadline Missed"},
    {PB_JANK_SF_GPU_DEADLINE_MISSED, "SurfaceFlinger GPU Deadline Missed"},
    {PB_JANK_APP_DEADLINE_MISSED, "App Deadline Missed"},
    {PB_JANK_APP_RESYNCED_JITTER, "App Resynced Jitter"},
    {PB_JANK_BUFFER_STUFFING, "Buffer Stuffing"},
    {PB_JANK_UNKNOWN, "Unknown Jank"},
    {PB_JANK_SF_STUFFING, "SurfaceFlinger Stuffing"},
    {PB_JANK_DROPPED, "Dropped Frame"},
    {PB_JANK_NON_ANIMATING, "Non Animating"},
    {PB_JANK_DISPLAY_NOT_ON, "Display not ON"},
    {PB_JANK_DISPLAY_MODE_CHANGE_IN_PROGRESS, "ModeChange in progress"},
    {PB_JANK_DISPLAY_POWER_MODE_CHANGE_IN_PROGRESS, "PowerModeChange in progress"},
};

struct surface_slice {
    int64_t slice, next; // -1: the last
};
VEC_DEFINE(surface_slice_vec, struct surface_slice);

struct timeline {
    struct map64 by_cookie;  // -> upid << 1 | is_actual
    struct strset expected;  // upid and token
    struct map64 by_display; // token of a display frame -> its surface frames, in slices
    struct surface_slice_vec slices;
    int64_t free; // index + 1 of the first unused entry in slices; 0: none
};

struct frame {
    int64_t ts, cookie, token, upid;
    bool is_display;
    union message_FrameTimelineEvent_ActualSurfaceFrameStart part;
    struct wire_field unsignaled, addressable; // of display frames
};

static struct track_spec timeline_tracks(bool is_actual, int64_t upid)
{
    return (struct track_spec){
        .type = is_actual ? "android_actual_frame_timeline" : "android_expected_frame_timeline",
        .dimensions = {dimension_int("upid", upid)},
        .name = slice_name(is_actual ? "Actual Timeline" : "Expected Timeline"),
    };
}

static void display_read(const struct wire_field *message, struct frame *ret)
{
    MESSAGE(display, FrameTimelineEvent_ActualDisplayFrameStart, message);
    ret->part = (union message_FrameTimelineEvent_ActualSurfaceFrameStart){
        .cookie = display.cookie,
        .token = display.token,
        .pid = display.pid,
        .present_type = display.present_type,
        .on_time_finish = display.on_time_finish,
        .gpu_composition = display.gpu_composition,
        .jank_type = display.jank_type,
        .prediction_type = display.prediction_type,
        .jank_severity_type = display.jank_severity_type,
        .present_delay_millis = display.present_delay_millis,
        .jank_severity_score = display.jank_severity_score,
        .jank_type_experimental = display.jank_type_experimental,
        .present_type_experimental = display.present_type_experimental,
        .jank_debug_metadata = display.jank_debug_metadata,
    };
    ret->unsignaled = display.latched_unsignaled_count;
    ret->addressable = display.addressable_unsignaled_latch_count;
}

// Reads a frame. False: a required field is missing. An expected frame has only the first fields of
// an actual frame.
static bool frame_read(struct import *im, int64_t ts, bool is_display,
                       const struct wire_field *message, struct frame *ret)
{
    struct frame frame = {.ts = ts, .is_display = is_display};
    if (is_display)
        display_read(message, &frame);
    else
        message_read(wire_sub(message), frame.part.at, ELEMENTS(frame.part.at));
    frame.cookie = field_i64(&frame.part.cookie);
    frame.token = field_i64(&frame.part.token);
    if (!field_present(&frame.part.cookie) || !field_present(&frame.part.token) ||
        !field_present(&frame.part.pid) ||
        (!is_display && !field_present(&frame.part.display_frame_token))) {
        stats_add(&im->stats, STAT_frame_timeline_event_parser_errors, 1);
        return false;
    }
    frame.upid = processes_process(&im->processes, (uint32_t)field_u64(&frame.part.pid));
    *ret = frame;
    return true;
}

static int64_t frame_begin(struct import *im, const struct frame *frame, bool is_actual,
                           const struct arg *args, size_t n_args)
{
    struct track_spec tracks = timeline_tracks(is_actual, frame->upid);
    struct slice_spec spec = {
        .ts = frame->ts,
        .track = async_track_begin(&im->async_tracks, &tracks, frame->cookie, false),
        .name = import_text(im, "%lld", (long long)frame->token),
        .args = args,
        .n_args = n_args,
    };
    return slice_begin(&im->slices, &spec);
}

static int cookie_set(struct timeline *timeline, const struct frame *frame, bool is_actual)
{
    return map64_set(&timeline->by_cookie, (uint64_t)frame->cookie,
                     (uint64_t)frame->upid << 1 | is_actual);
}

static struct arg layer_arg(const struct frame *frame)
{
    return arg_name("Layer name", field_name(&frame->part.layer_name));
}

static void expected_begin(struct import *im, struct timeline *timeline, const struct frame *frame)
{
    import_fail(im, cookie_set(timeline, frame, false));
    if (frame->is_display) {
        struct arg arg = arg_int("Display frame token", frame->token);
        frame_begin(im, frame, false, &arg, 1);
        return;
    }
    // Expected frames of a process with the same token share a slice.
    int64_t key[2] = {frame->upid, frame->token};
    size_t n = timeline->expected.n;
    if (strset_add(&timeline->expected, (const char *)key, sizeof(key)) == STRSET_NONE)
        import_fail(im, -ENOMEM);
    if (timeline->expected.n == n)
        return;
    struct arg args[] = {
        arg_int("Surface frame token", frame->token),
        arg_int("Display frame token", field_i64(&frame->part.display_frame_token)),
        layer_arg(frame),
    };
    frame_begin(im, frame, false, args, 3);
}

static struct arg word_arg(const char *key, const char *word)
{
    return arg_text(key, word, strlen(word));
}

static struct arg float_arg(const char *key, const struct wire_field *field)
{
    return arg_real(key, field_float(field));
}

static struct arg jank_arg(struct import *im, const char *key, const struct wire_field *field)
{
    uint32_t jank = (uint32_t)field_u64(field);
    if (!jank || jank == PB_JANK_NONE)
        return word_arg(key, jank ? "None" : "Unspecified");
    CLEANUP(strbuf_done) struct strbuf text = {0};
    for (size_t i = 0; i < ELEMENTS(janks); i++)
        if (jank & janks[i].bit)
            strbuf_addf(&text, "%s%s", text.size ? ", " : "", janks[i].name);
    return arg_name(key, slice_name_of(&im->strings, import_strbuf_keep(im, &text)));
}

static const char *jank_tag(const struct frame *frame, uint32_t jank, bool is_dropped)
{
    bool is_calm =
        jank == PB_JANK_NONE || jank == PB_JANK_NON_ANIMATING || jank == PB_JANK_DISPLAY_NOT_ON;
    if (!jank)
        return "Unspecified";
    if (!is_calm && (jank & (frame->is_display ? JANK_OF_DISPLAY : JANK_OF_SURFACE)))
        return "Self Jank";
    if (!is_calm && (jank & JANK_OF_DISPLAY))
        return "Other Jank";
    if (!frame->is_display && jank == PB_JANK_BUFFER_STUFFING)
        return "Buffer Stuffing";
    if (jank == PB_JANK_SF_STUFFING)
        return "SurfaceFlinger Stuffing";
    if (frame->is_display ? jank == PB_JANK_DROPPED : is_dropped)
        return "Dropped Frame";
    if (jank == PB_JANK_NON_ANIMATING || jank == PB_JANK_DISPLAY_NOT_ON ||
        jank == PB_JANK_DISPLAY_POWER_MODE_CHANGE_IN_PROGRESS)
        return "Non-perceivable Jank";
    return "No Jank";
}

// Returns the field's number, from 1 to `last`. Returns 0 if the field is absent. Any other number
// counts as an error, and gives 0, too.
static uint32_t number_of(struct import *im, const struct wire_field *field, uint32_t last)
{
    uint64_t number = field_u64(field);
    if (number >= 1 && number <= last)
        return (uint32_t)number;
    if (field_present(field))
        stats_add(&im->stats, STAT_frame_timeline_event_parser_errors, 1);
    return 0;
}

static const char *severity_name(const struct frame *frame)
{
    static const char *const names[] = {"Unknown", "None", "Partial", "Full"};
    const struct wire_field *field = &frame->part.jank_severity_type;
    uint64_t number = field_u64(field);
    if (!field_present(field)) // older recorders lack the field
        number = field_u64(&frame->part.jank_type) == PB_JANK_NONE;
    return names[number < 4 ? number : 0];
}

static size_t actual_args(struct import *im, const struct frame *frame, struct arg *args)
{
    static const char *const presents[] = {
        "Unspecified Present", "On-time Present", "Late Present",
        "Early Present",       "Dropped Frame",   "Unknown Present",
    };
    static const char *const predictions[] = {
        "Unspecified Prediction",
        "Valid Prediction",
        "Expired Prediction",
        "Unknown Prediction",
    };
    static const char *const fences[] = {"Unknown", "Latched Signaled", "Latched Unsignaled",
                                         "Delayed Latch Fence Unsignaled"};
    const union message_FrameTimelineEvent_ActualSurfaceFrameStart *part = &frame->part;
    const struct wire_field *buffer = &part->is_buffer;
    uint32_t present = number_of(im, &part->present_type, 5);
    uint32_t present_2 = number_of(im, &part->present_type_experimental, 5);
    uint64_t fence = field_u64(&part->latched_fence_state);
    size_t n = 0;
    args[n++] =
        arg_int(frame->is_display ? "Display frame token" : "Surface frame token", frame->token);
    args[n++] = float_arg("Present Delay (ms)", &part->present_delay_millis);
    args[n++] = word_arg("Present type", presents[present]);
    args[n++] = word_arg("Present type (experimental)", presents[present_2]);
    args[n++] = arg_int("On time finish", field_u64(&part->on_time_finish) != 0);
    args[n++] = arg_int("GPU composition", field_u64(&part->gpu_composition) != 0);
    args[n++] = jank_arg(im, "Jank type", &part->jank_type);
    args[n++] = jank_arg(im, "Jank type (experimental)", &part->jank_type_experimental);
    args[n++] = word_arg("Jank severity type", severity_name(frame));
    args[n++] = float_arg("Jank Severity Score", &part->jank_severity_score);
    args[n++] = word_arg("Prediction type", predictions[number_of(im, &part->prediction_type, 3)]);
    args[n++] = word_arg("Jank tag", jank_tag(frame, (uint32_t)field_u64(&part->jank_type),
                                              present == PB_PRESENT_DROPPED));
    args[n++] = word_arg("Jank tag (experimental)",
                         jank_tag(frame, (uint32_t)field_u64(&part->jank_type_experimental),
                                  present_2 == PB_PRESENT_DROPPED));
    args[n++] = float_arg("Jank Metadata (debugging only)", &part->jank_debug_metadata);
    if (field_present(&frame->unsignaled))
        args[n++] = arg_int("Latched unsignaled count", field_i64(&frame->unsignaled));
    if (field_present(&frame->addressable))
        args[n++] = arg_int("Addressable unsignaled latch count", field_i64(&frame->addressable));
    if (frame->is_display)
        return n;
    args[n++] = arg_int("Display frame token", field_i64(&part->display_frame_token));
    if (field_present(&part->animation_time_millis))
        args[n++] = float_arg("Animation Time (ms)", &part->animation_time_millis);
    args[n++] = float_arg("Vsync Resynced Jitter (ms)", &part->vsync_resynced_jitter_millis);
    args[n++] = layer_arg(frame);
    args[n++] = word_arg("Is Buffer?", !field_present(buffer) ? "Unspecified"
                                       : field_u64(buffer)    ? "Yes"
                                                              : "No");
    if (field_present(&part->latched_fence_state))
        args[n++] = word_arg("Latched fence state", fences[fence < 4 ? fence : 0]);
    return n;
}

// Keeps the slice until its display frame begins.
static void surface_keep(struct import *im, struct timeline *timeline, int64_t display,
                         int64_t slice)
{
    bool is_new;
    uint64_t *head =
        import_map_get(im, &timeline->by_display, (uint64_t)display, UINT64_MAX, &is_new);
    if (!head)
        return;
    struct surface_slice item = {slice, (int64_t)*head};
    int64_t index = timeline->free - 1;
    if (index < 0) {
        index = (int64_t)timeline->slices.n;
        import_fail(im, surface_slice_vec_push(&timeline->slices, item));
    } else {
        timeline->free = timeline->slices.items[index].next + 1;
        timeline->slices.items[index] = item;
    }
    *head = (uint64_t)index;
}

// Adds flows from the surface frames of a display frame. All these surface frames have begun,
// because an application works on a frame before the display does.
static void surfaces_join(struct import *im, struct timeline *timeline, const struct frame *frame,
                          int64_t slice)
{
    const uint64_t *head = map64_find(&timeline->by_display, (uint64_t)frame->token);
    for (int64_t i = head ? (int64_t)*head : -1; i >= 0;) {
        struct surface_slice *surface = &timeline->slices.items[i];
        flow_row_write(im, surface->slice, slice);
        int64_t next = surface->next;
        surface->next = timeline->free - 1;
        timeline->free = i + 1;
        i = next;
    }
    map64_remove(&timeline->by_display, (uint64_t)frame->token);
}

static void actual_begin(struct import *im, struct timeline *timeline, const struct frame *frame)
{
    struct arg args[ARGS_MAX];
    import_fail(im, cookie_set(timeline, frame, true));
    size_t n = actual_args(im, frame, args);
    int64_t slice = frame_begin(im, frame, true, args, n);
    if (frame->is_display)
        surfaces_join(im, timeline, frame, slice);
    else if (slice != SLICE_NONE)
        surface_keep(im, timeline, field_i64(&frame->part.display_frame_token), slice);
}

static void frame_end(struct import *im, struct timeline *timeline, int64_t ts,
                      const struct wire_field *message)
{
    MESSAGE(end, FrameTimelineEvent_FrameEnd, message);
    const struct wire_field *cookie = &end.cookie;
    const uint64_t *found =
        field_present(cookie) ? map64_find(&timeline->by_cookie, field_u64(cookie)) : NULL;
    if (!found) {
        stats_add(&im->stats,
                  field_present(cookie) ? STAT_frame_timeline_unpaired_end_event
                                        : STAT_frame_timeline_event_parser_errors,
                  1);
        return;
    }
    struct track_spec tracks = timeline_tracks(*found & 1, (int64_t)(*found >> 1));
    slice_close(&im->slices, ts, async_track_end(&im->async_tracks, &tracks, field_i64(cookie)));
    map64_remove(&timeline->by_cookie, field_u64(cookie));
}

static void timeline_sorted(struct import *im, const struct packet *packet)
{
    struct timeline *timeline = packet->own;
    int64_t ts = packet->ts;
    MESSAGE(event, FrameTimelineEvent, packet->message);
    const struct {
        const struct wire_field *message;
        bool is_display, is_actual;
    } starts[] = {
        {&event.expected_display_frame_start, true, false},
        {&event.actual_display_frame_start, true, true},
        {&event.expected_surface_frame_start, false, false},
        {&event.actual_surface_frame_start, false, true},
    };
    bool is_good = ts >= 0 && ts < TS_MAX;
    for (size_t i = 0; is_good && i < ELEMENTS(starts); i++) {
        struct frame frame;
        if (!field_present(starts[i].message))
            continue;
        if (!frame_read(im, ts, starts[i].is_display, starts[i].message, &frame))
            return;
        if (starts[i].is_actual)
            actual_begin(im, timeline, &frame);
        else
            expected_begin(im, timeline, &frame);
        return;
    }
    if (is_good && field_present(&event.frame_end))
        frame_end(im, timeline, ts, &event.frame_end);
    else
        stats_add(&im->stats, STAT_frame_timeline_event_parser_errors, 1);
}

static void timeline_done(void *state)
{
    struct timeline *timeline = state;
    map64_done(&timeline->by_cookie);
    strset_done(&timeline->expected);
    map64_done(&timeline->by_display);
    surface_slice_vec_done(&timeline->slices);
}

const struct importer importer_frame_timeline = {
    .field = PB_TracePacket_frame_timeline_event,
    .sorted = timeline_sorted,
    .state_size = sizeof(struct timeline),
    .done = timeline_done,
};
