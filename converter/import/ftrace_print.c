// SPDX-License-Identifier: Apache-2.0
//
// Text that programs write into the kernel's trace_marker. Android's atrace has a form for begins
// and ends of slices, moments and counters: "B|PID|name", "E|PID", "I|PID|name",
// "C|PID|name|value". What has another form stays as it is in ftrace_event.
#include "common/str.h"
#include "converter/import/ftrace.h"

enum { PRINT_BUF = 2 };

struct marker {
    char phase;
    bool has_tgid;
    uint32_t tgid;
    struct slice_name name, rest; // between the second and third bar, and behind it
};

// Up to the next bar; *rest is behind it.
static struct slice_name part_take(struct slice_name *rest)
{
    const char *bar = rest->size ? memchr(rest->text, '|', rest->size) : NULL;
    struct slice_name part = {.text = rest->text,
                              .size = bar ? (size_t)(bar - rest->text) : rest->size};
    size_t skipped = part.size + (bar != NULL);
    rest->text += skipped;
    rest->size -= skipped;
    return part;
}

static bool marker_read(const struct wire_field *text, struct marker *ret)
{
    struct slice_name rest = {.text = field_text(text), .size = text->size};
    while (rest.size && (rest.text[rest.size - 1] == '\n' || rest.text[rest.size - 1] == '\0'))
        rest.size--;
    struct slice_name phase = part_take(&rest);
    if (phase.size != 1)
        return false;
    struct slice_name number = part_take(&rest);
    const char *cursor = number.text;
    uint64_t tgid;
    *ret = (struct marker){.phase = *phase.text, .rest = rest};
    if (number.size && str_scan_u64(&cursor, number.text + number.size, &tgid) &&
        cursor == number.text + number.size && tgid <= UINT32_MAX) {
        ret->has_tgid = true;
        ret->tgid = (uint32_t)tgid;
    }
    return true;
}

static uint32_t thread_track(struct import *im, const struct ftrace_event *event,
                             const struct marker *marker)
{
    int64_t utid = marker->tgid ? processes_update_thread(&im->processes, event->pid, marker->tgid)
                                : processes_thread(&im->processes, event->pid);
    struct track_spec spec = {.type = "thread_execution",
                              .dimensions = {dimension_int("utid", utid)}};
    return tracks_get(&im->tracks, &spec);
}

static bool counter_read(struct slice_name *rest, struct slice_name *ret_name, int64_t *ret)
{
    *ret_name = part_take(rest);
    struct slice_name value = part_take(rest);
    char text[24];
    if (!ret_name->size || !value.size || value.size >= sizeof(text))
        return false;
    memcpy(text, value.text, value.size);
    text[value.size] = '\0';
    return str_parse_i64(text, ret) == 0;
}

static void counter_write(struct import *im, const struct ftrace_event *event,
                          const struct marker *marker, struct slice_name name, int64_t value)
{
    int64_t upid = processes_process(&im->processes, marker->tgid);
    int64_t utid = processes_find_thread(&im->processes, event->pid);
    struct track_spec spec = {
        .type = "atrace_counter",
        .counter = true,
        .dimensions = {dimension_int("upid", upid), dimension_text("name", name.text, name.size)},
        .name = name.text,
        .name_size = name.size,
    };
    struct arg arg = arg_uint("utid", (uint64_t)utid);
    int64_t set = utid == UTID_NONE ? ARG_SET_NONE : args_add(&im->args, &arg, 1);
    counter_push(im, event->ts, tracks_get(&im->tracks, &spec), (double)value, set);
}

static void print(struct import *im, const struct ftrace_event *event)
{
    MESSAGE(message, PRINT_BUF, &event->message);
    struct marker marker;
    struct slice_spec spec = {.ts = event->ts};
    struct slice_name name;
    int64_t value;
    bool understood = marker_read(&message[PRINT_BUF], &marker);
    switch (understood ? marker.phase : 0) {
    case 'B':
        understood = marker.has_tgid;
        if (!understood)
            break;
        spec.name = marker.rest.size ? marker.rest : slice_name("[empty slice name]");
        spec.track = thread_track(im, event, &marker);
        slice_begin(&im->slices, &spec);
        break;
    case 'E':
        if (!marker.tgid && processes_find_thread(&im->processes, event->pid) == UTID_NONE)
            break;
        spec.track = thread_track(im, event, &marker);
        slice_end(&im->slices, &spec);
        break;
    case 'I':
        spec.name = part_take(&marker.rest);
        understood = marker.has_tgid && spec.name.size;
        if (!understood)
            break;
        spec.track = thread_track(im, event, &marker);
        slice_add(&im->slices, &spec);
        break;
    case 'C':
        understood = marker.has_tgid && counter_read(&marker.rest, &name, &value);
        if (understood)
            counter_write(im, event, &marker, name, value);
        break;
    default:
        understood = false;
    }
    if (!understood)
        stats_add(&im->stats, STAT_systrace_parse_failure, 1);
}

const struct ftrace_handler ftrace_print_handlers[] = {
    {"print", print},
    {0},
};
