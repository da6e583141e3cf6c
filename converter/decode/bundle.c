// SPDX-License-Identifier: Apache-2.0
//
// A processor's ring buffer has its events in order, so a run is usually read directly from the
// trace during the merge, without memory for its events. Only an unsorted run is read into memory
// and sorted. The sort is stable: events of the same time keep their order.
#include "converter/decode/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/vec.h"
#include "converter/decode/intact.h"
#include "protos/fields.h"

// The columns of struct run. A record has one value of each column.
enum { COLUMN_TS, COLUMN_A, COLUMN_B, COLUMN_C, COLUMN_COMM, COLUMN_FLAGS, N_COLUMNS };

static const uint32_t column_fields[][N_COLUMNS] = {
    [RUN_SWITCH] = {PB_FtraceEventBundle_CompactSched_switch_timestamp,
                    PB_FtraceEventBundle_CompactSched_switch_prev_state,
                    PB_FtraceEventBundle_CompactSched_switch_next_pid,
                    PB_FtraceEventBundle_CompactSched_switch_next_prio,
                    PB_FtraceEventBundle_CompactSched_switch_next_comm_index, 0},
    [RUN_WAKING] = {PB_FtraceEventBundle_CompactSched_waking_timestamp,
                    PB_FtraceEventBundle_CompactSched_waking_pid,
                    PB_FtraceEventBundle_CompactSched_waking_target_cpu,
                    PB_FtraceEventBundle_CompactSched_waking_prio,
                    PB_FtraceEventBundle_CompactSched_waking_comm_index,
                    PB_FtraceEventBundle_CompactSched_waking_common_flags},
};

VEC_DEFINE(comm_vec, struct sched_comm);
VEC_DEFINE(record_vec, struct run_record);

struct run {
    enum run_kind kind;
    bool damaged;
    struct wire_reader bundle;             // RUN_EVENTS: the rest of the bundle
    struct wire_reader columns[N_COLUMNS]; // compact runs
    bool has_flags;
    int64_t ts; // of the last record; time stamps are differences
    struct comm_vec comms;
    struct record_vec sorted; // owned; used instead of the bundle or columns, if not empty
    size_t next_sorted;
};

// Reads the time stamp. Perfetto writes the time stamp as the first field of an event; then *event
// moves past the field. The time stamp may also be a later field.
static bool event_ts(struct wire_reader *event, int64_t *ret)
{
    uint64_t value;
    if (event->pos < event->end && *event->pos == (PB_FtraceEvent_timestamp << 3 | WIRE_VARINT)) {
        const uint8_t *pos = event->pos + 1;
        if (wire_get_long_varint(&pos, event->end, &value)) {
            event->pos = pos;
            *ret = (int64_t)value;
            return true;
        }
    }
    struct wire_reader whole = *event;
    struct wire_field field;
    wire_foreach(&whole, &field) {
        if (field.number == PB_FtraceEvent_timestamp && field.type == WIRE_VARINT) {
            *ret = (int64_t)field.value;
            return true;
        }
    }
    return false;
}

static void measure_add(struct run_measure *run, int64_t ts, int64_t *last)
{
    if (!run->n)
        *run = (struct run_measure){.min_ts = ts, .max_ts = ts, .sorted = true};
    else if (ts < *last)
        run->sorted = false;
    if (ts < run->min_ts)
        run->min_ts = ts;
    if (ts > run->max_ts)
        run->max_ts = ts;
    *last = ts;
    run->n++;
}

static void measure_compact(const struct wire_field *field, struct bundle_measure *ret)
{
    for (enum run_kind kind = RUN_SWITCH; kind <= RUN_WAKING; kind++) {
        ret->messages[kind] = wire_sub(field);
        ret->runs[kind] = (struct run_measure){0};
        struct run *run = run_open(wire_sub(field), kind, true);
        struct run_record record;
        int64_t last = 0;
        while (run && run_next(run, &record))
            measure_add(&ret->runs[kind], record.ts, &last);
        ret->damaged |= !run || run->damaged;
        run_free(run);
    }
}

void bundle_measure(struct wire_reader bundle, struct bundle_measure *ret)
{
    *ret = (struct bundle_measure){.messages[RUN_EVENTS] = bundle};
    struct wire_reader event;
    struct wire_field field;
    uint16_t kind = field_kind_of(packet_kind, PB_TracePacket_ftrace_events);
    uint16_t event_kind = field_kind_of(kind, PB_FtraceEventBundle_event);
    int64_t ts, last = 0;
    bool has_clock_value = false, has_boot_value = false;
    while (wire_next_hot(&bundle, &field)) {
        if (field.number != PB_FtraceEventBundle_event && field.type == WIRE_BYTES)
            ret->damaged |= !message_is_intact(wire_sub(&field), field_kind_of(kind, field.number));
        switch (field.number) {
        case PB_FtraceEventBundle_event:
            event = wire_sub(&field);
            if (field.type == WIRE_BYTES && event_ts(&event, &ts))
                measure_add(&ret->runs[RUN_EVENTS], ts, &last);
            else
                ret->n_untimed++;
            ret->damaged |= !message_is_intact(event, event_kind);
            break;
        case PB_FtraceEventBundle_cpu:
            ret->has_cpu = true;
            ret->cpu = (uint32_t)field.value;
            break;
        case PB_FtraceEventBundle_lost_events:
            ret->lost_events = field.value;
            break;
        case PB_FtraceEventBundle_compact_sched:
            if (field.type == WIRE_BYTES)
                measure_compact(&field, ret);
            break;
        case PB_FtraceEventBundle_ftrace_clock:
            ret->clock = (uint32_t)field.value;
            break;
        case PB_FtraceEventBundle_ftrace_timestamp:
            ret->clock_value = (int64_t)field.value;
            has_clock_value = true;
            break;
        case PB_FtraceEventBundle_boot_timestamp:
            ret->boot_value = (int64_t)field.value;
            has_boot_value = true;
            break;
        case PB_FtraceEventBundle_generic_event_descriptors:
            ret->has_descriptors = true;
            break;
        case PB_FtraceEventBundle_ordered:
            ret->ordered = field.value != 0;
            break;
        case PB_FtraceEventBundle_last_read_event_timestamp:
        case PB_FtraceEventBundle_previous_bundle_end_timestamp:
            ret->start = (int64_t)field.value;
            ret->has_start = true;
            break;
        }
    }
    ret->has_clock_pair = has_clock_value && has_boot_value;
    ret->damaged |= bundle.error;
}

