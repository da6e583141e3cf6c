// SPDX-License-Identifier: Apache-2.0
//
// Text that programs write into the kernel's trace_marker. Android's atrace defines the format:
// "B|PID|name", "E|PID", "I|PID|name", "S|PID|name|cookie", "F|PID|name|cookie",
// "N|PID|track|name", "G|PID|track|name|cookie", "H|PID|track|cookie", "C|PID|name|value". Other
// text is in ftrace_event only. Events of some drivers have the same meaning as markers.
//
// The marker of a slice names the thread's process, because a thread reports its own slices. The
// marker of a counter may name another process: drivers report counters from any thread.
//
// Some names have a meaning: Android's low memory killer reports its victims in slices and
// counters.
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/process/process_counters.h"
#include "protos/fields.h"

struct marker {
    // B, E: a slice of the thread; I: an instant of the thread; S, F: a slice of the process, by
    // cookie; N: an instant on a named track of the process; G, H: a slice on a named track, by
    // cookie; C: a counter.
    char phase;
    uint32_t tgid;
    struct slice_name name;
    struct slice_name track; // of N, G, H
    int64_t value;           // of C; otherwise the cookie
};

// Returns the text up to the next separator, and moves *rest past it.
static struct slice_name part_take(struct slice_name *rest, char separator)
{
    const char *bar = rest->size ? memchr(rest->text, separator, rest->size) : NULL;
    struct slice_name part = {.text = rest->text,
                              .size = bar ? (size_t)(bar - rest->text) : rest->size};
    size_t skipped = part.size + (bar != NULL);
    rest->text += skipped;
    rest->size -= skipped;
    return part;
}

static bool number_read(struct slice_name part, int64_t *ret)
{
    char text[24];
    if (!part.size || part.size >= sizeof(text))
        return false;
    memcpy(text, part.text, part.size);
    text[part.size] = '\0';
    return str_parse_i64(text, ret) == 0;
}

static uint32_t thread_track(struct import *im, uint32_t tid, const struct marker *marker)
{
    int64_t utid = marker->tgid ? processes_update_thread(&im->processes, tid, marker->tgid)
                                : processes_thread(&im->processes, tid);
    return thread_track_get(im, utid);
}

static void victim_write(struct import *im, int64_t ts, int64_t upid)
{
    struct track_spec track = {
        .type = "android_lmk",
        .dimensions = {dimension_int("upid", upid)},
        .name = slice_name("LMK"),
    };
    struct slice_spec spec = {
        .ts = ts, .track = tracks_get(&im->tracks, &track), .name = slice_name("mem.lmk")};
    slice_add(&im->slices, &spec);
}

// Reads "lmk,PID,REASON,OOM_SCORE_ADJ,...", the name of a slice in which a process is killed.
static void killer_read(struct import *im, int64_t ts, struct slice_name name)
{
    int64_t pid, score;
    part_take(&name, ',');
    if (!number_read(part_take(&name, ','), &pid) || pid < 0 || pid > UINT32_MAX)
        return;
    part_take(&name, ',');
    if (!number_read(part_take(&name, ','), &score) || score < INT32_MIN || score > INT32_MAX)
        return;
    int64_t upid = processes_process(&im->processes, pid);
    uint32_t track = process_counter_track(im, upid, PROCESS_COUNTER_OOM_SCORE, NULL, NULL);
    counter_push(im, ts, track, (double)score, ARG_SET_NONE);
    victim_write(im, ts, upid);
}

static void global_counter(struct import *im, int64_t ts, const struct marker *marker,
                           const struct track_spec *spec)
{
    counter_push(im, ts, tracks_get(&im->tracks, spec), (double)marker->value, ARG_SET_NONE);
}

static void counter_write(struct import *im, int64_t ts, uint32_t tid, const struct marker *marker)
{
    struct slice_name name = marker->name;
    if (name_is(name, "ScreenState")) {
        struct track_spec screen = {
            .type = "screen_state", .counter = true, .name = slice_name("ScreenState")};
        global_counter(im, ts, marker, &screen);
        return;
    }
    if (name_begins(name, "battery_stats.")) {
        struct track_spec battery = {
            .type = "battery_stats",
            .counter = true,
            .dimensions = {dimension_text("counter_key", name.text, name.size)},
            .name = name,
        };
        global_counter(im, ts, marker, &battery);
        return;
    }
    // The value is the pid of the killed process, or 0 at the end.
    if (name_is(name, "kill_one_process") && (uint32_t)marker->value)
        victim_write(im, ts, processes_process(&im->processes, (uint32_t)marker->value));
    int64_t upid = processes_process(&im->processes, marker->tgid);
    int64_t utid = processes_find_thread(&im->processes, tid);
    struct track_spec spec = {
        .type = "atrace_counter",
        .counter = true,
        .dimensions = {dimension_int("upid", upid), dimension_text("name", name.text, name.size)},
        .name = name,
    };
    struct arg arg = arg_uint("utid", (uint64_t)utid);
    int64_t set = utid == UTID_NONE ? ARG_SET_NONE : args_add(&im->args, &arg, 1);
    counter_push(im, ts, tracks_get(&im->tracks, &spec), (double)marker->value, set);
}

