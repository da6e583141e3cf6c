// SPDX-License-Identifier: Apache-2.0
//
// What Android recorders poll beside processes: lines of the log, the screen, the battery, memory
// of GPUs. The messages are small and not in protos/, so their numbers stand here.
#include <math.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

enum { PACKET_BATTERY = 38, PACKET_LOG = 39, PACKET_DISPLAY = 70, PACKET_GPU_MEMORY = 71 };
enum { LOG_EVENTS = 1, LOG_STATS = 2 };
enum {
    EVENT_PID = 2,
    EVENT_TID,
    EVENT_TIMESTAMP = 5,
    EVENT_TAG,
    EVENT_PRIO,
    EVENT_MESSAGE,
    EVENT_ARGS
};
enum { ARG_NAME = 1, ARG_INT_VALUE, ARG_FLOAT_VALUE, ARG_STRING_VALUE };
enum { STATS_TOTAL = 1, STATS_FAILED, STATS_SKIPPED };
enum { DISPLAY_STATE = 1 };
enum { GPU_ID = 1, GPU_PID, GPU_SIZE };
enum {
    BATTERY_CHARGE = 1,
    BATTERY_CAPACITY,
    BATTERY_CURRENT,
    BATTERY_CURRENT_AVERAGE,
    BATTERY_NAME,
    BATTERY_ENERGY,
    BATTERY_VOLTAGE,
};

#define PRIORITY_INFO 4
#define LOG_ARGS_SIZE 4096 // of one line
#define MICRO         1000000

// The values of an event line, which has no text of its own.
static void event_args(const struct wire_field *event, struct strbuf *text)
{
    struct wire_reader reader = wire_sub(event);
    struct wire_field field;
    size_t start = text->size;
    while (text->size - start < LOG_ARGS_SIZE && wire_next(&reader, &field)) {
        if (field.number != EVENT_ARGS)
            continue;
        MESSAGE(arg, ARG_STRING_VALUE, &field);
        if (!field_present(&arg[ARG_NAME]))
            continue;
        strbuf_add_char(text, ' '); // as Perfetto, also before the first
        strbuf_add(text, field_text(&arg[ARG_NAME]), arg[ARG_NAME].size);
        strbuf_add_char(text, '=');
        if (field_present(&arg[ARG_STRING_VALUE])) {
            strbuf_add_char(text, '"');
            strbuf_add(text, field_text(&arg[ARG_STRING_VALUE]), arg[ARG_STRING_VALUE].size);
            strbuf_add_char(text, '"');
        } else if (field_present(&arg[ARG_INT_VALUE])) {
            strbuf_addf(text, "%lld", (long long)field_i64(&arg[ARG_INT_VALUE]));
        } else if (arg[ARG_FLOAT_VALUE].type == WIRE_FIXED32) {
            strbuf_addf(text, "%f", (double)wire_to_float(arg[ARG_FLOAT_VALUE].value));
        }
    }
}

static void log_event(struct import *im, int64_t packet_ts, const struct wire_field *message)
{
    MESSAGE(event, EVENT_ARGS, message);
    int64_t ts = packet_ts;
    if (field_present(&event[EVENT_TIMESTAMP]) &&
        !import_time_counted(im, CLOCK_ID_REALTIME, field_i64(&event[EVENT_TIMESTAMP]), &ts))
        return;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    strbuf_add(&text, field_text(&event[EVENT_MESSAGE]), event[EVENT_MESSAGE].size);
    event_args(message, &text);
    int64_t utid = processes_update_thread(&im->processes, (uint32_t)field_u64(&event[EVENT_TID]),
                                           (uint32_t)field_u64(&event[EVENT_PID]));
    uint32_t priority = (uint8_t)field_u64(&event[EVENT_PRIO]);
    uint32_t id = strset_add(&im->strings, text.text ? text.text : "", text.size);
    struct cell *row = database_row(im->db, TABLE_logs, NULL);
    cell_int(row, COL_logs_ts, ts);
    cell_text(row, COL_logs_log_source, "android_logcat");
    cell_int(row, COL_logs_utid, utid);
    cell_int(row, COL_logs_prio, priority ? priority : PRIORITY_INFO);
    if (field_present(&event[EVENT_TAG]))
        cell_bytes(row, COL_logs_tag, event[EVENT_TAG].data, event[EVENT_TAG].size);
    cell_text(row, COL_logs_msg, strset_text(&im->strings, id));
    import_bounds(im, ts);
}

