// SPDX-License-Identifier: Apache-2.0
//
// Buffers of video devices (V4L2): instants on the track of the thread that queues or dequeues a
// buffer, with a flow from queueing to dequeueing.
#include <inttypes.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"

#define NAME_OF(names, value) ((value) < ELEMENTS(names) ? (names)[value] : NULL)

#define ANY UINT32_MAX

struct video {
    struct map64 buffers; // hash of a queued buffer -> its slice
};

// A flag is set if the masked bits equal `value` or, for ANY, are not 0.
struct flag {
    uint32_t mask, value;
    const char *name;
};

#define BIT(bit, text)                                                                             \
    {                                                                                              \
        (bit), (bit), text                                                                         \
    }
#define NO_BITS(text)                                                                              \
    {                                                                                              \
        UINT32_MAX, 0, text                                                                        \
    }

static const struct flag buffer_flags[] = {
    BIT(0x1, "MAPPED"),
    BIT(0x2, "QUEUED"),
    BIT(0x4, "DONE"),
    BIT(0x8, "KEYFRAME"),
    BIT(0x10, "PFRAME"),
    BIT(0x20, "BFRAME"),
    BIT(0x40, "ERROR"),
    BIT(0x80, "IN_REQUEST"),
    BIT(0x100, "TIMECODE"),
    BIT(0x200, "M2M_HOLD_CAPTURE_BUF"),
    BIT(0x400, "PREPARED"),
    BIT(0x800, "NO_CACHE_INVALIDATE"),
    BIT(0x1000, "NO_CACHE_CLEAN"),
    {0xe000, ANY, "TIMESTAMP_MASK"},
    NO_BITS("TIMESTAMP_UNKNOWN"),
    BIT(0x2000, "TIMESTAMP_MONOTONIC"),
    BIT(0x4000, "TIMESTAMP_COPY"),
    {0x70000, ANY, "TSTAMP_SRC_MASK"},
    NO_BITS("TSTAMP_SRC_EOF"),
    BIT(0x10000, "TSTAMP_SRC_SOE"),
    BIT(0x100000, "LAST"),
    BIT(0x800000, "REQUEST_FD"),
};

static const struct flag timecode_flags[] = {
    NO_BITS("USERBITS_USERDEFINED"),  BIT(0x1, "FLAG_DROPFRAME"),
    BIT(0x2, "FLAG_COLORFRAME"),      {0xc, 0x4, "USERBITS_field(01)"},
    {0xc, 0x8, "USERBITS_field(10)"}, {0xc, 0xc, "USERBITS_field(11)"},
    BIT(0x8, "USERBITS_8BITCHARS"),
};

static bool flag_is_set(const struct flag *flag, uint32_t bits)
{
    uint32_t found = bits & flag->mask;
    return flag->value == ANY ? found != 0 : found == flag->value;
}

static struct arg flags_arg(struct import *im, const char *key, uint32_t bits,
                            const struct flag *flags, size_t n)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    for (size_t i = 0; i < n; i++)
        if (flag_is_set(&flags[i], bits))
            strbuf_addf(&text, "%s%s", text.size ? "|" : "", flags[i].name);
    return arg_name(key, slice_name_of(&im->strings, import_strbuf_keep(im, &text)));
}

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {
        NULL,
        "VIDEO_CAPTURE",
        "VIDEO_OUTPUT",
        "VIDEO_OVERLAY",
        "VBI_CAPTURE",
        "VBI_OUTPUT",
        "SLICED_VBI_CAPTURE",
        "SLICED_VBI_OUTPUT",
        "VIDEO_OUTPUT_OVERLAY",
        "VIDEO_CAPTURE_MPLANE",
        "VIDEO_OUTPUT_MPLANE",
        "SDR_CAPTURE",
        "SDR_OUTPUT",
        "META_CAPTURE",
        "META_OUTPUT",
    };
    return type == 0x80 ? "PRIVATE" : NAME_OF(names, type);
}

static const char *scan_name(uint32_t field)
{
    static const char *const names[] = {
        "ANY",    "NONE",   "TOP",       "BOTTOM",        "INTERLACED",
        "SEQ_TB", "SEQ_BT", "ALTERNATE", "INTERLACED_TB", "INTERLACED_BT",
    };
    return NAME_OF(names, field);
}

static const char *timecode_name(uint32_t type)
{
    static const char *const names[] = {NULL, "24FPS", "25FPS", "30FPS", "50FPS", "60FPS"};
    return NAME_OF(names, type);
}

