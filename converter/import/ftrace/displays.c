// SPDX-License-Identifier: Apache-2.0
//
// What drivers of displays and of virtual video codecs tell. Events of displays are moments that
// differ in names only, so these are data.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

#define ARGS_MAX          10
#define COMMAND_NSEC      100000 // that a video command is shown for, as Perfetto
#define VIDEO_FIRST_INPUT 0x100

// `key` is of the track, and may have another name in the event; args are named as the fields of
// the event, unless "=" gives the field. A "?" before a name: it is true or false.
static const struct display_form {
    const char *event, *type, *dimension, *key, *track, *name;
    const char *args[ARGS_MAX];
} forms[] = {
    {"dpu_disp_dpu_underrun",
     "disp_dpu_underrun",
     "display_id",
     "id",
     "underrun",
     "disp_dpu_underrun",
     {"vsync_count", "pending_frame=frames_pending"}},
    {"dpu_disp_dpu_line_underrun",
     "disp_dpu_line_underrun",
     "display_id",
     "id",
     "line_underrun",
     "disp_line_dpu_underrun",
     {"vsync_count", "frames_pending"}},
    {"dpu_disp_frame_start_timeout",
     "disp_frame_start_timeout",
     "panel_index",
     "output_id",
     "frame_start_timeout",
     "frame_start_timeout",
     {"display_id", "output_id", "frames_pending", "te_count"}},
    {"dpu_disp_frame_done_timeout",
     "disp_frame_done_timeout",
     "panel_index",
     "output_id",
     "frame_done_timeout",
     "frame_done_timeout",
     {"display_id", "output_id", "frames_pending", "te_count", "during_disable"}},
    {"dpu_disp_frame_start_missing",
     "disp_frame_start_missing",
     "panel_index",
     "output_id",
     "frame_start_missing",
     "frame_start_missing",
     {"display_id", "output_id", "frames_pending", "te_count"}},
    {"dpu_disp_frame_done_missing",
     "disp_frame_done_missing",
     "panel_index",
     "output_id",
     "frame_done_missing",
     "frame_done_missing",
     {"display_id", "output_id", "frames_pending", "te_count"}},
    {"dpu_disp_vblank_irq_enable",
     "disp_vblank_irq_enable",
     "display_id",
     "output_id",
     "vblank_irq_en",
     "disp_vblank_irq_enable",
     {"display_id=id", "output_id"}},
    {"gram_collision",
     "ddic_underrun",
     "panel_index",
     "panel_index",
     "ddic_underrun",
     "ddic_underrun",
     {"collision_cnt"}},
    {"panel_settings_full",
     "panel_settings_full",
     "panel_index",
     "panel_index",
     "panel_settings_full",
     "panel_settings_full",
     {"?hbm", "irc", "?h_pwm", "?fi_auto", "?fi_manual", "?early_exit", "min_rr", "max_rr",
      "te_freq"}},
    {"panel_settings_lite",
     "panel_settings_lite",
     "panel_index",
     "panel_index",
     "panel_settings_lite",
     "panel_settings_lite",
     {"?vrr", "min_rr", "max_rr", "te_freq"}},
};

static const struct display_form *form_find(const struct ftrace_event *event)
{
    for (size_t i = 0; i < ELEMENTS(forms); i++)
        if (strcmp(forms[i].event, event->type->name) == 0)
            return &forms[i];
    return NULL;
}

static size_t form_args(struct import *im, const struct display_form *form,
                        const struct ftrace_event *event, struct arg *args)
{
    size_t n = 0;
    for (; n < ARGS_MAX && form->args[n]; n++) {
        bool is_bool = *form->args[n] == '?';
        const char *key = form->args[n] + is_bool, *field = strchr(key, '=');
        int64_t value = ftrace_int(event, field ? field + 1 : key);
        if (field)
            key = ftrace_name(im, "%.*s", (int)(field - key), key).text;
        args[n] = arg_int(key, is_bool ? value != 0 : value);
        if (is_bool)
            args[n].type = ARG_BOOL;
    }
    return n;
}

static void display_event(struct import *im, const struct ftrace_event *event)
{
    const struct display_form *form = form_find(event);
    if (!form)
        return;
    uint32_t key = (uint32_t)ftrace_int(event, form->key);
    struct slice_name name = ftrace_name(im, "%s[%u]", form->track, key);
    struct track_spec track = {
        .type = form->type,
        .dimensions = {dimension_int(form->dimension, key)},
        .name = name.text,
        .name_size = name.size,
    };
    struct arg args[ARGS_MAX];
    struct slice_spec spec = {.ts = event->ts, .track = tracks_get(&im->tracks, &track)};
    bool is_span = strcmp(form->event, "dpu_disp_vblank_irq_enable") == 0;
    if (is_span && !ftrace_int(event, "enable")) {
        slice_end(&im->slices, &spec);
        return;
    }
    spec.name = slice_name(form->name);
    spec.args = args;
    spec.n_args = form_args(im, form, event, args);
    if (is_span)
        slice_begin(&im->slices, &spec);
    else
        slice_add(&im->slices, &spec);
}

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
    struct slice_name name = ftrace_name(im, "virtio_video stream #%u %s", stream, what);
    return (struct track_spec){
        .type = type,
        .dimensions = {dimension_int("virtio_stream_id", stream), dimension_int(dimension, key)},
        .name = name.text,
        .name_size = name.size,
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
    bool is_response = strcmp(event->type->name, "virtio_video_cmd_done") == 0;
    uint64_t command = (uint32_t)ftrace_int(event, "type") - UINT64_C(0x100);
    struct track_spec tracks = video_tracks(im, event, "virtio_video_command", "is_response",
                                            is_response, is_response ? "Responses" : "Requests");
    struct slice_spec spec = {
        .ts = event->ts,
        .dur = COMMAND_NSEC,
        .track = async_track_span(im, &tracks, event->ts, COMMAND_NSEC),
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
        .track = async_track_begin(im, &tracks, resource, false),
        .name = ftrace_name(im, "Resource #%d", (int)resource),
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
        .track = async_track_end(im, &tracks, resource),
        .args = args,
        .n_args = 8,
    };
    slice_end(&im->slices, &spec);
}

const struct ftrace_handler ftrace_display_handlers[] = {
    {"dpu_disp_dpu_underrun", display_event, false},
    {"dpu_disp_dpu_line_underrun", display_event, false},
    {"dpu_disp_frame_start_timeout", display_event, false},
    {"dpu_disp_frame_done_timeout", display_event, false},
    {"dpu_disp_frame_start_missing", display_event, false},
    {"dpu_disp_frame_done_missing", display_event, false},
    {"dpu_disp_vblank_irq_enable", display_event, false},
    {"gram_collision", display_event, false},
    {"panel_settings_full", display_event, false},
    {"panel_settings_lite", display_event, false},
    {"virtio_video_cmd", video_command, false},
    {"virtio_video_cmd_done", video_command, false},
    {"virtio_video_resource_queue", video_queue, false},
    {"virtio_video_resource_queue_done", video_queue_done, false},
    {0},
};
