// SPDX-License-Identifier: Apache-2.0
//
// Running a plan is the hot path of the whole producer, with as few checks as possible. Tags are
// ready as bytes. One compare checks the record's size for all fixed fields. The caller has
// reserved room for the longest output. Only the targets of dynamic fields are checked in each
// record.
//
// Lengths of submessages nearly always take one byte. This byte is reserved, and the body is moved
// if its length needs more. The move is cheaper than computing sizes first or reserving more bytes.
#include "producer/sources/ftrace/event_plan.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "producer/sources/ftrace/plan_fields.h"
#include "producer/trace/quick_varint.h"
#include "protos/fields.h"

#define TAG_BUNDLE_EVENT    (PB_FtraceEventBundle_event << 3 | WIRE_BYTES)
#define TAG_EVENT_TIMESTAMP (PB_FtraceEvent_timestamp << 3 | WIRE_VARINT)
#define TAG_EVENT_PID       (PB_FtraceEvent_pid << 3 | WIRE_VARINT)

// Bytes around the fields of an event: tag and length of the FtraceEvent, timestamp and pid with
// their tags, tag and length of the event's own message. A length takes at most three bytes.
#define EVENT_OVERHEAD_MAX (1 + 3 + 1 + WIRE_VARINT_MAX + 1 + WIRE_VARINT_MAX + 4 + 3)

#define COMMON_PID_OFFSET 4

#define LOAD(type, p)                                                                              \
    ({                                                                                             \
        type load_value_;                                                                          \
        memcpy(&load_value_, (p), sizeof(load_value_));                                            \
        load_value_;                                                                               \
    })

static inline uint8_t *put_tag(uint8_t *p, uint32_t tag, uint8_t tag_size)
{
    memcpy(p, &tag, sizeof(tag));
    return p + tag_size;
}

static inline uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t size)
{
    p = wire_put_varint(p, size);
    memcpy(p, bytes, size);
    return p + size;
}

static inline uint8_t *put_text(uint8_t *p, const uint8_t *text, size_t size_max)
{
    size_t size = strnlen((const char *)text, size_max);
    p = put_bytes(p, text, size);
    wire_mend_text(p - size, size);
    return p;
}

#ifdef __SSE2__

// Copies all 16 bytes and counts the bytes before the zero.
static inline uint8_t *put_text16(uint8_t *p, const uint8_t *text)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)text);
    unsigned zeros = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()));
    unsigned size = (unsigned)__builtin_ctz(zeros | 1u << 16);
    *p++ = (uint8_t)size;
    _mm_storeu_si128((__m128i *)p, bytes);
    if (__builtin_expect(_mm_movemask_epi8(bytes) != 0, 0))
        wire_mend_text_slow(p, size);
    return p + size;
}

#else

