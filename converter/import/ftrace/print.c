// SPDX-License-Identifier: Apache-2.0
//
// Text that programs write into the kernel's trace_marker. Android's atrace has a form for it:
// "B|PID|name", "E|PID", "I|PID|name", "S|PID|name|cookie", "F|PID|name|cookie",
// "N|PID|track|name", "G|PID|track|name|cookie", "H|PID|track|cookie", "C|PID|name|value". What has
// another form stays as it is in ftrace_event. Some drivers have events with the same meaning.
#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/ftrace/systrace.h"
#include "protos/fields.h"

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

static bool number_read(struct slice_name part, int64_t *ret)
{
    char text[24];
    if (!part.size || part.size >= sizeof(text))
        return false;
    memcpy(text, part.text, part.size);
    text[part.size] = '\0';
    return str_parse_i64(text, ret) == 0;
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
        marker->name = part_take(&rest);
        return has_tgid && marker->name.size;
    case 'S':
    case 'F':
    case 'C':
        marker->name = part_take(&rest);
        return has_tgid && marker->name.size && number_read(part_take(&rest), &marker->value);
    case 'N':
        marker->track = part_take(&rest);
        marker->name = part_take(&rest);
        return has_tgid && marker->track.size && marker->name.size;
    case 'G':
        marker->track = part_take(&rest);
        marker->name = part_take(&rest);
        return has_tgid && marker->track.size && marker->name.size &&
               number_read(part_take(&rest), &marker->value);
    case 'H': // its name, if it has one, says nothing new
        marker->track = part_take(&rest);
        part = part_take(&rest);
        if (rest.size)
            part = part_take(&rest);
        return has_tgid && marker->track.size && number_read(part, &marker->value);
    default:
        return false;
    }
}

static bool marker_read(struct slice_name rest, struct marker *ret)
{
    struct slice_name phase = part_take(&rest), number = part_take(&rest);
    int64_t tgid;
    bool has_tgid = number_read(number, &tgid) && tgid >= 0 && tgid <= UINT32_MAX;
    *ret = (struct marker){.tgid = has_tgid ? (uint32_t)tgid : 0};
    if (phase.size != 1)
        return false;
    ret->phase = *phase.text;
    return parts_read(rest, has_tgid, ret);
}

static void print(struct import *im, const struct ftrace_event *event)
{
    static const char clock_sync[] = "trace_event_clock_sync:";
    MESSAGE(message, PrintFtraceEvent, &event->message);
    const struct wire_field *buf = &message.buf;
    struct slice_name text = {.text = field_text(buf), .size = buf->size};
    while (text.size && (text.text[text.size - 1] == '\n' || text.text[text.size - 1] == '\0'))
        text.size--;
    ftrace_end_write(im, event);
    struct marker marker;
    if (marker_read(text, &marker))
        marker_write(im, event->ts, event->pid, &marker);
    else if (text.size < sizeof(clock_sync) - 1 ||
             memcmp(text.text, clock_sync, sizeof(clock_sync) - 1) != 0)
        stats_add(&im->stats, STAT_systrace_parse_failure, 1);
}

// Where a vendor's event has what.
struct marker_form {
    const char *type, *name;
    bool has_begin;     // "trace_begin" says whether it is a begin or an end, if there is no type
    bool distrust_tgid; // of slices: the process is not the thread's
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

// Qualcomm's form: flags say what it is.
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
    driver_mark, .detail = &(const struct marker_form)                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const struct ftrace_handler handlers[] = {
    {"print", print},
    {"zero", zero},
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

const struct ftrace_subject ftrace_print = {.handlers = handlers};
