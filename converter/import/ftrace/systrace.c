// SPDX-License-Identifier: Apache-2.0
//
// The process that a marker names is believed for slices, because a thread reports them of itself.
// It is not believed for counters: drivers report those from wherever they happen to run.
//
// Some names mean more: Android's low memory killer tells of its victims in slices and counters.
#include "converter/import/ftrace/systrace.h"

#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/process/process_counters.h"

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

static bool number_take(struct slice_name *rest, int64_t *ret)
{
    const char *comma = rest->size ? memchr(rest->text, ',', rest->size) : NULL;
    size_t size = comma ? (size_t)(comma - rest->text) : rest->size;
    char text[24];
    if (size >= sizeof(text))
        return false;
    if (size)
        memcpy(text, rest->text, size);
    text[size] = '\0';
    rest->text += size + (comma != NULL);
    rest->size -= size + (comma != NULL);
    return str_parse_i64(text, ret) == 0;
}

// "lmk,PID,REASON,OOM_SCORE_ADJ,...": the begin of a slice in which a process is killed.
static void killer_read(struct import *im, int64_t ts, struct slice_name name)
{
    struct slice_name rest = {.text = name.text + 4, .size = name.size - 4};
    int64_t pid, reason, score;
    if (!number_take(&rest, &pid) || pid < 0 || pid > UINT32_MAX)
        return;
    number_take(&rest, &reason);
    if (!number_take(&rest, &score) || score < INT32_MIN || score > INT32_MAX)
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
    // The value is the pid of a process that is killed, and 0 when that is done.
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

// S and F. Programs are known to begin the same slice again and again: only the first counts.
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

// N, G and H.
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

void marker_write(struct import *im, int64_t ts, uint32_t tid, const struct marker *marker)
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
