// SPDX-License-Identifier: Apache-2.0
//
// Each column is built as its packed field: a bundle ends with eleven copies. `size` is always an
// upper limit of their size, and tells the bundle when it must end.
//
// Names are compared as two words. Some kernel versions leave garbage after the terminator, so the
// garbage is cleared first.
#include "producer/sources/ftrace/compact_sched.h"

#include <string.h>

#include "common/str.h"
#include "producer/trace/quick_varint.h"
#include "protos/fields.h"

#define COLUMNS      11
#define EMPTY_SIZE   (5 + COLUMNS * (1 + 3)) // tags and lengths of the message and the columns
#define INTERNED_TAG 2                       // tag and length of a name

#define LOAD(type, p)                                                                              \
    ({                                                                                             \
        type load_value_;                                                                          \
        memcpy(&load_value_, (p), sizeof(load_value_));                                            \
        load_value_;                                                                               \
    })

static bool take(const struct event_format *format, const char *name, const char *type, size_t size,
                 uint16_t *ret)
{
    const struct format_field *field = event_format_field(format, name);
    if (!field || !str_eq(field->type, type) || field->size != size)
        return false;
    *ret = field->offset;
    return true;
}

static uint16_t record_size(const struct event_format *format)
{
    uint16_t size = 8;
    vec_foreach(&format->fields, field)
        if (field->offset + field->size > size)
            size = (uint16_t)(field->offset + field->size);
    return size;
}

static bool waking_format_of(const struct event_format *format, struct compact_format *ret)
{
    ret->waking_id = format->id;
    ret->waking_size = record_size(format);
    return take(format, "pid", "pid_t", 4, &ret->pid) &&
           take(format, "target_cpu", "int", 4, &ret->target_cpu) &&
           take(format, "prio", "int", 4, &ret->prio) &&
           take(format, "comm", "char", COMPACT_COMM_SIZE, &ret->comm) &&
           take(format, "common_flags", "unsigned char", 1, &ret->common_flags);
}

bool compact_format_of(const struct event_format *switch_event,
                       const struct event_format *waking_event, struct compact_format *ret)
{
    *ret = (struct compact_format){.switch_id = switch_event->id,
                                   .switch_size = record_size(switch_event)};
    const struct format_field *state = event_format_field(switch_event, "prev_state");
    if (!state || !state->is_signed || (state->size != 4 && state->size != 8))
        return false;
    ret->prev_state = state->offset;
    ret->prev_state_wide = state->size == 8;
    return take(switch_event, "next_pid", "pid_t", 4, &ret->next_pid) &&
           take(switch_event, "next_prio", "int", 4, &ret->next_prio) &&
           take(switch_event, "next_comm", "char", COMPACT_COMM_SIZE, &ret->next_comm) &&
           (!waking_event || waking_format_of(waking_event, ret));
}

static void column_reset(struct compact_column *column)
{
    column->end = column->bytes;
}

void compact_sched_reset(struct compact_sched *compact)
{
    struct compact_column *columns[COLUMNS] = {
        &compact->switch_times, &compact->switch_states, &compact->switch_pids,
        &compact->switch_prios, &compact->switch_comms,  &compact->waking_times,
        &compact->waking_pids,  &compact->waking_cpus,   &compact->waking_prios,
        &compact->waking_comms, &compact->waking_flags,
    };
    for (size_t i = 0; i < COLUMNS; i++)
        column_reset(columns[i]);
    compact->switch_time = compact->waking_time = 0;
    compact->n_switch = compact->n_waking = compact->n_comms = 0;
    compact->size = EMPTY_SIZE;
    memset(compact->slots, 0, sizeof(compact->slots));
}

static inline void put(struct compact_sched *compact, struct compact_column *column, uint64_t value)
{
    uint8_t *before = column->end;
    column->end = quick_put_varint(before, value);
    compact->size += (size_t)(column->end - before);
}

// Returns `word` with all bytes after its first zero byte cleared. *ret_ended: true if the word
// has a zero byte.
static inline uint64_t clear_after_zero(uint64_t word, bool *ret_ended)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = UINT64_C(0x8080808080808080);
    uint64_t zeros = (word - ones) & ~word & highs;
    *ret_ended = zeros != 0;
    return zeros ? word & ((zeros & -zeros) - 1) : word;
}

