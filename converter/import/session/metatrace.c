// SPDX-License-Identifier: Apache-2.0
//
// PerfettoMetatrace: the activity of the recorder itself, as slices and counters of its threads. A
// name is a well-known number, a text, or the iid of a text in an earlier packet of any sequence.
#include <errno.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/map.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define LONG_BYTES     4096
#define LONG_BYTES_MAX (UINT64_C(64) << 20) // bytes of long texts; each use writes the text again
#define ARGS_MAX       4096                 // of one event
#define KEY_BYTES_MAX  ((size_t)64 << 10)   // of one event

struct metatrace {
    struct map64 texts;    // iid -> text, in im->strings
    uint64_t n_long_bytes; // written so far
};

// By number, as the format defines.
static const char *const event_names[] = {
    "EVENT_ZERO_UNUSED",
    "FTRACE_CPU_READER_READ",
    "FTRACE_DRAIN_CPUS",
    "FTRACE_UNBLOCK_READERS",
    "FTRACE_CPU_READ_NONBLOCK",
    "FTRACE_CPU_READ_BLOCK",
    "FTRACE_CPU_SPLICE_NONBLOCK",
    "FTRACE_CPU_SPLICE_BLOCK",
    "FTRACE_CPU_WAIT_CMD",
    "FTRACE_CPU_RUN_CYCLE",
    "FTRACE_CPU_FLUSH",
    "FTRACE_CPU_BUFFER_WATERMARK",
    "READ_SYS_STATS",
    "PS_WRITE_ALL_PROCESSES",
    "PS_ON_PIDS",
    "PS_ON_RENAME_PIDS",
    "PS_WRITE_ALL_PROCESS_STATS",
    "TRACE_WRITER_COMMIT_STARTUP_WRITER_BATCH",
    "FTRACE_READ_TICK",
    "FTRACE_CPU_READ_CYCLE",
    "FTRACE_CPU_READ_BATCH",
    "KALLSYMS_PARSE",
    "PROFILER_READ_TICK",
    "PROFILER_READ_CPU",
    "PROFILER_UNWIND_TICK",
    "PROFILER_UNWIND_SAMPLE",
    "PROFILER_UNWIND_INITIAL_ATTEMPT",
    "PROFILER_UNWIND_ATTEMPT",
    "PROFILER_MAPS_PARSE",
    "PROFILER_MAPS_REPARSE",
    "PROFILER_UNWIND_CACHE_CLEAR",
    "ANDROID_CPU_PER_UID_TICK",
    "ANDROID_KERNEL_WAKELOCKS_TICK",
    "ANDROID_POWER_TICK",
    "ANDROID_POWER_WRITE_BATTERY_COUNTERS",
    "ANDROID_POWER_WRITE_ENERGY_ESTIMATION_BREAKDOWN",
    "ANDROID_POWER_WRITE_ENTITY_STATE_RESIDENCY",
    "ANDROID_POWER_WRITE_POWER_RAILS_DATA",
    "LINUX_POWER_SYSFS_TICK",
};
static const char *const counter_names[] = {
    "COUNTER_ZERO_UNUSED",        "FTRACE_PAGES_DRAINED",        "PS_PIDS_SCANNED",
    "TRACE_SERVICE_COMMIT_DATA",  "PROFILER_UNWIND_QUEUE_SZ",    "PROFILER_UNWIND_CURRENT_PID",
    "WATCHDOG_CRASH_REASON",      "WATCHDOG_CRASH_TIME_BOOT_MS", "WATCHDOG_CRASH_ACTUAL_MONO",
    "WATCHDOG_CRASH_ACTUAL_BOOT", "WATCHDOG_CRASH_ACTUAL_CPU",   "FTRACE_SESSIONS",
};

// Returns the text of an iid. A few bytes can refer to a long text, which is written each time.
// Beyond a limit, the text is withheld.
static struct slice_name interned(struct import *im, struct metatrace *state,
                                  const struct wire_field *iid)
{
    const uint64_t *text = map64_find(&state->texts, field_u64(iid));
    if (!text)
        return slice_name("MISSING STRING");
    size_t size = im->strings.entries[*text].size;
    if (size > LONG_BYTES && state->n_long_bytes > LONG_BYTES_MAX) {
        stats_add(&im->stats, STAT_mmsql_interned_data_withheld, 1);
        return slice_name("");
    }
    if (size > LONG_BYTES)
        state->n_long_bytes += size;
    return (struct slice_name){.text = strset_text(&im->strings, (uint32_t)*text), .size = size};
}

static void texts_read(struct import *im, struct metatrace *state, const struct wire_field *message)
{
    for (struct fields each = fields_of(message, PB_PerfettoMetatrace_interned_strings);
         fields_next(&each);) {
        MESSAGE(part, PerfettoMetatrace_InternedString, &each.field);
        const struct wire_field *value = &part.value;
        uint32_t text = import_keep(im, value);
        bool is_new; // the first text of an iid stays
        if (text == STRSET_NONE ||
            !map64_get_or_add(&state->texts, field_u64(&part.iid), text, &is_new)) {
            import_fail(im, -ENOMEM);
            return;
        }
    }
}

struct pair {
    struct slice_name key, value;
    size_t place;
};
VEC_DEFINE(pair_vec, struct pair);

static int pair_compare(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    if (a->key.size != b->key.size)
        return a->key.size < b->key.size ? -1 : 1;
    int r = memcmp(a->key.text, b->key.text, a->key.size);
    if (r == 0)
        r = a->place < b->place ? -1 : a->place > b->place;
    return r;
}

