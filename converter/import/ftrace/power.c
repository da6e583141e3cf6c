// SPDX-License-Identifier: Apache-2.0
//
// Suspend and resume of the machine and its devices, and wake-up sources. Steps of a suspend
// overlap, so each step takes a free track by its name.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

#define STEP_NAME_MAX 63 // bytes, as in Perfetto
#define LOCK_NAME_MAX 31

// A suspend that fails in freeze_processes lacks the end of suspend_enter. thaw_processes within
// suspend_enter happens only after such a failure, and ends the slice of suspend_enter.
enum suspend_state { SUSPEND_INITIAL, SUSPEND_ENTER, SUSPEND_FREEZE };

struct power {
    struct map64 wake_locks; // string -> number of activations
    enum suspend_state state;
    int64_t cookie; // of the open suspend_enter
};

static const struct track_spec steps = {
    .type = "suspend_resume",
    .name = SLICE_NAME("Suspend/Resume Latency"),
};

static int64_t step_cookie(struct import *im, struct slice_name name)
{
    return strset_add(&im->strings, name.text, name.size);
}

static void step_end(struct import *im, int64_t ts, int64_t cookie)
{
    slice_close(&im->slices, ts, async_track_end(&im->async_tracks, &steps, cookie));
}

// Begins the slice of a step. `driver`, `device` and `phase` are empty if the step has no device.
static void step_begin(struct import *im, const struct ftrace_event *event, struct slice_name name,
                       const char *kind, struct slice_name device, struct slice_name driver,
                       struct slice_name phase)
{
    int64_t utid = processes_thread(&im->processes, event->pid);
    struct arg args[] = {
        arg_uint("utid", (uint64_t)utid), arg_name("event_type", slice_name(kind)),
        arg_uint("cpu", event->cpu),      arg_name("device_name", device),
        arg_name("driver_name", driver),  arg_name("callback_phase", phase),
    };
    struct slice_spec spec = {
        .ts = event->ts,
        .track = async_track_begin(&im->async_tracks, &steps, step_cookie(im, name), false),
        .name = name,
        .args = args,
        .n_args = 6,
    };
    slice_begin(&im->slices, &spec);
}

static void suspend_resume(struct import *im, const struct ftrace_event *event)
{
    struct power *power = event->own;
    struct slice_name action = ftrace_text(event, "action"), none = {.text = ""};
    // The value of timekeeping_freeze is the CPU, which may differ at the end.
    int value = name_is(action, "timekeeping_freeze") ? 0 : (int)ftrace_int(event, "val");
    struct slice_name name =
        name_cut(import_text(im, "%.*s(%d)", (int)name_cut(action, 256).size, action.text, value),
                 STEP_NAME_MAX);
    int64_t cookie = step_cookie(im, name);
    if (ftrace_int(event, "start")) {
        if (name_is(action, "suspend_enter")) {
            power->state = SUSPEND_ENTER;
            power->cookie = cookie;
        } else if (name_is(action, "freeze_processes") && power->state == SUSPEND_ENTER) {
            power->state = SUSPEND_FREEZE;
        }
        step_begin(im, event, name, "Main Kernel Suspend Event", none, none, none);
        return;
    }
    step_end(im, event->ts, cookie);
    if (name_is(action, "suspend_enter")) {
        power->state = SUSPEND_INITIAL;
    } else if (name_is(action, "thaw_processes") && power->state == SUSPEND_FREEZE) {
        step_end(im, event->ts, power->cookie);
        power->state = SUSPEND_INITIAL;
    }
}

static struct slice_name callback_name(struct import *im, const struct ftrace_event *event)
{
    struct slice_name device = name_cut(ftrace_text(event, "device"), 200);
    struct slice_name driver = name_cut(ftrace_text(event, "driver"), 200);
    return import_text(im, "%.*s %.*s", (int)device.size, device.text, (int)driver.size,
                       driver.text);
}

