// SPDX-License-Identifier: Apache-2.0
//
// A sample has its parts in the order of the bits in attr.sample_type: TID, TIME, CPU, READ,
// CALLCHAIN, REGS_USER, STACK_USER. All other records end with TID, TIME and CPU
// (attr.sample_id_all).
#include "producer/sources/perf/perf_ring_record.h"

#include <linux/perf_event.h>
#include <string.h>

#define ID_SIZE 24 // of TID, TIME and CPU

struct cursor {
    const uint8_t *at, *end;
    bool is_short; // the record ended too early
};

static const void *take(struct cursor *cursor, uint64_t size)
{
    if (cursor->is_short || size > (uint64_t)(cursor->end - cursor->at)) {
        cursor->is_short = true;
        return NULL;
    }
    const void *taken = cursor->at;
    cursor->at += size;
    return taken;
}

static uint64_t take_u64(struct cursor *cursor)
{
    uint64_t value = 0;
    const void *from = take(cursor, sizeof(value));
    if (from)
        memcpy(&value, from, sizeof(value));
    return value;
}

static uint32_t take_u32(struct cursor *cursor)
{
    uint32_t value = 0;
    const void *from = take(cursor, sizeof(value));
    if (from)
        memcpy(&value, from, sizeof(value));
    return value;
}

// Returns the text up to its NUL, or NULL. The kernel pads texts to eight bytes.
static const char *take_text(struct cursor *cursor)
{
    size_t size = (size_t)(cursor->end - cursor->at);
    return !cursor->is_short && memchr(cursor->at, 0, size) ? take(cursor, size) : NULL;
}

static void take_id(struct cursor *cursor, struct perf_record *ret)
{
    ret->pid = take_u32(cursor);
    ret->tid = take_u32(cursor);
    ret->time = take_u64(cursor);
    ret->cpu = take_u32(cursor);
    take_u32(cursor);
}

static void take_counts(const struct perf_layout *layout, struct cursor *cursor,
                        struct perf_record *ret)
{
    uint64_t n = take_u64(cursor);
    if (n > PERF_COUNTS_MAX || n != layout->n_counts) {
        cursor->is_short = true;
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        ret->sample.counts[i] = take_u64(cursor);
}

static void take_chain(struct cursor *cursor, struct perf_record *ret)
{
    uint64_t n = take_u64(cursor);
    if (n > UINT16_MAX) {
        cursor->is_short = true;
        return;
    }
    ret->sample.chain = take(cursor, n * sizeof(uint64_t));
    ret->sample.n_chain = ret->sample.chain ? n : 0;
}

static void take_user_stack(const struct perf_layout *layout, struct cursor *cursor,
                            struct perf_record *ret)
{
    uint64_t abi = take_u64(cursor);
    if (abi != PERF_SAMPLE_REGS_ABI_NONE)
        ret->sample.registers = take(cursor, layout->n_registers * sizeof(uint64_t));
    ret->sample.n_registers = layout->n_registers;
    uint64_t size = take_u64(cursor);
    if (size == 0)
        return;
    ret->sample.stack = take(cursor, size);
    uint64_t used = take_u64(cursor);
    ret->sample.stack_size = used < size ? used : size;
    if (abi != PERF_SAMPLE_REGS_ABI_64)
        ret->sample.registers = NULL;
}

static void read_sample(const struct perf_layout *layout, const struct perf_event_header *header,
                        struct cursor *cursor, struct perf_record *ret)
{
    ret->kind = PERF_SAMPLED;
    ret->sample.mode = header->misc & PERF_RECORD_MISC_CPUMODE_MASK;
    take_id(cursor, ret);
    if (layout->n_counts)
        take_counts(layout, cursor, ret);
    if (layout->has_chain)
        take_chain(cursor, ret);
    if (layout->n_registers)
        take_user_stack(layout, cursor, ret);
}

static void read_mapped(const struct perf_event_header *header, struct cursor *cursor,
                        struct perf_record *ret)
{
    ret->kind = PERF_MAPPED;
    ret->pid = take_u32(cursor);
    ret->tid = take_u32(cursor);
    ret->mapped.start = take_u64(cursor);
    uint64_t size = take_u64(cursor);
    ret->mapped.end = size < UINT64_MAX - ret->mapped.start ? ret->mapped.start + size : UINT64_MAX;
    ret->mapped.file_offset = take_u64(cursor);
    const uint8_t *identity = take(cursor, 24);
    if (identity && (header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
        ret->mapped.build_id = identity + 4;
        ret->mapped.build_id_size =
            identity[0] <= PERF_RECORD_BUILD_ID_MAX ? identity[0] : PERF_RECORD_BUILD_ID_MAX;
    }
    take_u64(cursor); // protection and flags
    ret->mapped.path = take_text(cursor);
    if (!ret->mapped.path)
        cursor->is_short = true;
}

static void read_named(const struct perf_event_header *header, struct cursor *cursor,
                       struct perf_record *ret)
{
    ret->kind = header->misc & PERF_RECORD_MISC_COMM_EXEC ? PERF_EXECUTED : PERF_NAMED;
    ret->pid = take_u32(cursor);
    ret->tid = take_u32(cursor);
    ret->named.name = take_text(cursor);
    if (!ret->named.name)
        cursor->is_short = true;
}

static void read_task(enum perf_record_kind kind, struct cursor *cursor, struct perf_record *ret)
{
    ret->kind = kind;
    ret->pid = take_u32(cursor);
    ret->forked.parent_pid = take_u32(cursor);
    ret->tid = take_u32(cursor);
    ret->forked.parent_tid = take_u32(cursor);
}

static void read_other(const struct perf_event_header *header, struct cursor *cursor,
                       struct perf_record *ret)
{
    switch (header->type) {
    case PERF_RECORD_MMAP2:
        read_mapped(header, cursor, ret);
        break;
    case PERF_RECORD_COMM:
        read_named(header, cursor, ret);
        break;
    case PERF_RECORD_FORK:
        read_task(PERF_FORKED, cursor, ret);
        break;
    case PERF_RECORD_EXIT:
        read_task(PERF_EXITED, cursor, ret);
        break;
    case PERF_RECORD_LOST:
        ret->kind = PERF_LOST;
        take_u64(cursor); // the event's id
        ret->n_lost = take_u64(cursor);
        break;
    case PERF_RECORD_LOST_SAMPLES:
        ret->kind = PERF_LOST;
        ret->n_lost = take_u64(cursor);
        break;
    default:
        ret->kind = PERF_OTHER;
        break;
    }
}

bool perf_record_read(const struct perf_layout *layout, const void *bytes, size_t size,
                      struct perf_record *ret)
{
    struct perf_event_header header;
    if (size < sizeof(header))
        return false;
    memcpy(&header, bytes, sizeof(header));
    struct cursor cursor = {(const uint8_t *)bytes + sizeof(header), (const uint8_t *)bytes + size,
                            false};
    *ret = (struct perf_record){.kind = PERF_OTHER};
    if (header.size != size)
        return false;
    if (header.type == PERF_RECORD_SAMPLE) {
        read_sample(layout, &header, &cursor, ret);
        return !cursor.is_short;
    }
    if (size < sizeof(header) + ID_SIZE)
        return false;
    struct cursor id = {cursor.end - ID_SIZE, cursor.end, false};
    take_id(&id, ret);
    cursor.end -= ID_SIZE;
    uint64_t time = ret->time;
    read_other(&header, &cursor, ret);
    ret->time = time;
    return !cursor.is_short;
}
