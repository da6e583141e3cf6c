// SPDX-License-Identifier: Apache-2.0
//
// Events of vendors' drivers: states of GPUs and their use by each user, interconnects, sensors,
// temperatures, kswapd, and limits that a battery sets.
#include <math.h>

#include "common/elements.h"
#include "common/str.h"
#include "converter/import/ftrace/ftrace.h"
#include "converter/import/gpu/gpu.h"

// Adds the value of a parameter. The event has a field with its own time.
static void param_set_value_cpm(struct import *im, const struct ftrace_event *event)
{
    struct slice_name body = ftrace_text(event, "body");
    struct track_spec track = {
        .type = "pixel_cpm_counters",
        .counter = true,
        .dimensions = {dimension_text("name", body.text, body.size)},
        .name = name_cut(body, 254),
    };
    counter_push(im, ftrace_int(event, "timestamp"), tracks_get(&im->tracks, &track),
                 (uint32_t)ftrace_int(event, "value"), ARG_SET_NONE);
}

// Begins the state of the GPU's controller, which lasts until the next event of the controller.
static void mali_mcu_state(struct import *im, const struct ftrace_event *event)
{
    struct track_spec track = {.type = "mali_mcu_state"};
    struct slice_spec spec = {.ts = event->ts, .track = tracks_get(&im->tracks, &track)};
    slice_end(&im->slices, &spec);
    spec.name = slice_name(event->type->name + strlen("mali_mali_PM_MCU_"));
    slice_begin(&im->slices, &spec);
}

// Adds a period of a user's work on the GPU, and the busy time in the period. The clock is
// CLOCK_MONOTONIC_RAW.
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
        struct arg args[] = {
            arg_int("start_time_ns", ftrace_int(event, "start_time_ns")),
            arg_int("end_time_ns", ftrace_int(event, "end_time_ns")),
            arg_int("gpu_id", gpu),
        };
        import_log(im, STAT_gpu_work_period_negative_duration, &event->ts, args, ELEMENTS(args));
        return;
    }
    struct slice_spec spec = {
        .ts = ts,
        .dur = dur,
        .track = tracks_get(&im->tracks, &track),
        .name = import_text(im, "%%%.2f", 100.0 * ((double)active / (double)dur)),
        .has_thread_ts = true,
        .thread_ts = ts,
        .thread_dur = active,
    };
    slice_add(&im->slices, &spec);
}

// Ends the slice of a run of kswapd, with its page counts.
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

// Adds the temperature and the throttling of a thermal zone.
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
    const char *time = event->detail;
    int64_t ts = time ? ftrace_int(event, time) : event->ts;
    if (zone >= ELEMENTS(zones)) {
        stats_add(&im->stats, STAT_ftrace_thermal_exynos_acpm_unknown_tz_id, 1);
        return;
    }
    struct arg arg = arg_int("thermal_zone_id", zone);
    for (size_t i = 0; i < ELEMENTS(counters); i++) {
        struct track_spec track = {
            .type = counters[i].type,
            .counter = true,
            .dimensions = {dimension_text("thermal_zone", zones[zone], strlen(zones[zone]))},
            .name = import_text(im, "%s%s %s", counters[i].prefix, zones[zone], counters[i].suffix),
        };
        uint32_t id = tracks_get(&im->tracks, &track);
        counter_push(im, ts, id, (uint32_t)ftrace_int(event, counters[i].field),
                     args_add(&im->args, &arg, 1));
    }
}

#define INTERCONNECT                                                                               \
    FORM_MOMENT, .type = "interconnect_events", .track = "Interconnect Events",                    \
                 .category = "{@event}", .name = "{event}"
#define BCL(a_name, a_value)                                                                       \
    FORM_COUNTER, .type = "bcl_irq", .key = "bcl_key='" a_name "'", .track = (a_name),             \
                  .value = (a_value)
#define MALI_INTERRUPT(does)                                                                       \
    (does), .type = "cpu_mali_irq", .key = "cpu=@cpu", .track = "Mali Irq Cpu {@cpu}",             \
            .name = "mali_CSF_INTERRUPT", .args = "info_val"
#define POWERVR(does) (does), .type = "powervr_gpu_power_state", .track = "powervr_gpu_power_state"

static const struct ftrace_form forms[] = {
    {"pixel_mm_kswapd_wake", FORM_BEGIN, .name = "kswapd_efficiency"},
    {"google_icc_event", INTERCONNECT},
    {"google_irm_event", INTERCONNECT},
    {"bcl_irq_trigger", BCL("bcl_irq_id", "id"), .when = "throttle"},
    {"", BCL("bcl_irq_id", "-1"), .when = "!throttle"},
    {"", BCL("bcl_irq_throttle", "throttle")},
    {"", BCL("bcl_irq_cpu0", "cpu0_limit"), .when = "throttle"},
    {"", BCL("bcl_irq_cpu0", "0"), .when = "!throttle"},
    {"", BCL("bcl_irq_cpu1", "cpu1_limit"), .when = "throttle"},
    {"", BCL("bcl_irq_cpu1", "0"), .when = "!throttle"},
    {"", BCL("bcl_irq_cpu2", "cpu2_limit"), .when = "throttle"},
    {"", BCL("bcl_irq_cpu2", "0"), .when = "!throttle"},
    {"", BCL("bcl_irq_tpu", "tpu_limit"), .when = "throttle"},
    {"", BCL("bcl_irq_tpu", "0"), .when = "!throttle"},
    {"", BCL("bcl_irq_gpu", "gpu_limit"), .when = "throttle"},
    {"", BCL("bcl_irq_gpu", "0"), .when = "!throttle"},
    {"", BCL("bcl_irq_voltage", "voltage")},
    {"", BCL("bcl_irq_capacity", "capacity")},
    {"gpu_power_state", POWERVR(FORM_END)},
    {"", POWERVR(FORM_BEGIN), .name = "{new_state?OFF,PG,ON;Unknown}"},
    {"mali_mali_CSF_INTERRUPT_START", MALI_INTERRUPT(FORM_BEGIN)},
    {"mali_mali_CSF_INTERRUPT_END", MALI_INTERRUPT(FORM_END)},
    {"pixel_mm_kswapd_done", FORM_CALL(pixel_kswapd_done)},
    {"thermal_exynos_acpm_bulk", FORM_CALL(thermal_exynos), .detail = "timestamp"},
    {"thermal_exynos_acpm_high_overhead", FORM_CALL(thermal_exynos)},
    {"cros_ec_sensorhub_data", FORM_COUNTER, .type = "cros_ec_sensorhub_data",
     .key = "ec_sensor_num", .track = "cros_ec.cros_ec_sensorhub_data.{ec_sensor_num}",
     .value = "current_time-current_timestamp",
     .args = "ec_num=ec_sensor_num:i, ec_delta=fifo_timestamp-current_timestamp, "
             "sample_ts=current_timestamp"},
    {"param_set_value_cpm", FORM_CALL(param_set_value_cpm)},
    {"gpu_work_period", FORM_CALL(gpu_work_period)},
    {"mali_mali_PM_MCU_*", FORM_CALL(mali_mcu_state)},
    {0},
};

const struct ftrace_subject ftrace_devices = {.forms = forms};
