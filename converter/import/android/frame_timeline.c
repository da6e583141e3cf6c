// SPDX-License-Identifier: Apache-2.0
//
// FrameTimelineEvent: when frames of applications (surface) and of the screen (display) were
// expected, when they really were, and what was wrong with them. Begins and ends are told apart by
// a cookie. Both kinds of frames say the same under different numbers.
#include <errno.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/importer.h"

enum { PACKET_FRAME_TIMELINE = 76 };
enum { EXPECTED_DISPLAY = 1, ACTUAL_DISPLAY, EXPECTED_SURFACE, ACTUAL_SURFACE, FRAME_END };
enum { FRAME_COOKIE = 1, FRAME_TOKEN };
enum { PRESENT_DROPPED = 4 };

#define FIELDS_MAX 20
// Times that are this far off are mistakes.
#define TS_MAX (INT64_MAX - INT64_C(10000000000))

enum frame_part {
    FRAME_DISPLAY_TOKEN,
    FRAME_PID,
    FRAME_LAYER,
    FRAME_PRESENT,
    FRAME_ON_TIME,
    FRAME_GPU,
    FRAME_JANK,
    FRAME_PREDICTION,
    FRAME_IS_BUFFER,
    FRAME_SEVERITY,
    FRAME_DELAY,
    FRAME_JITTER,
    FRAME_SCORE,
    FRAME_JANK_2, // experimental, as the next
    FRAME_PRESENT_2,
    FRAME_METADATA,
    FRAME_FENCE,
    FRAME_ANIMATION,
    FRAME_UNSIGNALED,
    FRAME_ADDRESSABLE,
    N_FRAME_PARTS
};

// Numbers of the parts in the messages; 0: not there.
static const uint8_t display_fields[N_FRAME_PARTS] = {
    [FRAME_PID] = 3,         [FRAME_PRESENT] = 4,      [FRAME_ON_TIME] = 5,
    [FRAME_GPU] = 6,         [FRAME_JANK] = 7,         [FRAME_PREDICTION] = 8,
    [FRAME_SEVERITY] = 9,    [FRAME_DELAY] = 10,       [FRAME_SCORE] = 11,
    [FRAME_JANK_2] = 12,     [FRAME_PRESENT_2] = 13,   [FRAME_METADATA] = 14,
    [FRAME_UNSIGNALED] = 15, [FRAME_ADDRESSABLE] = 16,
};
static const uint8_t surface_fields[N_FRAME_PARTS] = {
    [FRAME_DISPLAY_TOKEN] = 3, [FRAME_PID] = 4,         [FRAME_LAYER] = 5,
    [FRAME_PRESENT] = 6,       [FRAME_ON_TIME] = 7,     [FRAME_GPU] = 8,
    [FRAME_JANK] = 9,          [FRAME_PREDICTION] = 10, [FRAME_IS_BUFFER] = 11,
    [FRAME_SEVERITY] = 12,     [FRAME_DELAY] = 13,      [FRAME_JITTER] = 14,
    [FRAME_SCORE] = 15,        [FRAME_JANK_2] = 16,     [FRAME_PRESENT_2] = 17,
    [FRAME_METADATA] = 18,     [FRAME_FENCE] = 19,      [FRAME_ANIMATION] = 20,
};

enum {
    JANK_NONE = 1,
    JANK_OF_DISPLAY = 2 | 4 | 8 | 16 | 32,
    JANK_BUFFER_STUFFING = 128,
    JANK_SF_STUFFING = 512,
    JANK_DROPPED = 1024,
    JANK_NON_ANIMATING = 2048,
    JANK_OF_SURFACE = 64 | 256 | 4096,
    JANK_DISPLAY_OFF = 8192,
    JANK_POWER_MODE = 32768,
};

// In the order in which they are listed.
static const struct {
    uint32_t bit;
    const char *name;
} janks[] = {
    {2, "SurfaceFlinger Scheduling"},
    {4, "Prediction Error"},
    {8, "Display HAL"},
    {16, "SurfaceFlinger CPU Deadline Missed"},
    {32, "SurfaceFlinger GPU Deadline Missed"},
    {64, "App Deadline Missed"},
    {4096, "App Resynced Jitter"},
    {128, "Buffer Stuffing"},
    {256, "Unknown Jank"},
    {512, "SurfaceFlinger Stuffing"},
    {1024, "Dropped Frame"},
    {2048, "Non Animating"},
    {8192, "Display not ON"},
    {16384, "ModeChange in progress"},
    {32768, "PowerModeChange in progress"},
};

