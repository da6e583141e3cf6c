// SPDX-License-Identifier: Apache-2.0
//
// The layout of a record depends on the attributes of its event. Samples begin with the values that
// the attributes request; other records end with these values. The event must therefore be found
// first, by an id whose place is the same for all events of a file.
#include "converter/translate/perf_record.h"

#include <string.h>

int perf_record_next(const uint8_t **at, const uint8_t *end, struct perf_record *ret)
{
    struct perf_event_header header;
    size_t left = (size_t)(end - *at);
    if (!left)
        return 0;
    if (left < sizeof(header))
        return -1;
    memcpy(&header, *at, sizeof(header));
    if (header.size < sizeof(header) || header.size > left)
        return -1;
    *ret = (struct perf_record){.type = header.type, .misc = header.misc};
    ret->body = (struct perf_bytes){.at = *at + sizeof(header), .end = *at + header.size};
    *at += header.size;
    uint64_t more = 0;
    struct perf_bytes body = ret->body;
    if (header.type == PERF_TOOL_AUXTRACE)
        more = perf_u64(&body);
    else if (header.type == PERF_TOOL_TRACING_DATA)
        more = ((uint64_t)perf_u32(&body) + 7) & ~UINT64_C(7);
    if (more > (size_t)(end - *at))
        return -1;
    *at += more;
    return 1;
}

static unsigned bits_in(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

// Reads the number that is `n` numbers after the start, or before the end.
static bool number_at(struct perf_bytes body, bool from_end, unsigned n, uint64_t *ret)
{
    size_t offset = (size_t)n * sizeof(uint64_t), left = perf_bytes_left(&body);
    if (left < offset + (from_end ? 0 : sizeof(uint64_t)) || (from_end && !n))
        return false;
    perf_bytes_skip(&body, from_end ? left - offset : offset);
    *ret = perf_u64(&body);
    return !body.failed;
}

// Reads the id of the event that a record belongs to. Returns false if the record has no id.
static bool event_id(const struct perf_event_attr *attr, const struct perf_record *record,
                     uint64_t *ret)
{
    uint64_t has = attr->sample_type;
    bool is_sample = record->type == PERF_RECORD_SAMPLE;
    if (has & PERF_SAMPLE_IDENTIFIER)
        return number_at(record->body, !is_sample, is_sample ? 0 : 1, ret);
    if (!(has & PERF_SAMPLE_ID))
        return false;
    if (is_sample)
        return number_at(
            record->body, false,
            bits_in(has & (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR)),
            ret);
    return number_at(record->body, true,
                     bits_in(has & (PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU)),
                     ret);
}

bool perf_record_find_event(const struct perf_file *file, struct perf_record *record)
{
    uint64_t id;
    if (record->type >= PERF_TOOL_FIRST)
        return true;
    if (!file->events.n)
        return false;
    const struct perf_event *first = &file->events.items[0];
    record->event = first;
    record->event_index = 0;
    if (file->events.n == 1 || (record->type != PERF_RECORD_SAMPLE && !first->attr.sample_id_all))
        return true;
    if (!event_id(&first->attr, record, &id))
        return false;
    if (!id)
        return true;
    const uint64_t *index = map64_find(&file->event_of_id, id);
    if (!index)
        return false;
    record->event_index = *index;
    record->event = &file->events.items[*index];
    return true;
}

void perf_record_read_time(struct perf_record *record)
{
    uint64_t ts;
    if (!record->event)
        return;
    uint64_t has = record->event->attr.sample_type;
    bool is_sample = record->type == PERF_RECORD_SAMPLE;
    if (!(has & PERF_SAMPLE_TIME) || (!is_sample && !record->event->attr.sample_id_all))
        return;
    unsigned n = is_sample
                     ? bits_in(has & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID))
                     : bits_in(has & (PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID |
                                      PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER));
    record->has_ts = number_at(record->body, !is_sample, n, &ts) && ts && ts <= INT64_MAX;
    record->ts = record->has_ts ? (int64_t)ts : 0;
}

