// SPDX-License-Identifier: Apache-2.0
//
// Each rule finds one mistake of configs, and has a confidence that the mistake matters (0 to 1).
// The confidence is higher if the trace lacks the data that the mistake endangers. Keys, limits and
// confidences are from Perfetto's trace_processor.
#include "converter/import/session/diagnostics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/nsec.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define SURE        0.9
#define AFTER_BOOT  (5 * 60 * NSEC_PER_SEC)
#define SMALL_KB    1024 // a smaller buffer may be too small
#define TINY_KB     64   // a buffer up to this size is certainly too small
#define SMALL_MB_S  5.0
#define TINY_MB_S   1.0
#define DRAIN_MS    100
#define DRAIN_MAX   60000
#define ONE_WRITE   (UINT64_C(7) * 24 * 3600 * 1000) // ms between writes; more: one write
#define INTERVAL_KB 100

struct advice {
    const char *key, *title, *remedy;
};

__attribute__((format(printf, 4, 5))) static void
advise(struct import *im, const struct advice *advice, double confidence, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    struct slice_name kept = import_text_keep(im, text, strlen(text));
    struct cell *row = database_row(im->db, TABLE_trace_diagnostics, NULL);
    cell_text(row, COL_trace_diagnostics_key, advice->key);
    cell_text(row, COL_trace_diagnostics_title, advice->title);
    cell_name(row, COL_trace_diagnostics_description, kept);
    cell_text(row, COL_trace_diagnostics_remediation, advice->remedy);
    cell_real(row, COL_trace_diagnostics_confidence, confidence);
    cell_int(row, COL_trace_diagnostics_trace_id, 0);
}

static bool is_kernel_loss(const struct stat_name *stat)
{
    static const char *const names[] = {
        "ftrace_cpu_has_data_loss",
        "ftrace_cpu_overrun_delta",
        "ftrace_cpu_commit_overrun_delta",
    };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(stat->name, names[i]) == 0)
            return true;
    return false;
}

static bool is_heap_error(const struct stat_name *stat)
{
    return strcmp(stat->severity, "error") == 0 && str_starts_with(stat->name, "heapprofd");
}

static double surer(struct import *im, double confidence)
{
    return stats_any(&im->stats, is_kernel_loss) ? SURE : confidence;
}

// -- linux.ftrace --

struct ftrace_config {
    const struct wire_field *message;
    union message_FtraceConfig config;
};

// *ret: the time of the start since boot (ns). If the trace clock is another clock, the function
// assumes that the distance between both clocks is constant.
static bool started_after_boot(struct import *im, int64_t *ret)
{
    int64_t started, boot;
    if (!metadata_get_int(&im->metadata, "tracing_started_ns", &started))
        return false;
    bool is_known = import_time(im, CLOCK_ID_BOOTTIME, started, &boot);
    *ret = is_known ? (int64_t)(2 * (uint64_t)started - (uint64_t)boot) : started;
    return true;
}

static void old_events(struct import *im, const struct ftrace_config *ftrace)
{
    static const struct advice advice = {
        "preserve_ftrace_buffer_late_start",
        "Old events are kept",
        "Leave preserve_ftrace_buffer out, unless the recording starts soon after boot.",
    };
    int64_t ns;
    if (!field_u64(&ftrace->config.preserve_ftrace_buffer) || !started_after_boot(im, &ns) ||
        ns <= AFTER_BOOT)
        return;
    advise(im, &advice, 0.7,
           "preserve_ftrace_buffer keeps what the kernel had before the recording, which began "
           "%" PRId64 " s after boot. The trace may have events from long ago.",
           ns / NSEC_PER_SEC);
}

static void small_buffer(struct import *im, const struct ftrace_config *ftrace)
{
    static const struct advice advice = {
        "tiny_ftrace_buffer",
        "Small kernel buffers",
        "Leave buffer_size_kb out: the recorder chooses a size.",
    };
    uint32_t kb = (uint32_t)field_u64(&ftrace->config.buffer_size_kb);
    if (!kb || kb >= SMALL_KB)
        return;
    double range = SMALL_KB - TINY_KB;
    double confidence = kb <= TINY_KB ? SURE : SURE - (kb - TINY_KB) / range * 0.7;
    advise(im, &advice, surer(im, confidence),
           "buffer_size_kb is %u. With so little room for each processor the kernel overwrites "
           "events before they are read, when many come at once.",
           kb);
}