static int log_sorted(struct import *im, void *state, const struct packet *packet,
                      const struct wire_field *message)
{
    (void)state;
    struct wire_reader reader = wire_sub(message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == LOG_EVENTS)
            log_event(im, packet->ts, &field);
        if (field.number != LOG_STATS)
            continue;
        MESSAGE(stats, STATS_SKIPPED, &field);
        stats_set(&im->stats, STAT_android_log_num_total, field_i64(&stats[STATS_TOTAL]));
        stats_set(&im->stats, STAT_android_log_num_failed, field_i64(&stats[STATS_FAILED]));
        stats_set(&im->stats, STAT_android_log_num_skipped, field_i64(&stats[STATS_SKIPPED]));
    }
    return 0;
}

static int display_sorted(struct import *im, void *state, const struct packet *packet,
                          const struct wire_field *message)
{
    (void)state;
    MESSAGE(display, DISPLAY_STATE, message);
    struct track_spec spec = {
        .type = "screen_state", .counter = true, .name = "ScreenState", .name_size = 11};
    counter_push(im, packet->ts, tracks_get(&im->tracks, &spec),
                 (double)(int32_t)field_u64(&display[DISPLAY_STATE]), ARG_SET_NONE);
    return 0;
}

static int gpu_memory_sorted(struct import *im, void *state, const struct packet *packet,
                             const struct wire_field *message)
{
    (void)state;
    MESSAGE(memory, GPU_SIZE, message);
    uint32_t pid = (uint32_t)field_u64(&memory[GPU_PID]);
    if (pid) // what was polled is of a process that is there
        processes_process(&im->processes, pid);
    gpu_memory_push(im, packet->ts, (uint32_t)field_u64(&memory[GPU_ID]), pid,
                    (double)field_u64(&memory[GPU_SIZE]));
    return 0;
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
        .name = text.text,
        .name_size = text.size,
    };
    counter_push(im, ts, tracks_get(&im->tracks, &spec), value, ARG_SET_NONE);
}

static int battery_sorted(struct import *im, void *state, const struct packet *packet,
                          const struct wire_field *message)
{
    (void)state;
    MESSAGE(part, BATTERY_VOLTAGE, message);
    const struct wire_field *name = &part[BATTERY_NAME], *voltage = &part[BATTERY_VOLTAGE];
    const struct wire_field *current = &part[BATTERY_CURRENT];
    int64_t ts = packet->ts, uv = field_i64(voltage);
    if (field_present(&part[BATTERY_CHARGE]))
        battery_push(im, ts, name, "charge_uah", (double)field_i64(&part[BATTERY_CHARGE]));
    else if (field_present(&part[BATTERY_ENERGY]) && uv > 0)
        battery_push(im, ts, name, "charge_uah",
                     trunc((double)field_i64(&part[BATTERY_ENERGY]) * MICRO / (double)uv));
    if (part[BATTERY_CAPACITY].type == WIRE_FIXED32 && field_present(&part[BATTERY_CAPACITY]))
        battery_push(im, ts, name, "capacity_pct",
                     (double)wire_to_float(part[BATTERY_CAPACITY].value));
    if (field_present(current))
        battery_push(im, ts, name, "current_ua", (double)field_i64(current));
    if (field_present(&part[BATTERY_CURRENT_AVERAGE]))
        battery_push(im, ts, name, "current.avg_ua",
                     (double)field_i64(&part[BATTERY_CURRENT_AVERAGE]));
    if (field_present(voltage))
        battery_push(im, ts, name, "voltage_uv", (double)uv);
    if (field_present(current) && field_present(voltage)) {
        double mw = trunc((double)field_i64(current) * (double)uv / 1e9); // as Perfetto: whole ones
        battery_push(im, ts, name, "power_mw", fabs(mw));
    }
    return 0;
}

const struct importer importer_android_log = {.field = PACKET_LOG, .sorted = log_sorted};
const struct importer importer_display_state = {.field = PACKET_DISPLAY, .sorted = display_sorted};
const struct importer importer_gpu_memory = {.field = PACKET_GPU_MEMORY,
                                             .sorted = gpu_memory_sorted};
const struct importer importer_battery = {.field = PACKET_BATTERY, .sorted = battery_sorted};