unsigned perf_record_mode(const struct perf_record *record)
{
    switch (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) {
    case PERF_RECORD_MISC_KERNEL:
        return PERF_MODE_KERNEL;
    case PERF_RECORD_MISC_USER:
        return PERF_MODE_USER;
    case PERF_RECORD_MISC_HYPERVISOR:
        return PERF_MODE_HV;
    case PERF_RECORD_MISC_GUEST_KERNEL:
        return PERF_MODE_GUEST_KERNEL;
    case PERF_RECORD_MISC_GUEST_USER:
        return PERF_MODE_GUEST_USER;
    default:
        return PERF_MODE_UNKNOWN;
    }
}

unsigned perf_mode_of_mark(uint64_t mark)
{
    switch (mark) {
    case (uint64_t)PERF_CONTEXT_HV:
        return PERF_MODE_HV;
    case (uint64_t)PERF_CONTEXT_KERNEL:
        return PERF_MODE_KERNEL;
    case (uint64_t)PERF_CONTEXT_USER:
        return PERF_MODE_USER;
    case (uint64_t)PERF_CONTEXT_GUEST_KERNEL:
        return PERF_MODE_GUEST_KERNEL;
    case (uint64_t)PERF_CONTEXT_GUEST_USER:
        return PERF_MODE_GUEST_USER;
    default:
        return PERF_MODE_UNKNOWN;
    }
}

static void counter_take(struct perf_bytes *body, uint64_t format, struct perf_counter_value *ret)
{
    ret->has_id = format & PERF_FORMAT_ID;
    if (ret->has_id)
        ret->id = perf_u64(body);
    if (format & PERF_FORMAT_LOST)
        perf_u64(body);
}

static void counters_take(struct perf_bytes *body, uint64_t format, struct perf_sample *sample)
{
    uint64_t first = perf_u64(body);
    if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
        perf_u64(body);
    if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
        perf_u64(body);
    if (!(format & PERF_FORMAT_GROUP)) {
        sample->counters[0].value = first;
        counter_take(body, format, &sample->counters[0]);
        sample->n_counters = 1;
        return;
    }
    for (; first && !body->failed; first--) {
        struct perf_counter_value value = {.value = perf_u64(body)};
        counter_take(body, format, &value);
        if (sample->n_counters < PERF_COUNTERS_MAX)
            sample->counters[sample->n_counters++] = value;
    }
    body->failed |= !sample->n_counters;
}

bool perf_sample_read(const struct perf_record *record, struct perf_sample *ret)
{
    uint64_t has = record->event->attr.sample_type;
    struct perf_bytes body = record->body;
    struct perf_sample sample = {0};
    uint64_t identifier = has & PERF_SAMPLE_IDENTIFIER ? perf_u64(&body) : 0;
    sample.ip = has & PERF_SAMPLE_IP ? perf_u64(&body) : 0;
    if (has & PERF_SAMPLE_TID) {
        sample.pid = perf_u32(&body);
        sample.tid = perf_u32(&body);
    }
    if (has & PERF_SAMPLE_TIME)
        perf_u64(&body);
    if (has & PERF_SAMPLE_ADDR)
        perf_u64(&body);
    sample.id = has & PERF_SAMPLE_ID ? perf_u64(&body) : identifier;
    if (has & PERF_SAMPLE_STREAM_ID)
        perf_u64(&body);
    if (has & PERF_SAMPLE_CPU) {
        sample.cpu = perf_u32(&body);
        perf_u32(&body);
    }
    if (has & PERF_SAMPLE_PERIOD)
        sample.period = perf_u64(&body);
    if (has & PERF_SAMPLE_READ)
        counters_take(&body, record->event->attr.read_format, &sample);
    if (has & PERF_SAMPLE_CALLCHAIN) {
        sample.n_chain = perf_u64(&body);
        sample.chain = body;
        body.failed |= sample.n_chain > perf_bytes_left(&body) / sizeof(uint64_t);
    }
    bool ids_fit = !(has & PERF_SAMPLE_IDENTIFIER) || identifier == sample.id;
    if (body.failed || !ids_fit || !record->has_ts || !(has & PERF_SAMPLE_TID))
        return false;
    *ret = sample;
    return true;
}