struct surface_slice {
    int64_t slice, next; // -1: the last
};
VEC_DEFINE(surface_slice_vec, struct surface_slice);

struct timeline {
    struct map64 by_cookie;  // -> upid and, in the lowest bit, whether it is an actual frame
    struct strset expected;  // upid and token
    struct map64 by_display; // token of a display frame -> its surface frames, in slices
    struct surface_slice_vec slices;
    int64_t free; // + 1: list of entries in slices that are of no use; 0: none
};

struct frame {
    int64_t ts, cookie, token, upid;
    bool is_display;
    struct wire_field part[N_FRAME_PARTS];
};

static const struct track_spec *timeline_tracks(bool is_actual, int64_t upid,
                                                struct track_spec *ret)
{
    *ret = (struct track_spec){
        .type = is_actual ? "android_actual_frame_timeline" : "android_expected_frame_timeline",
        .dimensions = {dimension_int("upid", upid)},
        .name = is_actual ? "Actual Timeline" : "Expected Timeline",
    };
    ret->name_size = strlen(ret->name);
    return ret;
}

// False: something that it must have is missing.
static bool frame_read(struct import *im, int64_t ts, bool is_display,
                       const struct wire_field *message, struct frame *ret)
{
    const uint8_t *numbers = is_display ? display_fields : surface_fields;
    MESSAGE(part, FIELDS_MAX, message);
    *ret = (struct frame){.ts = ts,
                          .cookie = field_i64(&part[FRAME_COOKIE]),
                          .token = field_i64(&part[FRAME_TOKEN]),
                          .is_display = is_display};
    for (size_t i = 0; i < N_FRAME_PARTS; i++)
        if (numbers[i])
            ret->part[i] = part[numbers[i]];
    if (!field_present(&part[FRAME_COOKIE]) || !field_present(&part[FRAME_TOKEN]) ||
        !field_present(&ret->part[FRAME_PID]) ||
        (!is_display && !field_present(&ret->part[FRAME_DISPLAY_TOKEN]))) {
        stats_add(&im->stats, STAT_frame_timeline_event_parser_errors, 1);
        return false;
    }
    ret->upid = processes_process(&im->processes, (uint32_t)field_u64(&ret->part[FRAME_PID]));
    return true;
}

