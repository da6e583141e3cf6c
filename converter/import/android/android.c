// SPDX-License-Identifier: Apache-2.0
//
// Packets of Android's recorders: lines of the log, the screen's state, the battery, memory of
// GPUs.
#include <math.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/gpu/gpu.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define LOG_ARGS_SIZE 4096 // bytes of the args of a line
#define MICRO         1000000

// Appends the values of an event line, which has no text.
static void event_args(const struct wire_field *event, struct strbuf *text)
{
    size_t start = text->size;
    for (struct fields each = fields_of(event, PB_AndroidLogPacket_LogEvent_args);
         text->size - start < LOG_ARGS_SIZE && fields_next(&each);) {
        MESSAGE(arg, AndroidLogPacket_LogEvent_Arg, &each.field);
        if (!field_present(&arg.name))
            continue;
        strbuf_add_char(text, ' '); // as in Perfetto, also before the first value
        strbuf_add(text, field_text(&arg.name), arg.name.size);
        strbuf_add_char(text, '=');
        if (field_present(&arg.string_value)) {
            strbuf_add_char(text, '"');
            strbuf_add(text, field_text(&arg.string_value), arg.string_value.size);
            strbuf_add_char(text, '"');
        } else if (field_present(&arg.int_value)) {
            strbuf_addf(text, "%lld", (long long)field_i64(&arg.int_value));
        } else if (arg.float_value.type == WIRE_FIXED32) {
            strbuf_addf(text, "%f", field_float(&arg.float_value));
        }
    }
}

static void log_event(struct import *im, int64_t packet_ts, const struct wire_field *message)
{
    MESSAGE(event, AndroidLogPacket_LogEvent, message);
    int64_t ts = packet_ts;
    if (field_present(&event.timestamp) &&
        !import_time_counted(im, CLOCK_ID_REALTIME, field_i64(&event.timestamp), &ts))
        return;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    strbuf_add(&text, field_text(&event.message), event.message.size);
    event_args(message, &text);
    int64_t utid = processes_update_thread(&im->processes, (uint32_t)field_u64(&event.tid),
                                           (uint32_t)field_u64(&event.pid));
    uint32_t priority = (uint8_t)field_u64(&event.prio);
    uint32_t id = import_strbuf_keep(im, &text);
    struct cell *row = database_row(im->db, TABLE_logs, NULL);
    cell_int(row, COL_logs_ts, ts);
    cell_text(row, COL_logs_log_source, "android_logcat");
    cell_int(row, COL_logs_utid, utid);
    cell_int(row, COL_logs_prio, priority ? priority : PB_PRIO_INFO);
    if (field_present(&event.tag))
        cell_bytes(row, COL_logs_tag, event.tag.data, event.tag.size);
    cell_text(row, COL_logs_msg, strset_text(&im->strings, id));
    import_bounds(im, ts);
}

static void log_sorted(struct import *im, const struct packet *packet)
{
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_AndroidLogPacket_events)
            log_event(im, packet->ts, &field);
        if (field.number != PB_AndroidLogPacket_stats)
            continue;
        MESSAGE(stats, AndroidLogPacket_Stats, &field);
        stats_set(&im->stats, STAT_android_log_num_total, field_i64(&stats.num_total));
        stats_set(&im->stats, STAT_android_log_num_failed, field_i64(&stats.num_failed));
        stats_set(&im->stats, STAT_android_log_num_skipped, field_i64(&stats.num_skipped));
    }
}

static void display_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(display, InitialDisplayState, packet->message);
    struct track_spec spec = {
        .type = "screen_state", .counter = true, .name = slice_name("ScreenState")};
    counter_push(im, packet->ts, tracks_get(&im->tracks, &spec),
                 (double)(int32_t)field_u64(&display.display_state), ARG_SET_NONE);
}

static void gpu_memory_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(memory, GpuMemTotalEvent, packet->message);
    uint32_t pid = (uint32_t)field_u64(&memory.pid);
    if (pid) // a polled process exists
        processes_process(&im->processes, pid);
    gpu_memory_push(im, packet->ts, (uint32_t)field_u64(&memory.gpu_id), pid,
                    (double)field_u64(&memory.size));
}

static void battery_push(struct import *im, int64_t ts, const struct wire_field *name,
                         const char *counter, double value)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    strbuf_add_str(&text, "batt.");
    strbuf_add(&text, field_text(name), name->size);
    strbuf_add_str(&text, name->size ? "." : "");
    strbuf_add_str(&text, counter);
    struct track_spec spec = {
        .type = "battery_counter",
        .counter = true,
        .dimensions = {dimension_text("battery_name", field_text(name), name->size),
                       dimension_text("counter_name", counter, strlen(counter))},
        .name = {text.text, text.size},
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), value, ARG_SET_NONE);
}

static void battery_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, BatteryCounters, packet->message);
    const struct wire_field *name = &part.name, *voltage = &part.voltage_uv;
    const struct wire_field *current = &part.current_ua;
    int64_t ts = packet->ts, uv = field_i64(voltage);
    if (field_present(&part.charge_counter_uah))
        battery_push(im, ts, name, "charge_uah", (double)field_i64(&part.charge_counter_uah));
    else if (field_present(&part.energy_counter_uwh) && uv > 0)
        battery_push(im, ts, name, "charge_uah",
                     trunc((double)field_i64(&part.energy_counter_uwh) * MICRO / (double)uv));
    if (part.capacity_percent.type == WIRE_FIXED32 && field_present(&part.capacity_percent))
        battery_push(im, ts, name, "capacity_pct", field_float(&part.capacity_percent));
    if (field_present(current))
        battery_push(im, ts, name, "current_ua", (double)field_i64(current));
    if (field_present(&part.current_avg_ua))
        battery_push(im, ts, name, "current.avg_ua", (double)field_i64(&part.current_avg_ua));
    if (field_present(voltage))
        battery_push(im, ts, name, "voltage_uv", (double)uv);
    if (field_present(current) && field_present(voltage)) {
        double mw = trunc((double)field_i64(current) * (double)uv /
                          1e9); // whole milliwatts, as in Perfetto
        battery_push(im, ts, name, "power_mw", fabs(mw));
    }
}

const struct importer importer_android_log = {.field = PB_TracePacket_android_log,
                                              .sorted = log_sorted};
const struct importer importer_display_state = {.field = PB_TracePacket_initial_display_state,
                                                .sorted = display_sorted};
const struct importer importer_gpu_memory = {.field = PB_TracePacket_gpu_mem_total_event,
                                             .sorted = gpu_memory_sorted};
const struct importer importer_battery = {.field = PB_TracePacket_battery,
                                          .sorted = battery_sorted};