static void slow_drain(struct import *im, const struct ftrace_config *ftrace)
{
    static const struct advice advice = {
        "low_ftrace_drain_bandwidth",
        "Kernel buffers are read too slowly",
        "Leave buffer_size_kb and drain_period_ms out, or set a larger buffer or a shorter period.",
    };
    uint32_t kb = (uint32_t)field_u64(&ftrace->config.buffer_size_kb);
    uint32_t ms = (uint32_t)field_u64(&ftrace->config.drain_period_ms);
    if (!kb || !ms)
        return;
    double mb_s = kb / 1024.0 / (ms / 1000.0);
    if (mb_s >= SMALL_MB_S)
        return;
    double missing = (SMALL_MB_S - mb_s) / (SMALL_MB_S - TINY_MB_S);
    advise(im, &advice, surer(im, mb_s <= TINY_MB_S ? SURE : SURE * missing),
           "Buffers of %u kB that are read every %u ms take %.2f MB/s for each processor. Events "
           "that come faster are lost.",
           kb, ms, mb_s);
}

static void odd_period(struct import *im, const struct ftrace_config *ftrace)
{
    static const struct advice advice = {
        "extreme_ftrace_drain_period",
        "Unusual period of reading",
        "Leave drain_period_ms out, or set 100 to 60000.",
    };
    uint32_t ms = (uint32_t)field_u64(&ftrace->config.drain_period_ms);
    if (!field_present(&ftrace->config.drain_period_ms) || (ms >= DRAIN_MS && ms <= DRAIN_MAX))
        return;
    advise(im, &advice, 0.6,
           "drain_period_ms is %u. Below %d the recorder wakes up all the time; above %d the "
           "kernel's buffers fill up between two reads.",
           ms, DRAIN_MS, DRAIN_MAX);
}

// Returns the first event of the config that is in the list.
static struct text event_of(const struct ftrace_config *ftrace, const char *const *list, size_t n)
{
    for (struct fields each = fields_of(ftrace->message, PB_FtraceConfig_ftrace_events);
         fields_next(&each);)
        for (size_t i = 0; i < n; i++)
            if (text_eq(field_words(&each.field), text_from(list[i])))
                return field_words(&each.field);
    return (struct text){0};
}

static void all_syscalls(struct import *im, const struct ftrace_config *ftrace)
{
    static const struct advice advice = {
        "syscalls_without_filter",
        "All system calls are recorded",
        "List the system calls that matter in syscall_events, for example \"sys_read\".",
    };
    static const char *const events[] = {"raw_syscalls/sys_enter", "raw_syscalls/sys_exit"};
    struct fields filter = fields_of(ftrace->message, PB_FtraceConfig_syscall_events);
    if (!event_of(ftrace, events, ELEMENTS(events)).size || fields_next(&filter))
        return;
    advise(im, &advice, surer(im, 0.3),
           "raw_syscalls is on without syscall_events. Every system call is in the trace, which "
           "makes the trace large and the machine slow.");
}

static void addresses(struct import *im, const struct ftrace_config *ftrace)
{
    static const char remedy[] = "Set symbolize_ksyms: true in the config of linux.ftrace.";
    static const struct advice graph = {"function_graph_requires_symbolize_ksyms",
                                        "Kernel functions without names", remedy};
    static const struct advice event = {"events_require_symbolize_ksyms",
                                        "Events with addresses instead of names", remedy};
    static const char *const events[] = {"workqueue/workqueue_execute_start",
                                         "sched/sched_blocked_reason"};
    if (field_u64(&ftrace->config.symbolize_ksyms))
        return;
    if (field_u64(&ftrace->config.enable_function_graph))
        advise(im, &graph, 1.0,
               "enable_function_graph is on without symbolize_ksyms. The functions are addresses "
               "of the kernel, to which nobody can add names later.");
    struct text name = event_of(ftrace, events, ELEMENTS(events));
    if (name.size)
        advise(im, &event, 0.6,
               "%.*s is on without symbolize_ksyms. The functions in its fields are addresses of "
               "the kernel, to which nobody can add names later.",
               (int)name.size, name.at);
}