// Returns an arg with the name of a number; an empty text if `name` is NULL.
static struct arg name_arg(const char *key, const char *name)
{
    return arg_text(key, name, name ? strlen(name) : 0);
}

#define ARGS_MAX 20

static size_t args_make(struct import *im, const struct ftrace_event *event, bool has_index,
                        struct arg *args)
{
    static const char *const numbers[] = {
        "timecode_frames",    "timecode_seconds",   "timecode_minutes",
        "timecode_hours",     "timecode_userbits0", "timecode_userbits1",
        "timecode_userbits2", "timecode_userbits3", "sequence",
    };
    size_t n = 0;
    args[n++] = arg_int("minor", ftrace_int(event, "minor"));
    if (has_index) {
        args[n++] = arg_int("index", ftrace_int(event, "index"));
        args[n++] = name_arg("type", type_name((uint32_t)ftrace_int(event, "type")));
        args[n++] = arg_int("bytesused", ftrace_int(event, "bytesused"));
    }
    args[n++] = flags_arg(im, "flags", (uint32_t)ftrace_int(event, "flags"), buffer_flags,
                          ELEMENTS(buffer_flags));
    args[n++] = name_arg("field", scan_name((uint32_t)ftrace_int(event, "field")));
    args[n++] = arg_int("timestamp", ftrace_int(event, "timestamp"));
    args[n++] =
        name_arg("timecode_type", timecode_name((uint32_t)ftrace_int(event, "timecode_type")));
    args[n++] = flags_arg(im, "timecode_flags", (uint32_t)ftrace_int(event, "timecode_flags"),
                          timecode_flags, ELEMENTS(timecode_flags));
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        args[n++] = arg_int(numbers[i], ftrace_int(event, numbers[i]));
    return n;
}

static int64_t moment_add(struct import *im, const struct ftrace_event *event, const char *what,
                          bool has_index)
{
    struct arg args[ARGS_MAX];
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_own_track(im, event),
        .category = slice_name("Video 4 Linux 2"),
        .name = import_text(
            im, "%s minor=%" PRId32 " seq=%" PRIu32 " type=%" PRIu32 " index=%" PRIu32, what,
            (int32_t)ftrace_int(event, "minor"), (uint32_t)ftrace_int(event, "sequence"),
            has_index ? (uint32_t)ftrace_int(event, "type") : 0,
            has_index ? (uint32_t)ftrace_int(event, "index") : 0),
        .args = args,
        .n_args = args_make(im, event, has_index, args),
    };
    return slice_add(&im->slices, &spec);
}

static uint64_t buffer_key(const struct ftrace_event *event)
{
    uint32_t key[] = {
        (uint32_t)ftrace_int(event, "minor"),
        (uint32_t)ftrace_int(event, "sequence"),
        (uint32_t)ftrace_int(event, "type"),
        (uint32_t)ftrace_int(event, "index"),
    };
    return hash_bytes(key, sizeof(key));
}

static void v4l2_qbuf(struct import *im, const struct ftrace_event *event)
{
    struct video *video = event->own;
    int64_t slice = moment_add(im, event, "VIDIOC_QBUF", true);
    bool is_new; // a buffer that was not dequeued keeps its slice
    if (slice != SLICE_NONE)
        import_map_get(im, &video->buffers, buffer_key(event), (uint64_t)slice, &is_new);
}

static void v4l2_dqbuf(struct import *im, const struct ftrace_event *event)
{
    struct video *video = event->own;
    int64_t slice = moment_add(im, event, "VIDIOC_DQBUF", true);
    const uint64_t *queued = map64_find(&video->buffers, buffer_key(event));
    if (!queued)
        return;
    flow_row_write(im, (int64_t)*queued, slice);
    map64_remove(&video->buffers, buffer_key(event));
}

static void vb2_event(struct import *im, const struct ftrace_event *event)
{
    moment_add(im, event, event->type->name, false);
}

static const struct ftrace_form forms[] = {
    {"v4l2_qbuf", FORM_CALL(v4l2_qbuf)},
    {"v4l2_dqbuf", FORM_CALL(v4l2_dqbuf)},
    {"vb2_v4l2_buf_queue", FORM_CALL(vb2_event)},
    {"vb2_v4l2_buf_done", FORM_CALL(vb2_event)},
    {"vb2_v4l2_qbuf", FORM_CALL(vb2_event)},
    {"vb2_v4l2_dqbuf", FORM_CALL(vb2_event)},
    {0},
};

const struct ftrace_subject ftrace_video = {
    .forms = forms,
    .state_size = sizeof(struct video),
    .n_maps = 1,
};