static bool same_key(const struct pair_vec *pairs, size_t i, size_t j)
{
    return j < pairs->n && pairs->items[i].key.size == pairs->items[j].key.size &&
           memcmp(pairs->items[i].key.text, pairs->items[j].key.text, pairs->items[i].key.size) ==
               0;
}

// Makes args of the pairs. The values of a repeated key become an array.
static void pairs_write(struct import *im, const struct pair_vec *pairs, struct arg_vec *ret)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    size_t index = 0;
    for (size_t i = 0; i < pairs->n; i++) {
        const struct pair *pair = &pairs->items[i];
        bool goes_on = same_key(pairs, i, i + 1);
        strbuf_clear(&text);
        strbuf_add(&text, pair->key.text, pair->key.size);
        uint32_t flat = import_strbuf_keep(im, &text);
        if (goes_on || index)
            strbuf_addf(&text, "[%zu]", index);
        uint32_t key = import_strbuf_keep(im, &text);
        index = goes_on ? index + 1 : 0;
        if (flat == STRSET_NONE || key == STRSET_NONE)
            return;
        struct arg arg =
            arg_text(strset_text(&im->strings, key), pair->value.text, pair->value.size);
        arg.flat_key = strset_text(&im->strings, flat);
        if (arg_vec_push(ret, arg) < 0) {
            import_fail(im, -ENOMEM);
            return;
        }
    }
}

static void args_read(struct import *im, struct metatrace *state, const struct wire_field *message,
                      struct arg_vec *ret)
{
    CLEANUP(pair_vec_done) struct pair_vec pairs = {0};
    size_t key_bytes = 0;
    for (struct fields fields = fields_of(message, PB_PerfettoMetatrace_args);
         fields_next(&fields);) {
        // A few bytes can refer to a long key, which is built for each element of an array.
        if (pairs.n == ARGS_MAX || key_bytes > KEY_BYTES_MAX) {
            stats_add(&im->stats, STAT_mmsql_interned_data_withheld, 1);
            break;
        }
        MESSAGE(part, PerfettoMetatrace_Arg, &fields.field);
        const struct wire_field *key_iid = &part.key_iid;
        const struct wire_field *value_iid = &part.value_iid;
        struct pair pair = {
            .key = field_present(key_iid) ? interned(im, state, key_iid) : field_name(&part.key),
            .value =
                field_present(value_iid) ? interned(im, state, value_iid) : field_name(&part.value),
            .place = pairs.n,
        };
        if (pair_vec_push(&pairs, pair) < 0) {
            import_fail(im, -ENOMEM);
            return;
        }
        key_bytes += pair.key.size;
    }
    if (pairs.n)
        qsort(pairs.items, pairs.n, sizeof(*pairs.items), pair_compare);
    pairs_write(im, &pairs, ret);
}

static struct slice_name known_name(struct import *im, const struct wire_field *id,
                                    const char *what, const char *const *names, size_t n)
{
    uint32_t number = (uint32_t)field_u64(id);
    return number < n ? slice_name(names[number]) : import_text(im, "%s %u", what, number);
}

static void slice_write(struct import *im, struct metatrace *state, int64_t ts,
                        const union message_PerfettoMetatrace *event, const struct arg_vec *args)
{
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&event->thread_id));
    struct slice_spec spec = {
        .ts = ts,
        .dur = field_i64(&event->event_duration_ns),
        .track = thread_track_get(im, utid),
        .category = slice_name("metatrace"),
        .args = args->items,
        .n_args = args->n,
    };
    if (field_present(&event->event_id))
        spec.name = known_name(im, &event->event_id, "Event", event_names, ELEMENTS(event_names));
    else
        spec.name = field_present(&event->event_name_iid)
                        ? interned(im, state, &event->event_name_iid)
                        : field_name(&event->event_name);
    slice_add(&im->slices, &spec);
}

static void counter_write(struct import *im, int64_t ts,
                          const union message_PerfettoMetatrace *event, const struct arg_vec *args)
{
    struct slice_name name = field_name(&event->counter_name);
    if (field_present(&event->counter_id))
        name =
            known_name(im, &event->counter_id, "Counter", counter_names, ELEMENTS(counter_names));
    int64_t utid = processes_thread(&im->processes, (uint32_t)field_u64(&event->thread_id));
    struct track_spec track = {
        .type = "metatrace_counter",
        .counter = true,
        .dimensions = {dimension_int("utid", utid),
                       dimension_text("counter_name", name.text, name.size)},
        .name = name,
    };
    counter_push(im, ts, tracks_get(&im->tracks, &track), (int32_t)field_u64(&event->counter_value),
                 args_add(&im->args, args->items, args->n));
}

static void metatrace_sorted(struct import *im, const struct packet *packet)
{
    struct metatrace *state = packet->own;
    CLEANUP(arg_vec_done) struct arg_vec args = {0};
    MESSAGE(event, PerfettoMetatrace, packet->message);
    texts_read(im, state, packet->message);
    args_read(im, state, packet->message, &args);
    if (import_failed(im))
        return;
    if (field_present(&event.event_id) || field_present(&event.event_name) ||
        field_present(&event.event_name_iid))
        slice_write(im, state, packet->ts, &event, &args);
    else if (field_present(&event.counter_id) || field_present(&event.counter_name))
        counter_write(im, packet->ts, &event, &args);
    if (field_present(&event.has_overruns))
        stats_add(&im->stats, STAT_metatrace_overruns, 1);
}

static void metatrace_done(void *state)
{
    map64_done(&((struct metatrace *)state)->texts);
}

const struct importer importer_metatrace = {
    .field = PB_TracePacket_perfetto_metatrace,
    .sorted = metatrace_sorted,
    .state_size = sizeof(struct metatrace),
    .done = metatrace_done,
};