static int64_t frame_begin(struct import *im, const struct frame *frame, bool is_actual,
                           const struct arg *args, size_t n_args)
{
    struct track_spec tracks;
    struct slice_spec spec = {
        .ts = frame->ts,
        .track = async_track_begin(im, timeline_tracks(is_actual, frame->upid, &tracks),
                                   frame->cookie, false),
        .name = ftrace_name(im, "%lld", (long long)frame->token),
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
    const struct wire_field *layer = &frame->part[FRAME_LAYER];
    return arg_text("Layer name", layer->data, layer->size);
}

static int expected_begin(struct import *im, struct timeline *timeline, const struct frame *frame)
{
    if (cookie_set(timeline, frame, false) < 0)
        return -ENOMEM;
    if (frame->is_display) {
        struct arg arg = arg_int("Display frame token", frame->token);
        frame_begin(im, frame, false, &arg, 1);
        return 0;
    }
    // All frames of a process with one token are expected alike: they are one.
    int64_t key[2] = {frame->upid, frame->token};
    size_t n = timeline->expected.n;
    if (strset_add(&timeline->expected, (const char *)key, sizeof(key)) == STRSET_NONE)
        return -ENOMEM;
    if (timeline->expected.n == n)
        return 0;
    struct arg args[] = {
        arg_int("Surface frame token", frame->token),
        arg_int("Display frame token", field_i64(&frame->part[FRAME_DISPLAY_TOKEN])),
        layer_arg(frame),
    };
    frame_begin(im, frame, false, args, 3);
    return 0;
}

static struct arg word_arg(const char *key, const char *word)
{
    return arg_text(key, word, strlen(word));
}

static struct arg float_arg(const char *key, const struct wire_field *field)
{
    return (struct arg){
        .key = key,
        .real = field->type == WIRE_FIXED32 ? (double)wire_to_float(field->value) : 0,
        .type = ARG_REAL,
    };
}

static struct arg jank_arg(struct import *im, const char *key, const struct wire_field *field)
{
    uint32_t jank = (uint32_t)field_u64(field);
    if (!jank || jank == JANK_NONE)
        return word_arg(key, jank ? "None" : "Unspecified");
    CLEANUP(strbuf_done) struct strbuf text = {0};
    for (size_t i = 0; i < ELEMENTS(janks); i++)
        if (jank & janks[i].bit)
            strbuf_addf(&text, "%s%s", text.size ? ", " : "", janks[i].name);
    uint32_t id = strset_add(&im->strings, text.text ? text.text : "", text.size);
    return arg_text(key, strset_text(&im->strings, id), text.size);
}

static const char *jank_tag(const struct frame *frame, uint32_t jank, bool is_dropped)
{
    bool is_calm = jank == JANK_NONE || jank == JANK_NON_ANIMATING || jank == JANK_DISPLAY_OFF;
    if (!jank)
        return "Unspecified";
    if (!is_calm && (jank & (frame->is_display ? JANK_OF_DISPLAY : JANK_OF_SURFACE)))
        return "Self Jank";
    if (!is_calm && (jank & JANK_OF_DISPLAY))
        return "Other Jank";
    if (!frame->is_display && jank == JANK_BUFFER_STUFFING)
        return "Buffer Stuffing";
    if (jank == JANK_SF_STUFFING)
        return "SurfaceFlinger Stuffing";
    if (frame->is_display ? jank == JANK_DROPPED : is_dropped)
        return "Dropped Frame";
    if (jank == JANK_NON_ANIMATING || jank == JANK_DISPLAY_OFF || jank == JANK_POWER_MODE)
        return "Non-perceivable Jank";
    return "No Jank";
}

// The number if it is one of 1 to `last`; else 0, which is counted where the field is there.
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
    const struct wire_field *field = &frame->part[FRAME_SEVERITY];
    uint64_t number = field_u64(field);
    if (!field_present(field)) // older recorders do not say it
        number = field_u64(&frame->part[FRAME_JANK]) == JANK_NONE;
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
    const struct wire_field *part = frame->part, *buffer = &part[FRAME_IS_BUFFER];
    uint32_t present = number_of(im, &part[FRAME_PRESENT], 5);
    uint32_t present_2 = number_of(im, &part[FRAME_PRESENT_2], 5);
    uint64_t fence = field_u64(&part[FRAME_FENCE]);
    size_t n = 0;
    args[n++] =
        arg_int(frame->is_display ? "Display frame token" : "Surface frame token", frame->token);
    args[n++] = float_arg("Present Delay (ms)", &part[FRAME_DELAY]);
    args[n++] = word_arg("Present type", presents[present]);
    args[n++] = word_arg("Present type (experimental)", presents[present_2]);
    args[n++] = arg_int("On time finish", field_u64(&part[FRAME_ON_TIME]) != 0);
    args[n++] = arg_int("GPU composition", field_u64(&part[FRAME_GPU]) != 0);
    args[n++] = jank_arg(im, "Jank type", &part[FRAME_JANK]);
    args[n++] = jank_arg(im, "Jank type (experimental)", &part[FRAME_JANK_2]);
    args[n++] = word_arg("Jank severity type", severity_name(frame));
    args[n++] = float_arg("Jank Severity Score", &part[FRAME_SCORE]);
    args[n++] = word_arg("Prediction type", predictions[number_of(im, &part[FRAME_PREDICTION], 3)]);
    args[n++] = word_arg("Jank tag", jank_tag(frame, (uint32_t)field_u64(&part[FRAME_JANK]),
                                              present == PRESENT_DROPPED));
    args[n++] = word_arg(
        "Jank tag (experimental)",
        jank_tag(frame, (uint32_t)field_u64(&part[FRAME_JANK_2]), present_2 == PRESENT_DROPPED));
    args[n++] = float_arg("Jank Metadata (debugging only)", &part[FRAME_METADATA]);
    if (field_present(&part[FRAME_UNSIGNALED]))
        args[n++] = arg_int("Latched unsignaled count", field_i64(&part[FRAME_UNSIGNALED]));
    if (field_present(&part[FRAME_ADDRESSABLE]))
        args[n++] =
            arg_int("Addressable unsignaled latch count", field_i64(&part[FRAME_ADDRESSABLE]));
    if (frame->is_display)
        return n;
    args[n++] = arg_int("Display frame token", field_i64(&part[FRAME_DISPLAY_TOKEN]));
    if (field_present(&part[FRAME_ANIMATION]))
        args[n++] = float_arg("Animation Time (ms)", &part[FRAME_ANIMATION]);
    args[n++] = float_arg("Vsync Resynced Jitter (ms)", &part[FRAME_JITTER]);
    args[n++] = layer_arg(frame);
    args[n++] = word_arg("Is Buffer?", !field_present(buffer) ? "Unspecified"
                                       : field_u64(buffer)    ? "Yes"
                                                              : "No");
    if (field_present(&part[FRAME_FENCE]))
        args[n++] = word_arg("Latched fence state", fences[fence < 4 ? fence : 0]);
    return n;
}