static void ftrace_judge(struct import *im, const struct wire_field *message)
{
    static void (*const rules[])(struct import *, const struct ftrace_config *) = {
        old_events, small_buffer, slow_drain, odd_period, all_syscalls, addresses,
    };
    struct ftrace_config ftrace = {.message = message};
    message_read(wire_sub(message), ftrace.config.at, ELEMENTS(ftrace.config.at));
    for (size_t i = 0; i < ELEMENTS(rules); i++)
        rules[i](im, &ftrace);
}

// -- other sources --

static bool is_discard(const struct wire_field *config, uint64_t number)
{
    struct fields each = fields_of(config, PB_TraceConfig_buffers);
    for (uint64_t n = 0; fields_next(&each); n++) {
        if (n < number)
            continue;
        MESSAGE(buffer, TraceConfig_BufferConfig, &each.field);
        return field_u64(&buffer.fill_policy) == PB_DISCARD;
    }
    return false;
}

static void full_buffer(struct import *im, const struct wire_field *config,
                        const union message_DataSourceConfig *source)
{
    static const struct advice advice = {
        "discard_buffer_for_streaming",
        "A DISCARD buffer in a recording into a file",
        "Leave fill_policy out for the buffers of linux.ftrace and track_event.",
    };
    struct text name = field_words(&source->name);
    MESSAGE(whole, TraceConfig, config);
    if (!field_u64(&whole.write_into_file) || field_u64(&whole.file_write_period_ms) >= ONE_WRITE ||
        (!text_eq(name, TEXT("linux.ftrace")) && !text_eq(name, TEXT("track_event"))) ||
        !is_discard(config, (uint32_t)field_u64(&source->target_buffer)))
        return;
    advise(im, &advice, 0.8,
           "%.*s writes into a buffer with the policy DISCARD. Once the buffer is full, the rest "
           "of the recording lacks these events.",
           (int)name.size, name.at);
}

static void short_interval(struct import *im, const union message_DataSourceConfig *source)
{
    static const struct advice advice = {
        "heapprofd_sampling_interval_too_low",
        "Heap samples are very dense",
        "Set sampling_interval_bytes to 102400 or more.",
    };
    if (!field_present(&source->heapprofd_config))
        return;
    MESSAGE(heap, HeapprofdConfig, &source->heapprofd_config);
    uint64_t bytes = field_u64(&heap.sampling_interval_bytes);
    if (!bytes || bytes >= INTERVAL_KB * 1024)
        return;
    advise(im, &advice, stats_any(&im->stats, is_heap_error) ? SURE : 0.3,
           "sampling_interval_bytes is %" PRIu64 ". So many samples slow the process down, and "
           "the profile hardly gets more exact.",
           bytes);
}

// Returns true for a release build. The fingerprint is BRAND/...:TYPE/TAGS, and release builds have
// the type user.
static bool is_user_build(const struct import *im)
{
    const char *text = metadata_get_text(&im->metadata, "android_build_fingerprint");
    const char *type = text ? strrchr(text, ':') : NULL;
    return type && text_eq((struct text){type + 1, strcspn(type + 1, "/")}, TEXT("user"));
}

static void no_video(struct import *im, const union message_DataSourceConfig *source)
{
    static const struct advice advice = {
        "display_video_not_enabled",
        "No video of the display",
        "Before the recording: adb shell setprop debug.tracing_video_allowed true. The next boot "
        "resets the property.",
    };
    static const uint32_t fields[] = {PB_TracePacket_video_frame, PB_TracePacket_video_frame_error};
    int64_t n;
    if (!text_eq(field_words(&source->name), TEXT("android.display.video")) || !is_user_build(im))
        return;
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        if (stats_get_at(&im->stats, STAT_mmsql_packets_left_out, fields[i], &n))
            return;
    advise(im, &advice, 0.7,
           "The config has android.display.video, and the trace has neither a frame nor an error. "
           "Release builds of Android record no video unless debug.tracing_video_allowed is set.");
}

void diagnostics_write(struct import *im, const struct wire_field *config)
{
    for (struct fields each = fields_of(config, PB_TraceConfig_data_sources); fields_next(&each);) {
        MESSAGE(entry, TraceConfig_DataSource, &each.field);
        if (!field_present(&entry.config))
            continue;
        MESSAGE(source, DataSourceConfig, &entry.config);
        if (field_present(&source.ftrace_config))
            ftrace_judge(im, &source.ftrace_config);
        full_buffer(im, config, &source);
        short_interval(im, &source);
        no_video(im, &source);
    }
}