static bool columns_open(struct run *run, struct wire_reader compact)
{
    struct wire_field field;
    wire_foreach(&compact, &field) {
        if (field.type != WIRE_BYTES)
            continue;
        if (field.number == PB_FtraceEventBundle_CompactSched_intern_table) {
            struct sched_comm comm = {.text = (const char *)field.data,
                                      .size = (uint32_t)field.size};
            if (comm_vec_push(&run->comms, comm) < 0)
                return false;
            continue;
        }
        for (size_t i = 0; i < N_COLUMNS; i++)
            if (field.number == column_fields[run->kind][i])
                run->columns[i] = wire_sub(&field);
    }
    run->has_flags = run->columns[COLUMN_FLAGS].pos < run->columns[COLUMN_FLAGS].end;
    run->damaged |= compact.error;
    return true;
}

static bool event_next(struct run *run, struct run_record *ret)
{
    struct wire_field field;
    while (wire_next_hot(&run->bundle, &field)) {
        if (field.number != PB_FtraceEventBundle_event || field.type != WIRE_BYTES)
            continue;
        ret->event = wire_sub(&field);
        if (event_ts(&ret->event, &ret->ts))
            return true;
    }
    run->damaged |= run->bundle.error;
    return false;
}

static bool compact_next(struct run *run, struct run_record *ret)
{
    uint64_t v[N_COLUMNS] = {0};
    size_t n = run->has_flags ? N_COLUMNS : N_COLUMNS - 1, n_read = 0;
    for (size_t i = 0; i < n; i++)
        n_read += wire_next_varint(&run->columns[i], &v[i]);
    if (n_read < n || v[COLUMN_COMM] >= run->comms.n) {
        run->damaged |= n_read > 0; // columns of different length, or a missing name
        return false;
    }
    run->ts = (int64_t)((uint64_t)run->ts + v[COLUMN_TS]);
    ret->ts = run->ts;
    struct sched_comm comm = run->comms.items[v[COLUMN_COMM]];
    if (run->kind == RUN_SWITCH) {
        ret->sched_switch.prev_state = (int64_t)v[COLUMN_A];
        ret->sched_switch.next_pid = (int32_t)v[COLUMN_B];
        ret->sched_switch.next_prio = (int32_t)v[COLUMN_C];
        ret->sched_switch.comm = comm;
    } else {
        ret->waking.pid = (int32_t)v[COLUMN_A];
        ret->waking.target_cpu = (int32_t)v[COLUMN_B];
        ret->waking.prio = (int32_t)v[COLUMN_C];
        ret->waking.common_flags = (uint32_t)v[COLUMN_FLAGS];
        ret->waking.has_flags = run->has_flags;
        ret->waking.comm = comm;
    }
    return true;
}

bool run_next(struct run *run, struct run_record *ret)
{
    if (run->sorted.n) {
        if (run->next_sorted == run->sorted.n)
            return false;
        *ret = run->sorted.items[run->next_sorted++];
        return true;
    }
    return run->kind == RUN_EVENTS ? event_next(run, ret) : compact_next(run, ret);
}

// Sorts `items` by merging with the buffer `other`. The sort is stable, unlike qsort().
static void records_sort(struct run_record *items, struct run_record *other, size_t n)
{
    if (n < 2)
        return;
    size_t half = n / 2, a = 0, b = half;
    records_sort(items, other, half);
    records_sort(items + half, other, n - half);
    for (size_t i = 0; i < n; i++)
        other[i] = b == n || (a < half && items[a].ts <= items[b].ts) ? items[a++] : items[b++];
    memcpy(items, other, n * sizeof(*items));
}

static bool run_sort(struct run *run)
{
    struct record_vec records = {0};
    struct run_record record;
    while (run_next(run, &record))
        if (record_vec_push(&records, record) < 0)
            break;
    struct run_record *other = memory_malloc((records.n + 1) * sizeof(*other));
    if (other)
        records_sort(records.items, other, records.n);
    free(other);
    run->sorted = records;
    return other != NULL;
}

struct run *run_open(struct wire_reader message, enum run_kind kind, bool sorted)
{
    struct run *run = memory_calloc(1, sizeof(*run));
    if (!run)
        return NULL;
    run->kind = kind;
    run->bundle = message;
    if ((kind == RUN_EVENTS || columns_open(run, message)) && (sorted || run_sort(run)))
        return run;
    return run_free(run);
}

struct run *run_free(struct run *run)
{
    if (run) {
        comm_vec_done(&run->comms);
        record_vec_done(&run->sorted);
        free(run);
    }
    return NULL;
}