// Returns the index of the first zero byte of a word in memory order; 8: none.
static inline unsigned zero_byte(uint64_t word)
{
    uint64_t zeros = (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
    return zeros ? (unsigned)__builtin_ctzll(zeros) / 8 : 8;
}

// Copies all 16 bytes and counts the bytes before the zero.
static inline uint8_t *put_text16(uint8_t *p, const uint8_t *text)
{
    uint64_t bits = LOAD(uint64_t, text);
    unsigned size = zero_byte(bits);
    if (size == 8) {
        uint64_t word = LOAD(uint64_t, text + 8);
        size += zero_byte(word);
        bits |= word;
    }
    *p++ = (uint8_t)size;
    memcpy(p, text, 16);
    if (__builtin_expect((bits & UINT64_C(0x8080808080808080)) != 0, 0))
        wire_mend_text_slow(p, size);
    return p + size;
}

#endif

static __attribute__((noinline)) uint8_t *close_long_message(uint8_t *body, uint8_t *end)
{
    size_t size = (size_t)(end - body), extra = wire_varint_size(size) - 1;
    memmove(body + extra, body, size);
    wire_put_varint(body - 1, size);
    return end + extra;
}

// Closes a submessage whose one length byte is before `body`.
static inline uint8_t *close_message(uint8_t *body, uint8_t *end)
{
    size_t size = (size_t)(end - body);
    if (__builtin_expect(size >= 0x80, 0))
        return close_long_message(body, end);
    body[-1] = (uint8_t)size;
    return end;
}

// The kernel packs a device as 12 bits major and 20 bits minor; user space interleaves them.
static inline uint64_t user_dev(uint64_t kernel_dev, size_t size)
{
    uint64_t major = kernel_dev >> 20, minor = kernel_dev & 0xfffff;
    uint64_t dev = (major & 0xfffff000) << 32 | (major & 0xfff) << 8 | (minor & 0xffffff00) << 12 |
                   (minor & 0xff);
    return size == 4 ? (uint32_t)dev : dev;
}

static inline uint64_t load_element(const uint8_t *p, size_t size, bool is_signed)
{
    switch (size) {
    case 1:
        return is_signed ? (uint64_t)LOAD(int8_t, p) : LOAD(uint8_t, p);
    case 2:
        return is_signed ? (uint64_t)LOAD(int16_t, p) : LOAD(uint16_t, p);
    case 4:
        return is_signed ? (uint64_t)LOAD(int32_t, p) : LOAD(uint32_t, p);
    default:
        return LOAD(uint64_t, p);
    }
}

static uint8_t *put_elements(uint8_t *p, const struct plan_op *op, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + op->element_size <= size; at += op->element_size) {
        p = put_tag(p, op->tag, op->tag_size);
        p = wire_put_varint(p, load_element(data + at, op->element_size, op->is_signed));
    }
    return p;
}

// Finds the target of a __data_loc or __rel_loc field. Returns false if it is beyond the record.
static inline bool locate(const struct plan_op *op, const struct page_record *record,
                          const uint8_t **ret_data, size_t *ret_size)
{
    uint32_t word = LOAD(uint32_t, record->data + op->offset);
    size_t offset = word & 0xffff, size = word >> 16;
    if (op->kind >= PLAN_REL_TEXT)
        offset += (size_t)op->offset + sizeof(word);
    if (size && (offset > record->size || size > record->size - offset))
        return false;
    *ret_data = record->data + (size ? offset : 0);
    *ret_size = size;
    return true;
}

// Writes the kernel text at an address; empty for an unknown one. For a user-space address, writes
// the address itself, which is not a secret.
static uint8_t *put_pointed_text(uint8_t *p, const struct event_context *context, uint64_t address)
{
    const char *text = kernel_strings_find(context->strings, address);
    if (text)
        return put_text(p, (const uint8_t *)text, PLAN_POINTED_TEXT_MAX);
    char hex[2 + 16];
    size_t n = 0;
    if (address && !(address >> 63)) {
        unsigned digits = (unsigned)(63 - __builtin_clzll(address)) / 4 + 1;
        hex[n++] = '0';
        hex[n++] = 'x';
        while (digits--)
            hex[n++] = "0123456789abcdef"[address >> (4 * digits) & 15];
    }
    return put_bytes(p, hex, n);
}

