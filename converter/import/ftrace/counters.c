// SPDX-License-Identifier: Apache-2.0
//
// Events that report a value of something: its counter is told apart by a field of the event, and
// its track named after that. What fits no such pattern has a function of its own.
#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"

#define IPV4_ETHERTYPE 2048
#define IPV6_ETHERTYPE 34525

// `key` may be a number or a text. The name's %s or %u stands for it; without one it is the name.
static const struct counter_form {
    const char *event, *type, *value;
    const char *dimension, *key; // NULL: none
    const char *name;
    bool is_text;
} forms[] = {
    {"cpu_frequency", "cpu_frequency", "state", "cpu", "cpu_id", "cpufreq", false},
    {"cpu_idle", "cpu_idle", "state", "cpu", "cpu_id", "cpuidle", false},
    {"dcvsh_freq", "cpu_frequency_throttle", "freq", "cpu", "cpu", "cpufreq_throttle", false},
    {"cpu_frequency_limits", "cpu_max_frequency_limit", "max_freq", "cpu", "cpu_id",
     "Cpu %u Max Freq Limit", false},
    {"cpu_frequency_limits", "cpu_min_frequency_limit", "min_freq", "cpu", "cpu_id",
     "Cpu %u Min Freq Limit", false},
    {"clock_set_rate", "clock_frequency", "state", "linux_device", "name", "%s Frequency", true},
    {"clock_enable", "clock_state", "state", "linux_device", "name", "%s State", true},
    {"clock_disable", "clock_state", "state", "linux_device", "name", "%s State", true},
    {"thermal_temperature", "thermal_temperature", "temp", "thermal_zone", "thermal_zone",
     "%s Temperature", true},
    {"cdev_update", "cooling_device_counter", "target", "linux_device", "type", "%s Cooling Device",
     true},
    {"sched_cpu_util_cfs", "cpu_utilization", "cpu_util", "cpu", "cpu", "Cpu %u Util", false},
    {"sched_cpu_util_cfs", "cpu_capacity", "capacity", "cpu", "cpu", "Cpu %u Cap", false},
    {"sched_cpu_util_cfs", "cpu_nr_running", "nr_running", "cpu", "cpu", "Cpu %u Nr Running",
     false},
    {"mali_gpu_power_state", "mali_gpu_power_state", "to_state", NULL, NULL, "mali_gpu_power_state",
     false},
};

static uint32_t form_track(struct import *im, const struct ftrace_event *event,
                           const struct counter_form *form)
{
    CLEANUP(strbuf_done) struct strbuf name = {0};
    struct track_spec spec = {.type = form->type, .counter = true};
    const char *mark = strchr(form->name, '%');
    if (form->is_text) {
        struct slice_name key = ftrace_text(event, form->key);
        spec.dimensions[0] = dimension_text(form->dimension, key.text, key.size);
        strbuf_add(&name, form->name, (size_t)(mark - form->name));
        strbuf_add(&name, key.text, key.size);
        strbuf_add_str(&name, mark + 2);
    } else {
        uint32_t key = form->key ? (uint32_t)ftrace_int(event, form->key) : 0;
        if (form->dimension)
            spec.dimensions[0] = dimension_int(form->dimension, key);
        strbuf_add(&name, form->name, mark ? (size_t)(mark - form->name) : strlen(form->name));
        if (mark)
            strbuf_addf(&name, "%u%s", key, mark + 2);
    }
    spec.name = name.text;
    spec.name_size = name.size;
    return tracks_get(&im->tracks, &spec);
}

static double unsigned_value(const struct ftrace_event *event, const char *field)
{
    const struct ftrace_field_type *type = ftrace_field_type_by_name(event->type, field);
    int64_t value = ftrace_int(event, field);
    return type && type->kind == FTRACE_KIND_UINT ? (double)(uint64_t)value : (double)value;
}

static void form_counters(struct import *im, const struct ftrace_event *event)
{
    for (size_t i = 0; i < ELEMENTS(forms); i++)
        if (strcmp(forms[i].event, event->type->name) == 0)
            counter_push(im, event->ts, form_track(im, event, &forms[i]),
                         unsigned_value(event, forms[i].value), ARG_SET_NONE);
}