static struct track_spec process_spec(struct import *im, const char *type, uint32_t tgid,
                                      struct slice_name name)
{
    return (struct track_spec){
        .type = type,
        .dimensions = {dimension_int("upid", processes_process(&im->processes, tgid)),
                       dimension_text("name", name.text, name.size)},
        .name = name,
    };
}

// Handles S and F. Some programs begin the same slice repeatedly: only the first begin counts.
static void process_slice(struct import *im, int64_t ts, const struct marker *marker)
{
    struct track_spec track = process_spec(im, "atrace_async_slice", marker->tgid, marker->name);
    struct arg cookie = arg_int("cookie", marker->value);
    struct slice_spec spec = {.ts = ts};
    if (marker->phase == 'S') {
        spec.track = async_track_begin(&im->async_tracks, &track, marker->value, true);
        spec.name = marker->name;
        spec.args = &cookie;
        spec.n_args = 1;
        spec.single = true;
        slice_begin(&im->slices, &spec);
    } else {
        spec.track = async_track_end(&im->async_tracks, &track, marker->value);
        slice_end(&im->slices, &spec);
    }
}

// Handles N, G and H.
static void named_track(struct import *im, int64_t ts, uint32_t tid, const struct marker *marker)
{
    struct slice_spec spec = {.ts = ts, .name = marker->name};
    if (marker->phase == 'N' && name_is(marker->track, "DeviceStateChanged")) {
        struct track_spec state = {.type = "android_device_state",
                                   .name = slice_name("DeviceStateChanged")};
        spec.track = tracks_get(&im->tracks, &state);
        slice_add(&im->slices, &spec);
        return;
    }
    struct track_spec track =
        process_spec(im, "atrace_async_slice_for_track", marker->tgid, marker->track);
    bool ends = marker->phase == 'H';
    if (marker->phase == 'N')
        spec.track = async_track_span(&im->async_tracks, &track, ts, 0);
    else
        spec.track = ends ? async_track_end(&im->async_tracks, &track, marker->value)
                          : async_track_begin(&im->async_tracks, &track, marker->value, false);
    struct arg arg =
        arg_uint(ends ? "end_utid" : "utid", (uint64_t)processes_thread(&im->processes, tid));
    spec.args = &arg;
    spec.n_args = 1;
    if (ends) {
        spec.name = (struct slice_name){0};
        slice_end(&im->slices, &spec);
    } else if (marker->phase == 'G') {
        slice_begin(&im->slices, &spec);
    } else {
        slice_add(&im->slices, &spec);
    }
}

// Writes the rows of a marker. Texts from outside the trace must live as long as cells do.
static void marker_write(struct import *im, int64_t ts, uint32_t tid, const struct marker *marker)
{
    struct slice_spec spec = {.ts = ts, .name = marker->name};
    switch (marker->phase) {
    case 'B':
        spec.track = thread_track(im, tid, marker);
        slice_begin(&im->slices, &spec);
        if (name_begins(marker->name, "lmk,"))
            killer_read(im, ts, marker->name);
        break;
    case 'E':
        if (!marker->tgid && processes_find_thread(&im->processes, tid) == UTID_NONE)
            break;
        spec.name = (struct slice_name){0};
        spec.track = thread_track(im, tid, marker);
        slice_end(&im->slices, &spec);
        break;
    case 'I':
        spec.track = thread_track(im, tid, marker);
        slice_add(&im->slices, &spec);
        break;
    case 'S':
    case 'F':
        process_slice(im, ts, marker);
        break;
    case 'N':
    case 'G':
    case 'H':
        named_track(im, ts, tid, marker);
        break;
    case 'C':
        counter_write(im, ts, tid, marker);
        break;
    default:
        break;
    }
}

static bool parts_read(struct slice_name rest, bool has_tgid, struct marker *marker)
{
    struct slice_name part;
    switch (marker->phase) {
    case 'B':
        marker->name = rest.size ? rest : slice_name("[empty slice name]");
        return has_tgid;
    case 'E':
        return true;
    case 'I':
        marker->name = part_take(&rest, '|');
        return has_tgid && marker->name.size;
    case 'S':
    case 'F':
    case 'C':
        marker->name = part_take(&rest, '|');
        return has_tgid && marker->name.size && number_read(part_take(&rest, '|'), &marker->value);
    case 'N':
        marker->track = part_take(&rest, '|');
        marker->name = part_take(&rest, '|');
        return has_tgid && marker->track.size && marker->name.size;
    case 'G':
        marker->track = part_take(&rest, '|');
        marker->name = part_take(&rest, '|');
        return has_tgid && marker->track.size && marker->name.size &&
               number_read(part_take(&rest, '|'), &marker->value);
    case 'H': // the name, if any, is redundant
        marker->track = part_take(&rest, '|');
        part = part_take(&rest, '|');
        if (rest.size)
            part = part_take(&rest, '|');
        return has_tgid && marker->track.size && number_read(part, &marker->value);
    default:
        return false;
    }
}

