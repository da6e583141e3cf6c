// SPDX-License-Identifier: Apache-2.0
//
// Events that report a value. A field of the event identifies the counter and names its track.
#include "common/cleanup.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/gpu/gpu.h"

#define CLOCK(a_type, a_track)                                                                     \
    FORM_COUNTER, .type = (a_type), .key = "linux_device=name", .track = (a_track), .value = "state"

static void gpu_frequency(struct import *im, const struct ftrace_event *event)
{
    gpu_frequency_push(im, event->ts, (uint32_t)ftrace_int(event, "gpu_id"),
                       (double)ftrace_int(event, "state"));
}

// Adds the frequency of a GPU in the unit of gpu_frequency. The event's unit is 1,000 times larger.
static void kgsl_gpu_frequency(struct import *im, const struct ftrace_event *event)
{
    gpu_frequency_push(im, event->ts, (uint32_t)ftrace_int(event, "gpu_id"),
                       (double)ftrace_int(event, "gpu_freq") * 1000);
}

static void devfreq_frequency(struct import *im, const struct ftrace_event *event)
{
    static const char prefix[] = "devfreq_";
    struct slice_name device = ftrace_text(event, "dev_name");
    const char *at = memmem(device.text, device.size, prefix, sizeof(prefix) - 1);
    CLEANUP(strbuf_done) struct strbuf name = {0};
    if (!at)
        strbuf_add_str(&name, prefix);
    size_t skipped = at ? (size_t)(at - device.text) : 0;
    strbuf_add(&name, device.text + skipped, device.size - skipped);
    struct track_spec spec = {
        .type = "linux_device_frequency",
        .counter = true,
        .dimensions = {dimension_text("linux_device", device.text, device.size)},
        .name = {name.text, name.size},
    };
    counter_push(im, event->ts, tracks_get(&im->tracks, &spec),
                 (double)(uint64_t)ftrace_int(event, "freq"), ARG_SET_NONE);
}

static const struct ftrace_form forms[] = {
    {"cpu_frequency", FORM_COUNTER, .type = "cpu_frequency", .key = "cpu=cpu_id",
     .track = "cpufreq", .value = "state"},
    {"cpu_idle", FORM_COUNTER, .type = "cpu_idle", .key = "cpu=cpu_id", .track = "cpuidle",
     .value = "state"},
    {"dcvsh_freq", FORM_COUNTER, .type = "cpu_frequency_throttle", .key = "cpu=cpu:u",
     .track = "cpufreq_throttle", .value = "freq"},
    {"cpu_frequency_limits", FORM_COUNTER, .type = "cpu_max_frequency_limit", .key = "cpu=cpu_id",
     .track = "Cpu {cpu_id} Max Freq Limit", .value = "max_freq"},
    {"", FORM_COUNTER, .type = "cpu_min_frequency_limit", .key = "cpu=cpu_id",
     .track = "Cpu {cpu_id} Min Freq Limit", .value = "min_freq"},
    {"clock_set_rate", CLOCK("clock_frequency", "{name} Frequency")},
    {"clock_enable", CLOCK("clock_state", "{name} State")},
    {"clock_disable", CLOCK("clock_state", "{name} State")},
    {"thermal_temperature", FORM_COUNTER, .type = "thermal_temperature", .key = "thermal_zone",
     .track = "{thermal_zone} Temperature", .value = "temp"},
    {"cdev_update", FORM_COUNTER, .type = "cooling_device_counter", .key = "linux_device=type",
     .track = "{type} Cooling Device", .value = "target"},
    {"sched_cpu_util_cfs", FORM_COUNTER, .type = "cpu_utilization", .key = "cpu",
     .track = "Cpu {cpu} Util", .value = "cpu_util"},
    {"", FORM_COUNTER, .type = "cpu_capacity", .key = "cpu", .track = "Cpu {cpu} Cap",
     .value = "capacity"},
    {"", FORM_COUNTER, .type = "cpu_nr_running", .key = "cpu", .track = "Cpu {cpu} Nr Running",
     .value = "nr_running"},
    {"mali_gpu_power_state", FORM_COUNTER, .type = "mali_gpu_power_state",
     .track = "mali_gpu_power_state", .value = "to_state"},
    {"gpu_frequency", FORM_CALL(gpu_frequency)},
    {"kgsl_gpu_frequency", FORM_CALL(kgsl_gpu_frequency)},
    {"devfreq_frequency", FORM_CALL(devfreq_frequency)},
    {0},
};

const struct ftrace_subject ftrace_counters = {.forms = forms};
