// SPDX-License-Identifier: Apache-2.0
//
// What drivers of displays and of virtual video codecs tell.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

#define COMMAND_NSEC      100000 // that a video command is shown for, as Perfetto
#define VIDEO_FIRST_INPUT 0x100

#define DISPLAY(a_type, a_key, a_track, a_name)                                                    \
    .type = (a_type), .key = a_key ":u", .track = (a_track), .name = (a_name)
#define DISPLAY_FRAME(what)                                                                        \
    FORM_MOMENT, DISPLAY("disp_" what, "panel_index=output_id", what "[{output_id:u}]", what)
#define PANEL(what)                                                                                \
    FORM_MOMENT, DISPLAY(what, "panel_index=panel_index", what "[{panel_index:u}]", what)
#define VBLANK                                                                                     \
    DISPLAY("disp_vblank_irq_enable", "display_id=output_id", "vblank_irq_en[{output_id:u}]",      \
            "disp_vblank_irq_enable")

static const struct ftrace_form forms[] = {
    {"dpu_disp_dpu_underrun", FORM_MOMENT,
     DISPLAY("disp_dpu_underrun", "display_id=id", "underrun[{id:u}]", "disp_dpu_underrun"),
     .args = "vsync_count, pending_frame=frames_pending"},
    {"dpu_disp_dpu_line_underrun", FORM_MOMENT,
     DISPLAY("disp_dpu_line_underrun", "display_id=id", "line_underrun[{id:u}]",
             "disp_line_dpu_underrun"),
     .args = "vsync_count, frames_pending"},
    {"dpu_disp_frame_start_timeout", DISPLAY_FRAME("frame_start_timeout"),
     .args = "display_id, output_id:i, frames_pending, te_count"},
    {"dpu_disp_frame_done_timeout", DISPLAY_FRAME("frame_done_timeout"),
     .args = "display_id, output_id:i, frames_pending, te_count, during_disable:i"},
    {"dpu_disp_frame_start_missing", DISPLAY_FRAME("frame_start_missing"),
     .args = "display_id, output_id:i, frames_pending, te_count"},
    {"dpu_disp_frame_done_missing", DISPLAY_FRAME("frame_done_missing"),
     .args = "display_id, output_id:i, frames_pending, te_count"},
    {"dpu_disp_vblank_irq_enable", FORM_END, VBLANK, .when = "!enable"},
    {"", FORM_BEGIN, VBLANK, .when = "enable", .args = "display_id=id, output_id"},
    {"gram_collision", PANEL("ddic_underrun"), .args = "collision_cnt:i"},
    {"panel_settings_full", PANEL("panel_settings_full"),
     .args = "hbm:b, irc:i, h_pwm:b, fi_auto:b, fi_manual:b, early_exit:b, min_rr:i, max_rr:i, "
             "te_freq:i"},
    {"panel_settings_lite", PANEL("panel_settings_lite"),
     .args = "vrr:b, min_rr:i, max_rr:i, te_freq:i"},
    {0},
};

static const char *queue_name(int64_t type)
{
    static const char *const names[] = {"INPUT", "OUTPUT"};
    int64_t index = type - VIDEO_FIRST_INPUT;
    return index == 0 || index == 1 ? names[index] : "Unknown";
}

// `name` lives as long as the import.
static struct track_spec video_tracks(struct import *im, const struct ftrace_event *event,
                                      const char *type, const char *dimension, uint32_t key,
                                      const char *what)
{
    uint32_t stream = (uint32_t)ftrace_int(event, "stream_id");
    struct slice_name name = import_text(im, "virtio_video stream #%u %s", stream, what);
    return (struct track_spec){
        .type = type,
        .dimensions = {dimension_int("virtio_stream_id", stream), dimension_int(dimension, key)},
        .name = name,
    };
}

static void video_command(struct import *im, const struct ftrace_event *event)
{
    static const char *const commands[] = {
        "QUERY_CAPABILITY", "STREAM_CREATE",  "STREAM_DESTROY",       "STREAM_DRAIN",
        "RESOURCE_CREATE",  "RESOURCE_QUEUE", "RESOURCE_DESTROY_ALL", "QUEUE_CLEAR",
        "GET_PARAMS",       "SET_PARAMS",     "QUERY_CONTROL",        "GET_CONTROL",
        "SET_CONTROL",      "GET_PARAMS_EXT", "SET_PARAMS_EXT",
    };
    bool is_response = event->detail != NULL;
    uint64_t command = (uint32_t)ftrace_int(event, "type") - UINT64_C(0x100);
    struct track_spec tracks = video_tracks(im, event, "virtio_video_command", "is_response",
                                            is_response, is_response ? "Responses" : "Requests");
    struct slice_spec spec = {
        .ts = event->ts,
        .dur = COMMAND_NSEC,
        .track = async_track_span(&im->async_tracks, &tracks, event->ts, COMMAND_NSEC),
        .name = slice_name(command < ELEMENTS(commands) ? commands[command] : "Unknown"),
    };
    slice_add(&im->slices, &spec);
}

static struct track_spec queue_tracks(struct import *im, const struct ftrace_event *event)
{
    int64_t type = ftrace_int(event, "queue_type");
    return video_tracks(im, event, "virtio_video_queue_event", "virtio_queue_type", (uint32_t)type,
                        queue_name(type));
}

static void video_queue(struct import *im, const struct ftrace_event *event)
{
    struct track_spec tracks = queue_tracks(im, event);
    int64_t resource = ftrace_int(event, "resource_id");
    struct slice_spec spec = {
        .ts = event->ts,
        .track = async_track_begin(&im->async_tracks, &tracks, resource, false),
        .name = import_text(im, "Resource #%d", (int)resource),
    };
    slice_begin(&im->slices, &spec);
}

static void video_queue_done(struct import *im, const struct ftrace_event *event)
{
    static const char *const sizes[] = {"data_size0", "data_size1", "data_size2", "data_size3"};
    struct track_spec tracks = queue_tracks(im, event);
    const char *queue = queue_name(ftrace_int(event, "queue_type"));
    int64_t resource = ftrace_int(event, "resource_id");
    struct arg args[8] = {
        arg_int("stream_id", ftrace_int(event, "stream_id")),
        arg_int("resource_id", resource),
        arg_text("queue_type", queue, strlen(queue)),
    };
    for (size_t i = 0; i < 4; i++)
        args[3 + i] = arg_int(sizes[i], ftrace_int(event, sizes[i]));
    args[7] = arg_uint("timestamp", (uint64_t)ftrace_int(event, "timestamp"));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = async_track_end(&im->async_tracks, &tracks, resource),
        .args = args,
        .n_args = 8,
    };
    slice_end(&im->slices, &spec);
}

static const struct ftrace_handler handlers[] = {
    {"virtio_video_cmd", video_command},
    {"virtio_video_cmd_done", video_command, .detail = "is a response"},
    {"virtio_video_resource_queue", video_queue},
    {"virtio_video_resource_queue_done", video_queue_done},
    {0},
};

const struct ftrace_subject ftrace_displays = {.handlers = handlers, .forms = forms};
