// SPDX-License-Identifier: Apache-2.0
//
// TCP sockets, and what single vendors' drivers tell: states of GPUs and their shares of users,
// interconnects, sensors, temperatures, kswapd, and limits that a battery sets.
#include <errno.h>
#include <math.h>

#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"

enum { AF_IPV4 = 2, AF_IPV6 = 10, PROTOCOL_TCP = 6 };
enum { TCP_IS_ESTABLISHED = 1, TCP_HAS_SENT_SYN = 2, N_TCP_STATES = 13 };

static const char *const tcp_states[N_TCP_STATES] = {
    "TCP_UNKNOWN",   "TCP_ESTABLISHED", "TCP_SYN_SENT",     "TCP_SYN_RECV",   "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2", "TCP_TIME_WAIT",   "TCP_CLOSE",        "TCP_CLOSE_WAIT", "TCP_LAST_ACK",
    "TCP_LISTEN",    "TCP_CLOSING",     "TCP_NEW_SYN_RECV",
};

static struct slice_name socket_state(struct import *im, const struct ftrace_event *event,
                                      int64_t state)
{
    if (state == TCP_HAS_SENT_SYN)
        return ftrace_name(im, "%s(pid=%u)", tcp_states[state], event->pid);
    if (state == TCP_IS_ESTABLISHED)
        return ftrace_name(im, "%s(sport=%u,dport=%u)", tcp_states[state],
                           (uint32_t)ftrace_int(event, "sport"),
                           (uint32_t)ftrace_int(event, "dport"));
    return slice_name(tcp_states[state]);
}

// A slice per state of a socket, sockets numbered as they appear.
static void inet_sock_set_state(struct import *im, const struct ftrace_event *event)
{
    int64_t family = ftrace_int(event, "family"), to = ftrace_int(event, "newstate");
    int64_t from = ftrace_int(event, "oldstate");
    if (ftrace_int(event, "protocol") != PROTOCOL_TCP || (family != AF_IPV4 && family != AF_IPV6) ||
        to < 0 || to >= N_TCP_STATES || from < 0 || from >= N_TCP_STATES)
        return;
    bool is_new;
    const uint64_t *stream =
        map64_get_or_add(&im->machine->tcp_streams, (uint64_t)ftrace_int(event, "skaddr"),
                         im->machine->tcp_streams.n + 1, &is_new);
    if (!stream) {
        im->processes.failure = -ENOMEM;
        return;
    }
    struct slice_name name = ftrace_name(im, "TCP stream#%u", (uint32_t)*stream);
    struct track_spec track = {
        .type = "net_socket_set_state",
        .dimensions = {dimension_int("tcp_stream_idx", (int64_t)*stream)},
        .name = name.text,
        .name_size = name.size,
    };
    struct slice_spec spec = {.ts = event->ts, .track = tracks_get(&im->tracks, &track)};
    slice_end(&im->slices, &spec);
    spec.category = slice_name("tcp_state");
    spec.name = socket_state(im, event, to);
    slice_begin(&im->slices, &spec);
}

static void moment_add(struct import *im, const struct ftrace_event *event, const char *type,
                       const char *track_name, const char *category, struct slice_name name)
{
    struct track_spec track = {.type = type, .name = track_name, .name_size = strlen(track_name)};
    struct slice_spec spec = {.ts = event->ts,
                              .track = tracks_get(&im->tracks, &track),
                              .category = slice_name(category),
                              .name = name};
    slice_add(&im->slices, &spec);
}

static void tcp_retransmit_skb(struct import *im, const struct ftrace_event *event)
{
    moment_add(im, event, "net_tcp_retransmit_skb", "TCP Retransmit Skb", "tcp_event",
               ftrace_name(im, "sport=%u,dport=%u", (uint32_t)ftrace_int(event, "sport"),
                           (uint32_t)ftrace_int(event, "dport")));
}

static void interconnect(struct import *im, const struct ftrace_event *event)
{
    moment_add(im, event, "interconnect_events", "Interconnect Events", event->type->name,
               ftrace_text(event, "event"));
}

