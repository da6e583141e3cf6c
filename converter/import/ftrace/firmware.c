// SPDX-License-Identifier: Apache-2.0
//
// Events of GPUs and firmware, which have their own clocks: command batches of Adreno GPUs, and
// events of the firmware of Google's phones (FWTP). A GPU counts ticks; the sync event of a batch
// has both the ticks and the kernel's time.
#include "converter/import/ftrace/ftrace.h"

// Ticks of 19.2 MHz.
#define TICK_NS_NUMERATOR   625
#define TICK_NS_DENOMINATOR 12

struct firmware {
    struct map64 tids;  // context of a GPU -> tid that queues batches
    struct map64 zeros; // batch -> time of tick 0 (ns)
};

// Converts ticks to nanoseconds; false: out of range.
static bool ticks_ns(uint64_t ticks, int64_t *ret)
{
    int64_t n = (int64_t)ticks;
    if (n > INT64_MAX / TICK_NS_NUMERATOR || n < INT64_MIN / TICK_NS_NUMERATOR)
        return false;
    *ret = n * TICK_NS_NUMERATOR / TICK_NS_DENOMINATOR;
    return true;
}

static uint64_t batch_key(const struct ftrace_event *event)
{
    return (uint64_t)ftrace_int(event, "id") << 32 | (uint32_t)ftrace_int(event, "timestamp");
}

static void batch_queued(struct import *im, const struct ftrace_event *event)
{
    struct firmware *firmware = event->own;
    import_fail(im, map64_set(&firmware->tids, (uint64_t)ftrace_int(event, "id"), event->pid));
}

// Keeps the kernel's time of tick 0.
static void batch_sync(struct import *im, const struct ftrace_event *event)
{
    struct firmware *firmware = event->own;
    int64_t ns;
    if (ticks_ns((uint64_t)ftrace_int(event, "ticks"), &ns))
        import_fail(
            im, map64_set(&firmware->zeros, batch_key(event), (uint64_t)event->ts - (uint64_t)ns));
}

static uint32_t context_name(struct import *im, const struct firmware *firmware, uint32_t context,
                             uint32_t priority)
{
    const uint64_t *tid = map64_find(&firmware->tids, context);
    uint32_t process = STRSET_NONE;
    if (tid) {
        int64_t utid = processes_thread(&im->processes, (int64_t)*tid);
        int64_t upid = processes_thread_at(&im->processes, utid)->upid;
        if (upid != UPID_NONE)
            process = processes_at(&im->processes, upid)->name;
    }
    struct slice_name name =
        process == STRSET_NONE ? import_text(im, "GPU (Ctx=%u, Prio=%u)", context, priority)
                               : import_text(im, "GPU %.400s (Ctx=%u, Prio=%u)",
                                             strset_text(&im->strings, process), context, priority);
    return strset_add(&im->strings, name.text, name.size);
}

static void batch_retired(struct import *im, const struct ftrace_event *event)
{
    struct firmware *firmware = event->own;
    uint64_t start = (uint64_t)ftrace_int(event, "start");
    uint64_t end = (uint64_t)ftrace_int(event, "retire");
    const uint64_t *zero = map64_find(&firmware->zeros, batch_key(event));
    int64_t start_ns, dur;
    if (!zero || end < start || !ticks_ns(start, &start_ns) || !ticks_ns(end - start, &dur))
        return;
    int64_t ts = (int64_t)(*zero + (uint64_t)start_ns);
    map64_remove(&firmware->zeros, batch_key(event));
    uint32_t context = (uint32_t)ftrace_int(event, "id");
    uint32_t priority = (uint32_t)ftrace_int(event, "prio");
    uint32_t name = context_name(im, firmware, context, priority);
    if (ts < 0 || name == STRSET_NONE)
        return;
    struct track_spec tracks = {
        .type = "adreno_gpu_cmdbatch",
        .dimensions = {dimension_int("context_id", context), dimension_int("prio", priority)},
        .name = slice_name_of(&im->strings, name),
    };
    struct slice_spec spec = {
        .ts = ts,
        .dur = dur,
        .track = async_track_span(&im->async_tracks, &tracks, ts, dur),
        .name = slice_name("GPU"),
    };
    slice_add(&im->slices, &spec);
    // The process may get its name after the track is created.
    if (spec.track < im->tracks.items.n)
        im->tracks.items.items[spec.track].name = name;
}

// Begins or ends a slice. Each name has one slice at a time: a begin ends the open slice.
static void firmware_slice(struct import *im, const struct ftrace_event *event)
{
    struct slice_name name = ftrace_text(event, "name");
    struct track_spec track = {
        .type = "pixel_fwtp_slices",
        .dimensions = {dimension_text("name", name.text, name.size)},
        .name = name,
    };
    struct slice_spec spec = {.ts = ftrace_int(event, "timestamp"),
                              .track = tracks_get(&im->tracks, &track)};
    int64_t begun;
    if (spec.ts < 0 ||
        (slices_top(&im->slices, spec.track, &begun) != SLICE_NONE && spec.ts < begun)) {
        stats_add(&im->stats, STAT_slice_negative_duration, 1);
        return;
    }
    slice_end(&im->slices, &spec);
    spec.category = ftrace_text(event, "category");
    spec.name = name;
    if (ftrace_int(event, "begin"))
        slice_begin(&im->slices, &spec);
}

static const struct ftrace_form forms[] = {
    {"fwtp_perfetto_counter", FORM_COUNTER, .when = "timestamp>=0", .ts = "timestamp",
     .type = "pixel_fwtp_counters", .key = "name", .track = "{name}", .value = "value"},
    {"kgsl_adreno_cmdbatch_queued", FORM_CALL(batch_queued)},
    {"kgsl_adreno_cmdbatch_sync", FORM_CALL(batch_sync)},
    {"kgsl_adreno_cmdbatch_retired", FORM_CALL(batch_retired)},
    {"fwtp_perfetto_slice", FORM_CALL(firmware_slice)},
    {0},
};

const struct ftrace_subject ftrace_firmware = {
    .forms = forms,
    .state_size = sizeof(struct firmware),
    .n_maps = 2,
};