static uint32_t intern(struct compact_sched *compact, const uint8_t *comm)
{
    bool ended, ignored;
    uint64_t low = clear_after_zero(LOAD(uint64_t, comm), &ended);
    uint64_t high = ended ? 0 : clear_after_zero(LOAD(uint64_t, comm + 8), &ignored);
    uint64_t hash = (low ^ high * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    size_t slot = hash >> 32;
    for (;; slot++) {
        uint16_t *entry = &compact->slots[slot % (2 * COMPACT_COMMS_MAX)];
        if (!*entry) {
            uint32_t index = compact->n_comms++;
            compact->comms[index][0] = low;
            compact->comms[index][1] = high;
            *entry = (uint16_t)(index + 1);
            compact->size += INTERNED_TAG + COMPACT_COMM_SIZE;
            return index;
        }
        const uint64_t *found = compact->comms[*entry - 1];
        if (found[0] == low && found[1] == high)
            return *entry - 1u;
    }
}

int32_t compact_sched_add_switch(struct compact_sched *compact, const struct page_record *record)
{
    const struct compact_format *format = &compact->format;
    const uint8_t *data = record->data;
    int32_t pid = LOAD(int32_t, data + format->next_pid);
    int64_t state = format->prev_state_wide ? LOAD(int64_t, data + format->prev_state)
                                            : LOAD(int32_t, data + format->prev_state);
    put(compact, &compact->switch_times, record->timestamp - compact->switch_time);
    compact->switch_time = record->timestamp;
    put(compact, &compact->switch_pids, (uint64_t)(int64_t)pid);
    put(compact, &compact->switch_prios,
        (uint64_t)(int64_t)LOAD(int32_t, data + format->next_prio));
    put(compact, &compact->switch_states, (uint64_t)state);
    put(compact, &compact->switch_comms, intern(compact, data + format->next_comm));
    compact->n_switch++;
    return pid;
}

int32_t compact_sched_add_waking(struct compact_sched *compact, const struct page_record *record)
{
    const struct compact_format *format = &compact->format;
    const uint8_t *data = record->data;
    int32_t pid = LOAD(int32_t, data + format->pid);
    put(compact, &compact->waking_times, record->timestamp - compact->waking_time);
    compact->waking_time = record->timestamp;
    put(compact, &compact->waking_pids, (uint64_t)(int64_t)pid);
    put(compact, &compact->waking_cpus,
        (uint64_t)(int64_t)LOAD(int32_t, data + format->target_cpu));
    put(compact, &compact->waking_prios, (uint64_t)(int64_t)LOAD(int32_t, data + format->prio));
    put(compact, &compact->waking_comms, intern(compact, data + format->comm));
    put(compact, &compact->waking_flags, data[format->common_flags]);
    compact->n_waking++;
    return pid;
}

static void write_column(struct wire_writer *w, uint32_t field, const struct compact_column *column)
{
    wire_bytes(w, field, column->bytes, (size_t)(column->end - column->bytes));
}

void compact_sched_write(struct compact_sched *compact, struct wire_writer *w)
{
    if (!compact->n_switch && !compact->n_waking)
        return;
    size_t mark = wire_begin(w, PB_FtraceEventBundle_compact_sched);
    for (uint32_t i = 0; i < compact->n_comms; i++)
        wire_text(w, PB_FtraceEventBundle_CompactSched_intern_table,
                  (const char *)compact->comms[i],
                  strnlen((const char *)compact->comms[i], COMPACT_COMM_SIZE));
#define WRITE(field, column)                                                                       \
    write_column(w, PB_FtraceEventBundle_CompactSched_##field, &compact->column)
    if (compact->n_switch) {
        WRITE(switch_timestamp, switch_times);
        WRITE(switch_prev_state, switch_states);
        WRITE(switch_next_pid, switch_pids);
        WRITE(switch_next_prio, switch_prios);
        WRITE(switch_next_comm_index, switch_comms);
    }
    if (compact->n_waking) {
        WRITE(waking_timestamp, waking_times);
        WRITE(waking_pid, waking_pids);
        WRITE(waking_target_cpu, waking_cpus);
        WRITE(waking_prio, waking_prios);
        WRITE(waking_comm_index, waking_comms);
        WRITE(waking_common_flags, waking_flags);
    }
#undef WRITE
    wire_end(w, mark);
    compact_sched_reset(compact);
}