static void sensorhub_data(struct import *im, const struct ftrace_event *event)
{
    uint32_t sensor = (uint32_t)ftrace_int(event, "ec_sensor_num");
    int64_t sampled = ftrace_int(event, "current_timestamp");
    struct slice_name name = ftrace_name(im, "cros_ec.cros_ec_sensorhub_data.%u", sensor);
    struct track_spec track = {
        .type = "cros_ec_sensorhub_data",
        .counter = true,
        .dimensions = {dimension_int("ec_sensor_num", sensor)},
        .name = name.text,
        .name_size = name.size,
    };
    uint64_t age = (uint64_t)ftrace_int(event, "current_time") - (uint64_t)sampled;
    uint64_t delta = (uint64_t)ftrace_int(event, "fifo_timestamp") - (uint64_t)sampled;
    struct arg args[] = {
        arg_int("ec_num", sensor),
        arg_int("ec_delta", (int64_t)delta),
        arg_int("sample_ts", sampled),
    };
    uint32_t id = tracks_get(&im->tracks, &track);
    counter_push(im, event->ts, id, (double)(int64_t)age, args_add(&im->args, args, 3));
}

static void bcl_irq_trigger(struct import *im, const struct ftrace_event *event)
{
    static const struct {
        const char *key, *field;
        bool when_throttled; // else `without`
        int without;
    } counters[] = {
        {"bcl_irq_id", "id", true, -1},
        {"bcl_irq_throttle", "throttle", false, 0},
        {"bcl_irq_cpu0", "cpu0_limit", true, 0},
        {"bcl_irq_cpu1", "cpu1_limit", true, 0},
        {"bcl_irq_cpu2", "cpu2_limit", true, 0},
        {"bcl_irq_tpu", "tpu_limit", true, 0},
        {"bcl_irq_gpu", "gpu_limit", true, 0},
        {"bcl_irq_voltage", "voltage", false, 0},
        {"bcl_irq_capacity", "capacity", false, 0},
    };
    bool is_throttled = ftrace_int(event, "throttle") != 0;
    for (size_t i = 0; i < ELEMENTS(counters); i++) {
        const char *key = counters[i].key;
        struct track_spec track = {
            .type = "bcl_irq",
            .counter = true,
            .dimensions = {dimension_text("bcl_key", key, strlen(key))},
            .name = key,
            .name_size = strlen(key),
        };
        counter_push(im, event->ts, tracks_get(&im->tracks, &track),
                     counters[i].when_throttled && !is_throttled
                         ? counters[i].without
                         : (double)ftrace_int(event, counters[i].field),
                     ARG_SET_NONE);
    }
}

// Has a time of its own.
static void param_set_value_cpm(struct import *im, const struct ftrace_event *event)
{
    struct slice_name body = ftrace_text(event, "body");
    struct track_spec track = {
        .type = "pixel_cpm_counters",
        .counter = true,
        .dimensions = {dimension_text("name", body.text, body.size)},
        .name = body.text,
        .name_size = body.size < 254 ? body.size : 254,
    };
    counter_push(im, ftrace_int(event, "timestamp"), tracks_get(&im->tracks, &track),
                 (uint32_t)ftrace_int(event, "value"), ARG_SET_NONE);
}

// What a GPU does until it says something else.
static void state_change(struct import *im, int64_t ts, const char *type, const char *track_name,
                         const char *state)
{
    struct track_spec track = {
        .type = type, .name = track_name, .name_size = track_name ? strlen(track_name) : 0};
    struct slice_spec spec = {.ts = ts, .track = tracks_get(&im->tracks, &track)};
    slice_end(&im->slices, &spec);
    spec.name = slice_name(state);
    slice_begin(&im->slices, &spec);
}

static void gpu_power_state(struct import *im, const struct ftrace_event *event)
{
    static const char *const states[] = {"OFF", "PG", "ON"};
    int64_t state = ftrace_int(event, "new_state");
    state_change(im, event->ts, "powervr_gpu_power_state", "powervr_gpu_power_state",
                 state >= 0 && state < 3 ? states[state] : "Unknown");
}

static void mali_mcu_state(struct import *im, const struct ftrace_event *event)
{
    state_change(im, event->ts, "mali_mcu_state", NULL,
                 event->type->name + strlen("mali_mali_PM_MCU_"));
}