void gpu_frequency_push(struct import *im, int64_t ts, uint32_t gpu, double khz)
{
    struct track_spec spec = {
        .type = "gpu_frequency",
        .unit = "kHz",
        .counter = true,
        .dimensions = {dimension_int("ugpu", gpus_get(im, gpu)), dimension_int("gpu", gpu)},
        .name = "gpufreq",
        .name_size = 7,
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), khz, ARG_SET_NONE);
}

static void gpu_frequency(struct import *im, const struct ftrace_event *event)
{
    gpu_frequency_push(im, event->ts, (uint32_t)ftrace_int(event, "gpu_id"),
                       (double)ftrace_int(event, "state"));
}

// Reports thousandths of what the others do.
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
        .name = name.text,
        .name_size = name.size,
    };
    counter_push(im, event->ts, tracks_get(&im->tracks, &spec),
                 (double)(uint64_t)ftrace_int(event, "freq"), ARG_SET_NONE);
}

// Bytes of a network interface since the trace began, in KiB.
static void network_push(struct import *im, const struct ftrace_event *event, const char *type,
                         const char *title)
{
    struct slice_name device = ftrace_text(event, "name");
    CLEANUP(strbuf_done) struct strbuf name = {0};
    strbuf_add(&name, device.text, device.size);
    strbuf_add_str(&name, title);
    struct track_spec spec = {
        .type = type,
        .counter = true,
        .dimensions = {dimension_text("network_interface", device.text, device.size)},
        .name = name.text,
        .name_size = name.size,
    };
    uint32_t track = tracks_get(&im->tracks, &spec);
    uint64_t len = (uint64_t)ftrace_int(event, "len");
    bool is_new;
    uint64_t *total = map64_get_or_add(&im->network_bytes, track, 0, &is_new);
    if (!total)
        return;
    *total += len;
    struct arg args[] = {arg_uint("cpu", event->cpu), arg_uint("len", len)};
    counter_push(im, event->ts, track, (double)(*total / 1024), args_add(&im->args, args, 2));
}

static void netif_receive_skb(struct import *im, const struct ftrace_event *event)
{
    network_push(im, event, "net_receive", " Received KB");
}

static void net_dev_xmit(struct import *im, const struct ftrace_event *event)
{
    if (!ftrace_int(event, "rc")) // the driver took it
        network_push(im, event, "net_transmit", " Transmitted KB");
}

static void kfree_skb(struct import *im, const struct ftrace_event *event)
{
    int64_t protocol = ftrace_int(event, "protocol");
    if (protocol != IPV4_ETHERTYPE && protocol != IPV6_ETHERTYPE)
        return;
    struct track_spec spec = {.type = "net_kfree_skb",
                              .counter = true,
                              .name = "Kfree Skb IP Prot",
                              .name_size = strlen("Kfree Skb IP Prot")};
    bool is_v4 = protocol == IPV4_ETHERTYPE;
    struct arg arg = arg_text("protocol", is_v4 ? "IP" : "IPV6", is_v4 ? 2 : 4);
    counter_push(im, event->ts, tracks_get(&im->tracks, &spec), (double)++im->n_dropped_packets,
                 args_add(&im->args, &arg, 1));
}

const struct ftrace_handler ftrace_counter_handlers[] = {
    {"cpu_frequency", form_counters, false},
    {"cpu_idle", form_counters, false},
    {"dcvsh_freq", form_counters, false},
    {"cpu_frequency_limits", form_counters, false},
    {"clock_set_rate", form_counters, false},
    {"clock_enable", form_counters, false},
    {"clock_disable", form_counters, false},
    {"thermal_temperature", form_counters, false},
    {"cdev_update", form_counters, false},
    {"sched_cpu_util_cfs", form_counters, false},
    {"mali_gpu_power_state", form_counters, false},
    {"gpu_frequency", gpu_frequency, false},
    {"kgsl_gpu_frequency", kgsl_gpu_frequency, false},
    {"devfreq_frequency", devfreq_frequency, false},
    {"netif_receive_skb", netif_receive_skb, false},
    {"net_dev_xmit", net_dev_xmit, false},
    {"kfree_skb", kfree_skb, false},
    {0},
};