// Encodes the rarer kinds. Returns NULL if the record is malformed.
static __attribute__((noinline)) uint8_t *run_rare(const struct plan_op *op,
                                                   const struct event_context *context,
                                                   const struct page_record *record, uint8_t *p)
{
    const uint8_t *from = record->data + op->offset, *data;
    size_t size;
    switch (op->kind) {
    case PLAN_DEV32:
        return quick_put_varint(put_tag(p, op->tag, op->tag_size),
                                user_dev(LOAD(uint32_t, from), 4));
    case PLAN_DEV64:
        return quick_put_varint(put_tag(p, op->tag, op->tag_size),
                                user_dev(LOAD(uint64_t, from), 8));
    case PLAN_SYMBOL32:
        return quick_put_varint(put_tag(p, op->tag, op->tag_size),
                                kernel_symbols_number(context->symbols, LOAD(uint32_t, from)));
    case PLAN_SYMBOL64:
        return quick_put_varint(put_tag(p, op->tag, op->tag_size),
                                kernel_symbols_number(context->symbols, LOAD(uint64_t, from)));
    case PLAN_POINTED32:
        return put_pointed_text(put_tag(p, op->tag, op->tag_size), context, LOAD(uint32_t, from));
    case PLAN_POINTED64:
        return put_pointed_text(put_tag(p, op->tag, op->tag_size), context, LOAD(uint64_t, from));
    case PLAN_BYTES:
        return put_bytes(put_tag(p, op->tag, op->tag_size), from, op->size);
    case PLAN_ELEMENTS:
        return put_elements(p, op, from, op->size);
    case PLAN_REST_ELEMENTS:
        return put_elements(p, op, from, record->size - op->offset);
    case PLAN_REST_BYTES:
        return put_bytes(put_tag(p, op->tag, op->tag_size), from, record->size - op->offset);
    case PLAN_LOC_BYTES:
    case PLAN_REL_BYTES:
        if (!locate(op, record, &data, &size))
            return NULL;
        return put_bytes(put_tag(p, op->tag, op->tag_size), data, size);
    case PLAN_LOC_ELEMENTS:
    case PLAN_REL_ELEMENTS:
        if (!locate(op, record, &data, &size))
            return NULL;
        return put_elements(p, op, data, size);
    default:
        return NULL;
    }
}

// Encodes a field of any kind. Returns NULL if the record is malformed.
static __attribute__((noinline)) uint8_t *run_op(const struct plan_op *op,
                                                 const struct event_context *context,
                                                 const struct page_record *record, uint8_t *p)
{
    const uint8_t *from = record->data + op->offset;
    uint64_t value;
    switch (op->kind) {
    case PLAN_U8:
        value = LOAD(uint8_t, from);
        break;
    case PLAN_U16:
        value = LOAD(uint16_t, from);
        break;
    case PLAN_U32:
        value = LOAD(uint32_t, from);
        break;
    case PLAN_64:
        value = LOAD(uint64_t, from);
        break;
    case PLAN_S8:
        value = (uint64_t)(int64_t)LOAD(int8_t, from);
        break;
    case PLAN_S16:
        value = (uint64_t)(int64_t)LOAD(int16_t, from);
        break;
    case PLAN_S32:
        value = (uint64_t)(int64_t)LOAD(int32_t, from);
        break;
    case PLAN_64_AS_U32:
        value = LOAD(uint64_t, from);
        if (value > UINT32_MAX)
            return p;
        break;
    case PLAN_64_AS_S32:
        value = LOAD(uint64_t, from);
        if ((uint64_t)(int64_t)(int32_t)value != value)
            return p;
        break;
    case PLAN_BOOL:
        value = LOAD(uint8_t, from) != 0;
        break;
    case PLAN_PID32: {
        int32_t pid = LOAD(int32_t, from);
        pid_feed_publish(context->pids, pid);
        value = (uint64_t)(int64_t)pid;
        break;
    }
    case PLAN_TEXT16:
        return put_text16(put_tag(p, op->tag, op->tag_size), from);
    case PLAN_TEXT:
        return put_text(put_tag(p, op->tag, op->tag_size), from, op->size);
    case PLAN_REST_TEXT:
        return put_text(put_tag(p, op->tag, op->tag_size), from, record->size - op->offset);
    case PLAN_LOC_TEXT:
    case PLAN_REL_TEXT: {
        const uint8_t *data;
        size_t size;
        if (!locate(op, record, &data, &size))
            return NULL;
        return put_text(put_tag(p, op->tag, op->tag_size), data, size);
    }
    default:
        return run_rare(op, context, record, p);
    }
    return quick_put_varint(put_tag(p, op->tag, op->tag_size), value);
}