static void mali_interrupt(struct import *im, const struct ftrace_event *event)
{
    struct slice_name name = ftrace_name(im, "Mali Irq Cpu %u", event->cpu);
    struct track_spec track = {
        .type = "cpu_mali_irq",
        .dimensions = {dimension_int("cpu", event->cpu)},
        .name = name.text,
        .name_size = name.size,
    };
    struct arg arg = arg_uint("info_val", (uint64_t)ftrace_int(event, "info_val"));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = tracks_get(&im->tracks, &track),
        .name = slice_name("mali_CSF_INTERRUPT"),
        .args = &arg,
        .n_args = 1,
    };
    if (str_ends_with(event->type->name, "_START"))
        slice_begin(&im->slices, &spec);
    else
        slice_end(&im->slices, &spec);
}

// How much of a time a user's work kept the GPU busy. That time is told by another clock.
static void gpu_work_period(struct import *im, const struct ftrace_event *event)
{
    uint32_t gpu = (uint32_t)ftrace_int(event, "gpu_id");
    int64_t dur = (int64_t)((uint64_t)ftrace_int(event, "end_time_ns") -
                            (uint64_t)ftrace_int(event, "start_time_ns"));
    int64_t active = ftrace_int(event, "total_active_duration_ns");
    struct track_spec track = {
        .type = "android_gpu_work_period",
        .dimensions = {dimension_int("ugpu", gpus_get(im, gpu)), dimension_int("gpu", gpu),
                       dimension_int("uid", (int32_t)ftrace_int(event, "uid"))},
    };
    int64_t ts;
    if (!clocks_convert(&im->clocks, CLOCK_ID_MONOTONIC_RAW, ftrace_int(event, "start_time_ns"),
                        &ts)) {
        stats_add(&im->stats, STAT_clock_sync_failure_unknown_source_clock, 1);
        return;
    }
    if (dur < 0) {
        stats_add(&im->stats, STAT_gpu_work_period_negative_duration, 1);
        return;
    }
    struct slice_spec spec = {
        .ts = ts,
        .dur = dur,
        .track = tracks_get(&im->tracks, &track),
        .name = ftrace_name(im, "%%%.2f", 100.0 * ((double)active / (double)dur)),
        .has_thread_ts = true,
        .thread_ts = ts,
        .thread_dur = active,
    };
    slice_add(&im->slices, &spec);
}

// What kswapd took between waking and sleeping, on phones that tell it.
static void pixel_kswapd_wake(struct import *im, const struct ftrace_event *event)
{
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_own_track(im, event),
        .name = slice_name("kswapd_efficiency"),
    };
    slice_begin(&im->slices, &spec);
}

static void pixel_kswapd_done(struct import *im, const struct ftrace_event *event)
{
    uint64_t n_scanned = (uint64_t)ftrace_int(event, "delta_nr_scanned");
    uint64_t n_reclaimed = (uint64_t)ftrace_int(event, "delta_nr_reclaimed");
    bool has_scanned = ftrace_has(event, "delta_nr_scanned");
    bool has_reclaimed = ftrace_has(event, "delta_nr_reclaimed");
    struct arg args[4];
    size_t n = 0;
    if (has_scanned)
        args[n++] = arg_uint("pages scanned", n_scanned);
    if (has_reclaimed)
        args[n++] = arg_uint("pages reclaimed", n_reclaimed);
    if (has_scanned && has_reclaimed && n_scanned) {
        double percent = round((double)n_reclaimed * 100 / (double)n_scanned);
        args[n++] = arg_uint("efficiency %", percent < 1e18 ? (uint64_t)percent : 0);
    }
    if (ftrace_has(event, "delta_nr_allocated"))
        args[n++] = arg_uint("pages allocated", (uint64_t)ftrace_int(event, "delta_nr_allocated"));
    struct slice_spec spec = {
        .ts = event->ts,
        .track = ftrace_own_track(im, event),
        .name = slice_name("kswapd_efficiency"),
        .args = args,
        .n_args = n,
    };
    slice_end(&im->slices, &spec);
}

