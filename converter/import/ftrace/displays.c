// SPDX-License-Identifier: Apache-2.0
//
// Events of drivers of displays and of virtual video codecs.
#include "converter/import/ftrace/ftrace.h"

#define DISPLAY(a_type, a_key, a_track, a_name)                                                    \
    .type = (a_type), .key = a_key ":u", .track = (a_track), .name = (a_name)
#define DISPLAY_FRAME(what)                                                                        \
    FORM_MOMENT, DISPLAY("disp_" what, "panel_index=output_id", what "[{output_id:u}]", what)
#define PANEL(what)                                                                                \
    FORM_MOMENT, DISPLAY(what, "panel_index=panel_index", what "[{panel_index:u}]", what)
#define VBLANK                                                                                     \
    DISPLAY("disp_vblank_irq_enable", "display_id=output_id", "vblank_irq_en[{output_id:u}]",      \
            "disp_vblank_irq_enable")

#define VIDEO(a_type, a_key, what)                                                                 \
    .type = (a_type), .key = "virtio_stream_id=stream_id:u, " a_key,                               \
    .track = "virtio_video stream #{stream_id:u} " what
// The slice of a command lasts a tenth of a millisecond, as in Perfetto.
#define VIDEO_COMMAND(is_response, what)                                                           \
    FORM_MOMENT, VIDEO("virtio_video_command", "is_response=" is_response, what),                  \
        .dur = "100000",                                                                           \
        .name = "{type-256?QUERY_CAPABILITY,STREAM_CREATE,STREAM_DESTROY,STREAM_DRAIN,"            \
                "RESOURCE_CREATE,RESOURCE_QUEUE,RESOURCE_DESTROY_ALL,QUEUE_CLEAR,GET_PARAMS,"      \
                "SET_PARAMS,QUERY_CONTROL,GET_CONTROL,SET_CONTROL,GET_PARAMS_EXT,"                 \
                "SET_PARAMS_EXT;Unknown}"
#define QUEUE_TYPE "queue_type-256?INPUT,OUTPUT;Unknown"
#define VIDEO_QUEUE                                                                                \
    VIDEO("virtio_video_queue_event", "virtio_queue_type=queue_type:u", "{" QUEUE_TYPE "}"),       \
        .cookie = "resource_id"

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
    {"virtio_video_cmd", VIDEO_COMMAND("0", "Requests")},
    {"virtio_video_cmd_done", VIDEO_COMMAND("1", "Responses")},
    {"virtio_video_resource_queue", FORM_BEGIN, VIDEO_QUEUE, .name = "Resource #{resource_id}"},
    {"virtio_video_resource_queue_done", FORM_END, VIDEO_QUEUE,
     .args = "stream_id, resource_id, queue_type=" QUEUE_TYPE ", data_size0:i, data_size1:i, "
             "data_size2:i, data_size3:i, timestamp"},
    {0},
};

const struct ftrace_subject ftrace_displays = {.forms = forms};