static bool marker_read(struct slice_name rest, struct marker *ret)
{
    struct slice_name phase = part_take(&rest, '|'), number = part_take(&rest, '|');
    int64_t tgid;
    bool has_tgid = number_read(number, &tgid) && tgid >= 0 && tgid <= UINT32_MAX;
    struct marker marker = {.tgid = has_tgid ? (uint32_t)tgid : 0};
    if (phase.size == 1)
        marker.phase = *phase.text;
    if (!parts_read(rest, has_tgid, &marker))
        return false;
    *ret = marker;
    return true;
}

static void print(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(message, PrintFtraceEvent, &event->message);
    struct slice_name text = field_name(&message.buf);
    while (text.size && (text.text[text.size - 1] == '\n' || text.text[text.size - 1] == '\0'))
        text.size--;
    ftrace_end_write(im, event);
    struct marker marker;
    if (marker_read(text, &marker))
        marker_write(im, event->ts, event->pid, &marker);
    else if (!name_begins(text, "trace_event_clock_sync:"))
        stats_add(&im->stats, STAT_systrace_parse_failure, 1);
}

// Fields of a vendor's event.
struct marker_form {
    const char *type, *name;
    bool has_begin;     // without a type, "trace_begin" distinguishes a begin from an end
    bool distrust_tgid; // slices: the pid may be of a process other than the thread's process
};

static char form_phase(const struct ftrace_event *event, const struct marker_form *form)
{
    char type = form->type ? (char)ftrace_int(event, form->type) : 0;
    if (type)
        return strchr("BECI", type) ? type : 0;
    if (!form->has_begin || (!form->type && !ftrace_has(event, "trace_begin")))
        return 0;
    if (form->type && !ftrace_has(event, form->type) && !ftrace_has(event, "trace_begin"))
        return 0;
    return ftrace_int(event, "trace_begin") ? 'B' : 'E';
}

static void driver_mark(struct import *im, const struct ftrace_event *event)
{
    const struct marker_form *form = event->detail;
    struct marker marker = {
        .phase = form_phase(event, form),
        .tgid = (uint32_t)ftrace_int(event, "pid"),
        .name = ftrace_text(event, form->name),
        .value = ftrace_int(event, "value"),
    };
    if (!marker.phase) {
        stats_add(&im->stats, STAT_systrace_parse_failure, 1);
        return;
    }
    if (form->distrust_tgid && marker.phase != 'C')
        marker.tgid = 0;
    marker_write(im, event->ts, event->pid, &marker);
}

// Handles Qualcomm's event: flags determine the phase.
static void zero(struct import *im, const struct ftrace_event *event)
{
    enum { FLAG_BEGIN = 1, FLAG_END = 2, FLAG_VALUE = 4 };
    int64_t flags = ftrace_int(event, "flag");
    struct marker marker = {
        .tgid = (uint32_t)ftrace_int(event, "pid"),
        .name = ftrace_text(event, "name"),
        .value = ftrace_int(event, "value"),
    };
    if (flags & FLAG_BEGIN)
        marker.phase = 'B';
    else if (flags & FLAG_END)
        marker.phase = 'E';
    else if (flags & FLAG_VALUE)
        marker.phase = 'C';
    if (marker.phase)
        marker_write(im, event->ts, event->pid, &marker);
    else
        stats_add(&im->stats, STAT_systrace_parse_failure, 1);
}

#define MARKER(...)                                                                                \
    FORM_CALL(driver_mark), .detail = &(const struct marker_form)                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const struct ftrace_form forms[] = {
    {"print", FORM_CALL(print)},
    {"zero", FORM_CALL(zero)},
    {"tracing_mark_write", MARKER(NULL, "trace_name", .has_begin = true)},
    {"sde_tracing_mark_write", MARKER("trace_type", "trace_name", .has_begin = true)},
    {"samsung_tracing_mark_write", MARKER("trace_type", "trace_name")},
    {"dpu_tracing_mark_write", MARKER("type", "name", .distrust_tgid = true)},
    {"g2d_tracing_mark_write", MARKER("type", "name")},
    {"mali_tracing_mark_write", MARKER("type", "name")},
    {"lwis_tracing_mark_write", MARKER("type", "func_name")},
    {"panel_write_generic", MARKER("type", "name", .distrust_tgid = true)},
    {0},
};

const struct ftrace_subject ftrace_print = {.forms = forms};