// Temperature of a zone and how far it is throttled.
static void thermal_exynos(struct import *im, const struct ftrace_event *event)
{
    static const char *const zones[] = {"BIG", "MID", "LITTLE", "GPU", "ISP", "TPU", "AUR"};
    static const struct {
        const char *type, *prefix, *suffix, *field;
    } counters[] = {
        {"acpm_thermal_temperature", "", "Temperature", "current_temp"},
        {"acpm_cooling_device_counter", "Tj-", "Cooling Device", "cdev_state"},
    };
    uint32_t zone = (uint32_t)ftrace_int(event, "tz_id");
    bool has_time = strcmp(event->type->name, "thermal_exynos_acpm_bulk") == 0;
    int64_t ts = has_time ? ftrace_int(event, "timestamp") : event->ts;
    if (zone >= ELEMENTS(zones)) {
        stats_add(&im->stats, STAT_ftrace_thermal_exynos_acpm_unknown_tz_id, 1);
        return;
    }
    struct arg arg = arg_int("thermal_zone_id", zone);
    for (size_t i = 0; i < ELEMENTS(counters); i++) {
        struct slice_name name =
            ftrace_name(im, "%s%s %s", counters[i].prefix, zones[zone], counters[i].suffix);
        struct track_spec track = {
            .type = counters[i].type,
            .counter = true,
            .dimensions = {dimension_text("thermal_zone", zones[zone], strlen(zones[zone]))},
            .name = name.text,
            .name_size = name.size,
        };
        uint32_t id = tracks_get(&im->tracks, &track);
        counter_push(im, ts, id, (uint32_t)ftrace_int(event, counters[i].field),
                     args_add(&im->args, &arg, 1));
    }
}

const struct ftrace_handler ftrace_device_handlers[] = {
    {"pixel_mm_kswapd_wake", pixel_kswapd_wake, false},
    {"pixel_mm_kswapd_done", pixel_kswapd_done, false},
    {"thermal_exynos_acpm_bulk", thermal_exynos, false},
    {"thermal_exynos_acpm_high_overhead", thermal_exynos, false},
    {"inet_sock_set_state", inet_sock_set_state, false},
    {"tcp_retransmit_skb", tcp_retransmit_skb, false},
    {"google_icc_event", interconnect, false},
    {"google_irm_event", interconnect, false},
    {"cros_ec_sensorhub_data", sensorhub_data, false},
    {"bcl_irq_trigger", bcl_irq_trigger, false},
    {"param_set_value_cpm", param_set_value_cpm, false},
    {"gpu_power_state", gpu_power_state, false},
    {"gpu_work_period", gpu_work_period, false},
    {"mali_mali_CSF_INTERRUPT_START", mali_interrupt, false},
    {"mali_mali_CSF_INTERRUPT_END", mali_interrupt, false},
    {"mali_mali_PM_MCU_HCTL_CORES_DOWN_SCALE_NOTIFY_PEND", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_CORES_NOTIFY_PEND", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_CORE_INACTIVE_PEND", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_MCU_ON_RECHECK", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_SHADERS_CORE_OFF_PEND", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_SHADERS_PEND_OFF", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_SHADERS_PEND_ON", mali_mcu_state, false},
    {"mali_mali_PM_MCU_HCTL_SHADERS_READY_OFF", mali_mcu_state, false},
    {"mali_mali_PM_MCU_IN_SLEEP", mali_mcu_state, false},
    {"mali_mali_PM_MCU_OFF", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_CORE_ATTR_UPDATE_PEND", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_GLB_REINIT_PEND", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_HALT", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_HWCNT_DISABLE", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_HWCNT_ENABLE", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_PEND_HALT", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_PEND_SLEEP", mali_mcu_state, false},
    {"mali_mali_PM_MCU_ON_SLEEP_INITIATE", mali_mcu_state, false},
    {"mali_mali_PM_MCU_PEND_OFF", mali_mcu_state, false},
    {"mali_mali_PM_MCU_PEND_ON_RELOAD", mali_mcu_state, false},
    {"mali_mali_PM_MCU_POWER_DOWN", mali_mcu_state, false},
    {"mali_mali_PM_MCU_RESET_WAIT", mali_mcu_state, false},
    {0},
};