// Returns the phase of a callback. The kernel leaves pm_ops empty for prepare and complete.
static struct slice_name callback_phase(struct import *im, const struct ftrace_event *event)
{
    static const char *const messages[] = {
        "freeze", "suspend", "hibernate", "quiesce", "resume", "thaw", "restore", "recover",
    };
    static const char *const phases[] = {"early", "late", "noirq"};
    uint64_t bit = (uint64_t)ftrace_int(event, "event");
    const char *message = "(unknown PM event)";
    for (size_t i = 0; i < ELEMENTS(messages); i++)
        if (bit == 1u << i)
            message = messages[i];
    struct slice_name ops = ftrace_text(event, "pm_ops");
    if (!ops.size && str_eq(message, "suspend"))
        return slice_name("suspend:prepare");
    if (!ops.size && str_eq(message, "resume"))
        return slice_name("resume:complete");
    for (size_t i = 0; i < ELEMENTS(phases); i++)
        if (name_begins(ops, phases[i]))
            return import_text(im, "%s:%s", message, phases[i]);
    return slice_name(message);
}

static void device_pm_callback_start(struct import *im, const struct ftrace_event *event)
{
    step_begin(im, event, callback_name(im, event), "Device PM Suspend Event",
               ftrace_text(event, "device"), ftrace_text(event, "driver"),
               callback_phase(im, event));
}

static void device_pm_callback_end(struct import *im, const struct ftrace_event *event)
{
    step_end(im, event->ts, step_cookie(im, callback_name(im, event)));
}

#define MINIMAL .type = "suspend_resume_minimal", .track = "Suspend/Resume Minimal"
#define RPM     .type = "linux_rpm", .key = "linux_device=name", .counts = true

static uint32_t lock_track(struct import *im, struct slice_name source, struct slice_name *ret_name)
{
    *ret_name =
        name_cut(import_text(im, "Wakelock(%.*s)", (int)name_cut(source, 256).size, source.text),
                 LOCK_NAME_MAX);
    struct track_spec track = {
        .type = "wakesource_wakelock",
        .dimensions = {dimension_text("wakelock_event", source.text, source.size)},
        .name = {ret_name->text, ret_name->size},
    };
    return tracks_get(&im->tracks, &track);
}

// Returns the number of activations of a source. A source may be activated several times, and its
// slice ends with the last deactivation.
static uint64_t *lock_count(struct import *im, const struct ftrace_event *event,
                            struct slice_name source)
{
    struct power *power = event->own;
    bool is_new;
    return import_map_get(im, &power->wake_locks,
                          strset_add(&im->strings, source.text, source.size), 0, &is_new);
}

static void wakeup_source_activate(struct import *im, const struct ftrace_event *event)
{
    struct slice_name source = ftrace_text(event, "name");
    uint64_t *count = lock_count(im, event, source);
    if (!count || (*count)++)
        return;
    struct slice_spec spec = {.ts = event->ts};
    spec.track = lock_track(im, source, &spec.name);
    slice_begin(&im->slices, &spec);
}

static void wakeup_source_deactivate(struct import *im, const struct ftrace_event *event)
{
    struct slice_name source = ftrace_text(event, "name"), name;
    uint64_t *count = lock_count(im, event, source);
    if (!count || !*count || --*count)
        return;
    slice_close(&im->slices, event->ts, lock_track(im, source, &name));
}

static const struct ftrace_form forms[] = {
    {"suspend_resume_minimal", FORM_BEGIN, MINIMAL, .when = "start", .name = "Suspended"},
    {"", FORM_END, MINIMAL, .when = "!start"},
    // Runtime states of a device; a suspended device has no slice.
    {"rpm_status", FORM_END, RPM},
    {"", FORM_BEGIN, RPM, .when = "status!=2",
     .name = "{status?Active,Resuming,,Suspending;Invalid State}"},
    {"suspend_resume", FORM_CALL(suspend_resume)},
    {"device_pm_callback_start", FORM_CALL(device_pm_callback_start)},
    {"device_pm_callback_end", FORM_CALL(device_pm_callback_end)},
    {"wakeup_source_activate", FORM_CALL(wakeup_source_activate)},
    {"wakeup_source_deactivate", FORM_CALL(wakeup_source_deactivate)},
    {0},
};

const struct ftrace_subject ftrace_power = {
    .forms = forms,
    .state_size = sizeof(struct power),
    .n_maps = 1,
};