// Writes the fields of a GenericFtraceEvent, each with its name.
static __attribute__((noinline)) uint8_t *run_named_ops(const struct event_plan *plan,
                                                        const struct event_context *context,
                                                        const struct page_record *record,
                                                        uint8_t *p)
{
    memcpy(p, plan->bytes, plan->prefix_size);
    p += plan->prefix_size;
    const struct plan_op *op = plan->ops, *end = plan->ops + plan->n_ops;
    for (; op < end; op++) {
        memcpy(p, plan->bytes + op->prefix, op->prefix_size);
        uint8_t *body = p + 2; // after the field's tag and its length
        p = run_op(op, context, record, p + op->prefix_size);
        if (!p)
            return NULL;
        if (op->prefix_size)
            p = close_message(body, p);
    }
    return p;
}

static inline uint8_t *run_ops(const struct event_plan *plan, const struct event_context *context,
                               const struct page_record *record, uint8_t *p)
{
    const struct plan_op *op = plan->ops, *end = plan->ops + plan->n_ops;
    for (; op < end; op++) {
        if (__builtin_expect(op->quick == PLAN_QUICK_NONE, 0)) {
            p = run_op(op, context, record, p);
            if (__builtin_expect(!p, 0))
                return NULL;
            continue;
        }
        p = put_tag(p, op->tag, op->tag_size);
        if (op->quick == PLAN_QUICK_TEXT16) {
            p = put_text16(p, record->data + op->offset);
            continue;
        }
        uint64_t value = LOAD(uint64_t, record->data + op->word) >> op->word_shift;
        value = (value ^ op->sign) - op->sign;
        if (op->quick == PLAN_QUICK_PID)
            pid_feed_publish(context->pids, (int32_t)value);
        p = quick_put_varint(p, value);
    }
    return p;
}

// Neighbouring events differ in the low 28 bits of their times, which take four bytes. The bytes of
// the rest stay the same for a quarter of a second.
static inline uint8_t *put_time(uint8_t *p, struct event_context *context, uint64_t time)
{
    uint64_t high = time >> QUICK_BITS;
    if (__builtin_expect(!high, 0))
        return wire_put_varint(p, time);
    if (__builtin_expect(high != context->time_high, 0)) {
        uint8_t bytes[WIRE_VARINT_MAX] = {0};
        context->time_high = high;
        context->time_high_size = (uint8_t)(wire_put_varint(bytes, high) - bytes);
        memcpy(&context->time_high_bytes, bytes, sizeof(context->time_high_bytes));
    }
    uint32_t low = htole32(quick_spread(time & ((1u << QUICK_BITS) - 1)) | UINT32_C(0x80808080));
    memcpy(p, &low, sizeof(low));
    memcpy(p + sizeof(low), &context->time_high_bytes, sizeof(context->time_high_bytes));
    return p + sizeof(low) + context->time_high_size;
}

struct event_plan *event_plan_free(struct event_plan *plan)
{
    if (!plan)
        return NULL;
    free(plan->bytes);
    free(plan->descriptor);
    free(plan);
    return NULL;
}

uint8_t *event_plan_encode(const struct event_plan *plan, struct event_context *context,
                           const struct page_record *record, uint8_t *out)
{
    if (__builtin_expect(record->size < plan->record_min, 0))
        return NULL;
    if (__builtin_expect(plan->pid_changes, 0))
        pid_feed_forget(context->pids, LOAD(int32_t, record->data + plan->pid_changes), false);

    uint8_t *p = out, *event = out + 2;
    p[0] = TAG_BUNDLE_EVENT;
    p[2] = TAG_EVENT_TIMESTAMP;
    p = put_time(event + 1, context, record->timestamp);
    *p++ = TAG_EVENT_PID;
    int32_t pid = LOAD(int32_t, record->data + COMMON_PID_OFFSET);
    pid_feed_publish(context->pids, pid);
    p = quick_put_varint(p, (uint64_t)(int64_t)pid);
    p = put_tag(p, plan->tag, plan->tag_size);
    uint8_t *body = ++p;
    p = __builtin_expect(plan->prefix_size, 0) ? run_named_ops(plan, context, record, p)
                                               : run_ops(plan, context, record, p);
    if (__builtin_expect(!p, 0))
        return NULL;
    return close_message(event, close_message(body, p));
}