// Remembers the slice until the display frame that it goes into.
static int surface_keep(struct timeline *timeline, int64_t display, int64_t slice)
{
    bool is_new;
    uint64_t *head =
        map64_get_or_add(&timeline->by_display, (uint64_t)display, UINT64_MAX, &is_new);
    if (!head)
        return -ENOMEM;
    struct surface_slice item = {slice, (int64_t)*head};
    int64_t index = timeline->free - 1;
    if (index < 0) {
        index = (int64_t)timeline->slices.n;
        if (surface_slice_vec_push(&timeline->slices, item) < 0)
            return -ENOMEM;
    } else {
        timeline->free = timeline->slices.items[index].next + 1;
        timeline->slices.items[index] = item;
    }
    *head = (uint64_t)index;
    return 0;
}

// An application works on a frame before the display does: all that lead here have begun.
static void surfaces_join(struct import *im, struct timeline *timeline, const struct frame *frame,
                          int64_t slice)
{
    const uint64_t *head = map64_find(&timeline->by_display, (uint64_t)frame->token);
    for (int64_t i = head ? (int64_t)*head : -1; i >= 0;) {
        struct surface_slice *surface = &timeline->slices.items[i];
        if (slice != SLICE_NONE) {
            struct cell *row = database_row(im->db, TABLE_flow, NULL);
            cell_int(row, COL_flow_slice_out, surface->slice);
            cell_int(row, COL_flow_slice_in, slice);
        }
        int64_t next = surface->next;
        surface->next = timeline->free - 1;
        timeline->free = i + 1;
        i = next;
    }
    map64_remove(&timeline->by_display, (uint64_t)frame->token);
}

static int actual_begin(struct import *im, struct timeline *timeline, const struct frame *frame)
{
    struct arg args[N_FRAME_PARTS + 4];
    if (cookie_set(timeline, frame, true) < 0)
        return -ENOMEM;
    size_t n = actual_args(im, frame, args);
    int64_t slice = frame_begin(im, frame, true, args, n);
    if (frame->is_display)
        surfaces_join(im, timeline, frame, slice);
    else if (slice != SLICE_NONE)
        return surface_keep(timeline, field_i64(&frame->part[FRAME_DISPLAY_TOKEN]), slice);
    return 0;
}

static void frame_end(struct import *im, struct timeline *timeline, int64_t ts,
                      const struct wire_field *message)
{
    MESSAGE(end, FRAME_COOKIE, message);
    const struct wire_field *cookie = &end[FRAME_COOKIE];
    const uint64_t *found =
        field_present(cookie) ? map64_find(&timeline->by_cookie, field_u64(cookie)) : NULL;
    if (!found) {
        stats_add(&im->stats,
                  field_present(cookie) ? STAT_frame_timeline_unpaired_end_event
                                        : STAT_frame_timeline_event_parser_errors,
                  1);
        return;
    }
    struct track_spec tracks;
    timeline_tracks(*found & 1, (int64_t)(*found >> 1), &tracks);
    struct slice_spec spec = {.ts = ts, .track = async_track_end(im, &tracks, field_i64(cookie))};
    slice_end(&im->slices, &spec);
    map64_remove(&timeline->by_cookie, field_u64(cookie));
}

static int timeline_sorted(struct import *im, void *state, const struct packet *packet,
                           const struct wire_field *message)
{
    struct timeline *timeline = state;
    int64_t ts = packet->ts;
    MESSAGE(event, FRAME_END, message);
    bool is_good = ts >= 0 && ts < TS_MAX;
    for (uint32_t i = EXPECTED_DISPLAY; is_good && i <= ACTUAL_SURFACE; i++) {
        struct frame frame;
        if (!field_present(&event[i]))
            continue;
        if (!frame_read(im, ts, i == EXPECTED_DISPLAY || i == ACTUAL_DISPLAY, &event[i], &frame))
            return 0;
        return i == EXPECTED_DISPLAY || i == EXPECTED_SURFACE ? expected_begin(im, timeline, &frame)
                                                              : actual_begin(im, timeline, &frame);
    }
    if (is_good && field_present(&event[FRAME_END]))
        frame_end(im, timeline, ts, &event[FRAME_END]);
    else
        stats_add(&im->stats, STAT_frame_timeline_event_parser_errors, 1);
    return 0;
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
    .field = PACKET_FRAME_TIMELINE,
    .sorted = timeline_sorted,
    .state_size = sizeof(struct timeline),
    .done = timeline_done,
};
