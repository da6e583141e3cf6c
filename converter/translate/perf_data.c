// SPDX-License-Identifier: Apache-2.0
//
// perf.data: each sample, mapping and name of a thread becomes a packet.
//
// perf writes mappings of processes that were running before it without a time. They hold from the
// first time that is known so far; without a record with a time behind them, they are left
// out. Names of threads come last among records of the same time, so
// that the name of a thread is the last one that it had. Both follow Perfetto.
//
// Records are read in up to three walks over the file, so that none of them is kept in memory:
// compressed records are inflated into a file beside it, then all records but names become packets,
// then names do.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/translate/perf_file.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

// Records that perf itself adds; linux/perf_event.h does not have them.
enum {
    RECORD_OF_TOOL = 64,
    RECORD_ATTR = 64,
    RECORD_TRACING_DATA = 66,
    RECORD_BUILD_ID = 67,
    RECORD_AUXTRACE_INFO = 70,
    RECORD_AUXTRACE = 71,
    RECORD_TIME_CONV = 79,
    RECORD_FEATURE = 80,
    RECORD_COMPRESSED = 81,
    RECORD_COMPRESSED2 = 83,
};

#define RECORD_TYPES          128
#define TIMEBASE_LIMIT        (UINT64_C(1) << 62) // simpleperf's period of counted events
#define INFLATED_CHUNK        ((size_t)128 << 10)
#define COUNTERS_MAX          32
#define EVENT_TEXTS_MAX       ((size_t)64 << 20) // bytes of a text in the packets of all events
#define EVENT_TEXT_MAX        ((size_t)1 << 20)  // the same, of one event
#define UNKNOWN_MODE          0
#define CPU_MODE_KERNEL       1
#define CPU_MODE_USER         2
#define CPU_MODE_HV           3
#define CPU_MODE_GUEST_KERNEL 4
#define CPU_MODE_GUEST_USER   5

struct perf_data {
    struct translation *to;
    struct perf_file file;
    struct spill inflated;
    const uint8_t *pending; // the first record whose time is not known yet; NULL: none
    int64_t min_ts;         // INT64_MAX: none yet
    uint64_t unknown[RECORD_TYPES], skipped[RECORD_TYPES];
    uint64_t n_lost;
    bool has_compressed;
};

struct record {
    uint32_t type;
    uint16_t misc;
    struct perf_bytes body;
    const struct perf_event *event; // NULL: a record of the tool
    size_t event_index;
    bool has_ts;
    int64_t ts;
};

static unsigned bits_in(uint64_t bits)
{
    return (unsigned)__builtin_popcountll(bits);
}

// Reads the number that stands `n` numbers behind the start, or in front of the end.
static bool number_at(struct perf_bytes body, bool from_end, unsigned n, uint64_t *ret)
{
    size_t offset = (size_t)n * sizeof(uint64_t), left = perf_bytes_left(&body);
    if (left < offset + (from_end ? 0 : sizeof(uint64_t)) || (from_end && !n))
        return false;
    perf_bytes_skip(&body, from_end ? left - offset : offset);
    *ret = perf_u64(&body);
    return !body.failed;
}

// The id of the event that a record belongs to. False: the record has none.
static bool event_id(const struct perf_event_attr *attr, const struct record *record, uint64_t *ret)
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

// Finds the event of a record. False: the record's id is of no event.
static bool event_find(const struct perf_file *file, struct record *record)
{
    uint64_t id;
    if (record->type >= RECORD_OF_TOOL)
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

static void time_read(struct record *record)
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

static void count(uint64_t *counts, uint32_t type)
{
    counts[type < RECORD_TYPES ? type : RECORD_TYPES - 1]++;
}

static unsigned cpu_mode(uint16_t misc)
{
    switch (misc & PERF_RECORD_MISC_CPUMODE_MASK) {
    case PERF_RECORD_MISC_KERNEL:
        return CPU_MODE_KERNEL;
    case PERF_RECORD_MISC_USER:
        return CPU_MODE_USER;
    case PERF_RECORD_MISC_HYPERVISOR:
        return CPU_MODE_HV;
    case PERF_RECORD_MISC_GUEST_KERNEL:
        return CPU_MODE_GUEST_KERNEL;
    case PERF_RECORD_MISC_GUEST_USER:
        return CPU_MODE_GUEST_USER;
    default:
        return UNKNOWN_MODE;
    }
}

static bool is_kernel_mode(unsigned mode)
{
    return mode == CPU_MODE_KERNEL || mode == CPU_MODE_GUEST_KERNEL;
}

struct counter_value {
    uint64_t id, value;
    bool has_id;
};

struct sample {
    uint64_t id, ip, period;
    uint32_t pid, tid, cpu;
    struct counter_value counters[COUNTERS_MAX];
    size_t n_counters;
    struct perf_bytes chain;
    uint64_t n_chain;
};

static void counter_take(struct perf_bytes *body, uint64_t format, struct counter_value *ret)
{
    ret->has_id = format & PERF_FORMAT_ID;
    if (ret->has_id)
        ret->id = perf_u64(body);
    if (format & PERF_FORMAT_LOST)
        perf_u64(body);
}

static void counters_take(struct perf_bytes *body, uint64_t format, struct sample *sample)
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
        struct counter_value value = {.value = perf_u64(body)};
        counter_take(body, format, &value);
        if (sample->n_counters < COUNTERS_MAX)
            sample->counters[sample->n_counters++] = value;
    }
    body->failed |= !sample->n_counters;
}

// False: the sample ends too early, or has no time or no thread.
static bool sample_read(const struct record *record, struct sample *ret)
{
    uint64_t has = record->event->attr.sample_type;
    struct perf_bytes body = record->body;
    struct sample sample = {0};
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
    *ret = sample;
    return !body.failed && ids_fit && record->has_ts && (has & PERF_SAMPLE_TID);
}

static unsigned mode_of_mark(uint64_t mark)
{
    switch (mark) {
    case (uint64_t)PERF_CONTEXT_HV:
        return CPU_MODE_HV;
    case (uint64_t)PERF_CONTEXT_KERNEL:
        return CPU_MODE_KERNEL;
    case (uint64_t)PERF_CONTEXT_USER:
        return CPU_MODE_USER;
    case (uint64_t)PERF_CONTEXT_GUEST_KERNEL:
        return CPU_MODE_GUEST_KERNEL;
    case (uint64_t)PERF_CONTEXT_GUEST_USER:
        return CPU_MODE_GUEST_USER;
    default:
        return UNKNOWN_MODE;
    }
}

// The addresses of the call chain, then the runs of user and kernel frames. Marks in the chain tell
// the mode of the frames behind them.
static void chain_write(struct wire_writer *w, const struct sample *sample, unsigned mode,
                        bool has_ip)
{
    struct perf_bytes chain = sample->chain;
    size_t addresses = wire_begin(w, PB_ForeignSample_addresses), n = 0;
    for (uint64_t i = 0; i < sample->n_chain; i++) {
        uint64_t ip = perf_u64(&chain);
        if (ip >= (uint64_t)PERF_CONTEXT_MAX)
            continue;
        wire_varint(w, ip);
        n++;
    }
    if (!n && has_ip)
        wire_varint(w, sample->ip);
    wire_end(w, addresses);
    size_t runs = wire_begin(w, PB_ForeignSample_mode_runs);
    uint64_t run = 0;
    bool in_kernel = false;
    chain = sample->chain;
    unsigned now = mode;
    for (uint64_t i = 0; i < sample->n_chain && n; i++) {
        uint64_t ip = perf_u64(&chain);
        if (ip >= (uint64_t)PERF_CONTEXT_MAX) {
            now = mode_of_mark(ip);
            continue;
        }
        if (is_kernel_mode(now) != in_kernel) {
            wire_varint(w, run);
            run = 0;
            in_kernel = !in_kernel;
        }
        run++;
    }
    if (!n && has_ip) {
        if (is_kernel_mode(mode))
            wire_varint(w, 0);
        run = 1;
    }
    wire_varint(w, run);
    wire_end(w, runs);
}

// False: a counter is of no event, or the sample stands for an unknown number of events.
static bool counters_write(struct wire_writer *w, const struct perf_data *data,
                           const struct record *record, const struct sample *sample)
{
    const struct perf_event_attr *attr = &record->event->attr;
    bool has_period = attr->sample_type & PERF_SAMPLE_PERIOD;
    uint64_t events[COUNTERS_MAX];
    if (!sample->n_counters) {
        if (!has_period && attr->freq)
            return false;
        wire_uint(w, PB_ForeignSample_is_delta, 1);
        wire_uint(w, PB_ForeignSample_counter_events, record->event_index);
        wire_uint(w, PB_ForeignSample_counter_values,
                  has_period ? sample->period : attr->sample_period);
        return true;
    }
    for (size_t i = 0; i < sample->n_counters; i++) {
        const uint64_t *index = sample->counters[i].has_id
                                    ? map64_find(&data->file.event_of_id, sample->counters[i].id)
                                    : NULL;
        if (!index && sample->counters[i].has_id)
            return false;
        events[i] = index ? *index : record->event_index;
    }
    for (size_t i = 0; i < sample->n_counters; i++) {
        wire_uint(w, PB_ForeignSample_counter_events, events[i]);
        wire_uint(w, PB_ForeignSample_counter_values, sample->counters[i].value);
    }
    return true;
}

static bool sample_write(struct perf_data *data, const struct record *record)
{
    struct sample sample;
    if (!record->event || !sample_read(record, &sample))
        return false;
    uint64_t has = record->event->attr.sample_type;
    unsigned mode = cpu_mode(record->misc);
    struct wire_writer *w = packets_begin(&data->to->packets, record->ts);
    size_t message = wire_begin(w, PB_TracePacket_foreign_sample);
    wire_string(w, PB_ForeignSample_source, "linux.perf");
    wire_uint(w, PB_ForeignSample_pid, sample.pid);
    wire_uint(w, PB_ForeignSample_tid, sample.tid);
    if (has & PERF_SAMPLE_CPU)
        wire_uint(w, PB_ForeignSample_cpu, sample.cpu);
    wire_uint(w, PB_ForeignSample_cpu_mode, mode);
    wire_uint(w, PB_ForeignSample_event, record->event_index);
    chain_write(w, &sample, mode, has & PERF_SAMPLE_IP);
    if (!data->file.is_simpleperf)
        wire_uint(w, PB_ForeignSample_adjust_callers, 1);
    if (!counters_write(w, data, record, &sample)) {
        packets_drop(&data->to->packets);
        return false;
    }
    wire_end(w, message);
    return packets_end(&data->to->packets);
}

static bool mapping_write(struct perf_data *data, const struct record *record, int64_t ts)
{
    enum { INODE_BYTES = 24, PROTECTION_BYTES = 8, BUILD_ID_BYTES = 20 };
    struct perf_bytes body = record->body;
    struct perf_build_id own = {0};
    const struct perf_build_id *id = NULL;
    uint32_t pid = perf_u32(&body), tid = perf_u32(&body);
    uint64_t start = perf_u64(&body), size = perf_u64(&body), offset = perf_u64(&body);
    if (record->type == PERF_RECORD_MMAP2) {
        if (record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
            uint32_t head = perf_u32(&body);
            own.size = (uint8_t)head;
            perf_bytes_take(&body, own.bytes, BUILD_ID_BYTES);
            id = &own;
        } else {
            perf_bytes_skip(&body, INODE_BYTES);
        }
        perf_bytes_skip(&body, PROTECTION_BYTES);
    }
    if (body.failed || own.size > BUILD_ID_BYTES || !memchr(body.at, 0, perf_bytes_left(&body)))
        return false;
    struct text name = perf_text_take(&body);
    if (!id)
        id = perf_build_id_find(&data->file, pid, name);
    struct wire_writer *w = packets_begin(&data->to->packets, ts);
    size_t message = wire_begin(w, PB_TracePacket_foreign_mapping);
    wire_uint(w, PB_ForeignMapping_pid, pid);
    wire_uint(w, PB_ForeignMapping_tid, tid);
    wire_uint(w, PB_ForeignMapping_start, start);
    wire_uint(w, PB_ForeignMapping_size, size);
    wire_uint(w, PB_ForeignMapping_offset, offset);
    wire_text(w, PB_ForeignMapping_name, name.at, name.size);
    if (id)
        wire_bytes(w, PB_ForeignMapping_build_id, id->bytes, id->size);
    if (is_kernel_mode(cpu_mode(record->misc)))
        wire_uint(w, PB_ForeignMapping_is_kernel, 1);
    wire_end(w, message);
    return packets_end(&data->to->packets);
}

static bool task_write(struct perf_data *data, const struct record *record, int64_t ts)
{
    struct perf_bytes body = record->body;
    bool is_comm = record->type == PERF_RECORD_COMM;
    uint32_t pid = perf_u32(&body), tid = perf_u32(&body);
    if (body.failed || (is_comm && !memchr(body.at, 0, perf_bytes_left(&body))))
        return false;
    struct wire_writer *w = packets_begin(&data->to->packets, ts);
    size_t message = wire_begin(w, PB_TracePacket_foreign_task);
    wire_uint(w, PB_ForeignTask_tid, tid);
    wire_uint(w, PB_ForeignTask_pid, pid);
    if (is_comm) {
        struct text name = perf_text_take(&body);
        wire_text(w, PB_ForeignTask_name, name.at, name.size);
        wire_uint(w, PB_ForeignTask_names_process, 1);
    }
    wire_end(w, message);
    return packets_end(&data->to->packets);
}

static void lost_read(struct perf_data *data, const struct record *record)
{
    struct perf_bytes body = record->body;
    if (record->type == PERF_RECORD_LOST)
        perf_u64(&body);
    uint64_t n = perf_u64(&body);
    data->n_lost += body.failed ? 0 : n;
}

// Turns a record into a packet at `ts`.
static void record_write(struct perf_data *data, const struct record *record, int64_t ts)
{
    bool is_good = true;
    switch (record->type) {
    case PERF_RECORD_SAMPLE:
        is_good = sample_write(data, record);
        break;
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
        is_good = mapping_write(data, record, ts);
        break;
    case PERF_RECORD_COMM:
    case PERF_RECORD_ITRACE_START:
        is_good = task_write(data, record, ts);
        break;
    default:
        if (record->type == PERF_RECORD_LOST || record->type == PERF_RECORD_LOST_SAMPLES)
            lost_read(data, record);
        count(data->unknown, record->type);
        break;
    }
    if (!is_good)
        count(data->skipped, record->type);
}

// Takes the next record off *at. Returns 1, 0 at the end, -1: the data breaks or ends there.
static int record_next(const struct perf_data *data, const uint8_t **at, const uint8_t *end,
                       struct record *ret)
{
    struct perf_event_header header;
    size_t left = (size_t)(end - *at);
    (void)data;
    if (!left)
        return 0;
    if (left < sizeof(header))
        return -1;
    memcpy(&header, *at, sizeof(header));
    if (header.size < sizeof(header) || header.size > left)
        return -1;
    *ret = (struct record){.type = header.type, .misc = header.misc};
    ret->body = (struct perf_bytes){.at = *at + sizeof(header), .end = *at + header.size};
    *at += header.size;
    uint64_t more = 0;
    struct perf_bytes body = ret->body;
    if (header.type == RECORD_AUXTRACE)
        more = perf_u64(&body);
    else if (header.type == RECORD_TRACING_DATA)
        more = ((uint64_t)perf_u32(&body) + 7) & ~UINT64_C(7);
    if (more > (size_t)(end - *at))
        return -1;
    *at += more;
    return 1;
}

// Records that tell about other records, and are not rows
static bool is_about_records(uint32_t type)
{
    switch (type) {
    case RECORD_AUXTRACE_INFO:
    case RECORD_AUXTRACE:
    case RECORD_TIME_CONV:
    case RECORD_COMPRESSED:
    case RECORD_COMPRESSED2:
    case RECORD_TRACING_DATA:
    case PERF_RECORD_AUX:
        return true;
    default:
        return false;
    }
}

static bool is_of_stream(const struct perf_data *data, uint32_t type)
{
    return data->file.is_stream &&
           (type == RECORD_ATTR || type == RECORD_FEATURE || type == RECORD_BUILD_ID);
}

// Writes the records from data->pending to `end` that had no time.
static void pending_write(struct perf_data *data, const uint8_t *end)
{
    const uint8_t *at = data->pending;
    struct record record;
    data->pending = NULL;
    while (at && at < end && record_next(data, &at, end, &record) > 0) {
        if (is_about_records(record.type) || is_of_stream(data, record.type) ||
            record.type == PERF_RECORD_COMM || !event_find(&data->file, &record))
            continue;
        record_write(data, &record, data->min_ts);
    }
}

static int records_walk(struct perf_data *data, const uint8_t *at, const uint8_t *end)
{
    struct record record;
    int r = 0, more;
    const uint8_t *start = at;
    for (const uint8_t *before = at; r == 0 && (more = record_next(data, &at, end, &record)) > 0;
         before = at) {
        r = translation_step(data->to, (size_t)(at - before));
        if (is_about_records(record.type) || is_of_stream(data, record.type))
            continue;
        if (!event_find(&data->file, &record)) {
            count(data->skipped, record.type);
            continue;
        }
        time_read(&record);
        if (record.has_ts && record.ts < data->min_ts)
            data->min_ts = record.ts;
        if (record.type == PERF_RECORD_COMM)
            continue;
        if (!record.has_ts) {
            if (!data->pending)
                data->pending = before;
            continue;
        }
        if (data->pending)
            pending_write(data, before);
        record_write(data, &record, record.ts);
    }
    if (r == 0 && more < 0)
        translation_damage(data->to, "the records break at byte %zu of them", (size_t)(at - start));
    return r;
}

static int names_walk(struct perf_data *data, const uint8_t *at, const uint8_t *end)
{
    struct record record;
    int r = 0;
    for (const uint8_t *before = at; r == 0 && record_next(data, &at, end, &record) > 0;
         before = at) {
        r = translation_step(data->to, (size_t)(at - before));
        if (record.type != PERF_RECORD_COMM || !event_find(&data->file, &record))
            continue;
        time_read(&record);
        if (record.has_ts || data->min_ts != INT64_MAX)
            record_write(data, &record, record.has_ts ? record.ts : data->min_ts);
    }
    return r;
}

static const char *timebase_unit(const struct perf_event_attr *attr)
{
    switch (attr->type) {
    case PERF_TYPE_SOFTWARE:
        return attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK
                   ? "ns"
                   : "count";
    case PERF_TYPE_HARDWARE:
        if (attr->config == PERF_COUNT_HW_CPU_CYCLES || attr->config == PERF_COUNT_HW_BUS_CYCLES ||
            attr->config == PERF_COUNT_HW_REF_CPU_CYCLES)
            return "cycles";
        return attr->config == PERF_COUNT_HW_INSTRUCTIONS ? "instructions" : "count";
    case PERF_TYPE_TRACEPOINT:
    case PERF_TYPE_HW_CACHE:
    case PERF_TYPE_BREAKPOINT:
        return "count";
    default:
        return NULL;
    }
}

// A file has a text once, and the packet of each event repeats the text. Cuts a text off where all
// packets together would be too large.
static struct text event_text(const struct perf_data *data, struct text text)
{
    size_t max = EVENT_TEXTS_MAX / data->file.events.n;
    if (max > EVENT_TEXT_MAX)
        max = EVENT_TEXT_MAX;
    if (text.size <= max)
        return text;
    translation_damage(data->to, "texts of its events are cut off after %zu bytes", max);
    return (struct text){text.at, max};
}

static void events_write(const struct perf_data *data)
{
    const struct perf_file *file = &data->file;
    struct packets *packets = &data->to->packets;
    for (size_t i = 0; i < file->events.n; i++) {
        const struct perf_event *event = &file->events.items[i];
        const char *unit = timebase_unit(&event->attr);
        struct text name = event_text(data, event->name);
        struct text cmdline = event_text(data, text_from(file->cmdline));
        struct wire_writer *w = packets_begin(packets, PACKETS_NO_TIME);
        size_t message = wire_begin(w, PB_TracePacket_foreign_perf_event);
        wire_uint(w, PB_ForeignPerfEvent_index, i);
        wire_text(w, PB_ForeignPerfEvent_name, name.at, name.size);
        if (unit)
            wire_string(w, PB_ForeignPerfEvent_unit, unit);
        wire_uint(w, PB_ForeignPerfEvent_is_timebase, event->attr.sample_period < TIMEBASE_LIMIT);
        if (cmdline.at)
            wire_text(w, PB_ForeignPerfEvent_cmdline, cmdline.at, cmdline.size);
        wire_end(w, message);
        packets_end(packets);
    }
    if (!file->os_release.size)
        return;
    struct wire_writer *w = packets_begin(packets, PACKETS_NO_TIME);
    size_t info = wire_begin(w, PB_TracePacket_system_info);
    size_t names = wire_begin(w, PB_SystemInfo_utsname);
    wire_text(w, PB_Utsname_release, file->os_release.at, file->os_release.size);
    wire_end(w, names);
    wire_end(w, info);
    packets_end(packets);
}

// Files with symbols become packets as they are.
static int symbol_files_write(struct perf_data *data)
{
    struct perf_bytes files = data->file.symbol_files;
    int r = 0;
    while (r == 0 && files.at < files.end) {
        uint32_t size = perf_u32(&files);
        const uint8_t *start = files.at;
        perf_bytes_skip(&files, size);
        if (files.failed)
            break;
        packets_put(&data->to->packets, PACKETS_NO_TIME, PB_TracePacket_simpleperf_file, start,
                    size);
        r = translation_step(data->to, size);
    }
    if (files.failed)
        translation_damage(data->to, "the list of symbols cannot be read to its end");
    return r;
}

static void problems_write(const struct perf_data *data)
{
    struct packets *packets = &data->to->packets;
    struct wire_writer *w = packets_begin(packets, PACKETS_NO_TIME);
    size_t message = wire_begin(w, PB_TracePacket_foreign_problems);
    for (uint32_t type = 0; type < RECORD_TYPES; type++) {
        if (!data->unknown[type] && !data->skipped[type])
            continue;
        size_t records = wire_begin(w, PB_ForeignProblems_perf_records);
        wire_uint(w, PB_ForeignProblems_Records_type, type);
        wire_uint(w, PB_ForeignProblems_Records_unknown, data->unknown[type]);
        wire_uint(w, PB_ForeignProblems_Records_skipped, data->skipped[type]);
        wire_end(w, records);
    }
    for (uint32_t i = 0; i < sizeof(data->file.skipped); i++)
        if (data->file.skipped[i])
            wire_uint(w, PB_ForeignProblems_perf_features_skipped, i);
    if (data->n_lost)
        wire_uint(w, PB_ForeignProblems_perf_samples_lost, data->n_lost);
    wire_end(w, message);
    packets_end(packets);
}

// A stream has its events, features and build ids in records, and their order is free.
static void stream_read(struct perf_data *data)
{
    enum { HEADER_SIZE = sizeof(struct perf_event_header) };
    const uint8_t *at = data->file.data;
    struct record record;
    while (record_next(data, &at, data->file.data_end, &record) > 0) {
        struct perf_bytes body = record.body;
        uint32_t size = 0;
        if (record.type == RECORD_ATTR && perf_bytes_left(&body) >= 2 * sizeof(uint32_t)) {
            memcpy(&size, body.at + sizeof(uint32_t), sizeof(size));
            if (size <= perf_bytes_left(&body)) {
                struct perf_bytes attr = {.at = body.at, .end = body.at + size};
                perf_bytes_skip(&body, size);
                perf_event_add(&data->file, attr, body);
            }
        } else if (record.type == RECORD_FEATURE) {
            uint64_t feature = perf_u64(&body);
            perf_feature_read(&data->file, feature < UINT32_MAX ? (unsigned)feature : 0, body);
        } else if (record.type == RECORD_BUILD_ID) {
            perf_build_ids_read(&data->file,
                                (struct perf_bytes){.at = body.at - HEADER_SIZE, .end = body.end});
        }
    }
}

#ifdef HAVE_ZSTD
// Inflates a record into data->inflated. Its data goes on from the record before.
static int record_inflate(struct perf_data *data, ZSTD_DStream *stream, const struct record *record,
                          uint8_t *chunk)
{
    struct perf_bytes body = record->body;
    uint64_t size = perf_bytes_left(&body);
    if (record->type == RECORD_COMPRESSED2) {
        size = perf_u64(&body);
        size = size < perf_bytes_left(&body) ? size : perf_bytes_left(&body);
    }
    ZSTD_inBuffer in = {.src = body.at, .size = (size_t)size};
    struct inflation *inflation = data->to->needs ? data->to->needs->inflation : NULL;
    uint64_t max = input_inflated_max((uint64_t)(data->file.end - data->file.start));
    size_t code = 0;
    int r = 0;
    bool is_full = false;
    while (r == 0 && (in.pos < in.size || is_full) && !ZSTD_isError(code)) {
        ZSTD_outBuffer out = {.dst = chunk, .size = INFLATED_CHUNK};
        code = ZSTD_decompressStream(stream, &out, &in);
        is_full = out.pos == out.size;
        if (inflation)
            r = inflation_take(inflation, out.pos, data->to->err);
        if (r == 0 && !ZSTD_isError(code))
            r = spill_append(&data->inflated, chunk, out.pos, data->to->err);
        if (data->inflated.size > max)
            code = (size_t)-1;
    }
    if (ZSTD_isError(code))
        translation_damage(data->to, "compressed records cannot be inflated to their end");
    return r < 0 ? r : ZSTD_isError(code) ? -EBADMSG : 0;
}

// Replaces the records by those that were compressed and those between them.
static int records_inflate(struct perf_data *data)
{
    CLEANUP(freep) uint8_t *chunk = malloc(INFLATED_CHUNK);
    ZSTD_DStream *stream = ZSTD_createDStream();
    const uint8_t *at = data->file.data, *bytes = NULL;
    struct record record;
    int r = chunk && stream ? 0 : err_errno(data->to->err, -ENOMEM, "zstd");
    for (const uint8_t *before = at;
         r == 0 && record_next(data, &at, data->file.data_end, &record) > 0; before = at) {
        if (record.type == RECORD_COMPRESSED || record.type == RECORD_COMPRESSED2)
            r = record_inflate(data, stream, &record, chunk);
        else
            r = spill_append(&data->inflated, before, (size_t)(at - before), data->to->err);
        if (r == 0)
            r = translation_step(data->to, (size_t)(at - before));
    }
    ZSTD_freeDStream(stream);
    if (r == 0 || r == -EBADMSG)
        r = spill_finish(&data->inflated, &bytes, data->to->err);
    if (r == 0) {
        data->file.data = bytes;
        data->file.data_end = bytes ? bytes + data->inflated.size : NULL;
    }
    return r;
}
#else
static int records_inflate(struct perf_data *data)
{
    translation_damage(data->to, "compressed records are left out: mmsql was built without zstd");
    return 0;
}
#endif

static bool has_compressed(const struct perf_data *data)
{
    const uint8_t *at = data->file.data;
    struct record record;
    while (record_next(data, &at, data->file.data_end, &record) > 0)
        if (record.type == RECORD_COMPRESSED || record.type == RECORD_COMPRESSED2)
            return true;
    return false;
}

static int perf_data_translate(struct perf_data *data)
{
    struct translation *to = data->to;
    int r = 0;
    perf_file_read(&data->file, input_bytes(to->input), input_size(to->input));
    if (has_compressed(data))
        r = records_inflate(data);
    if (r == 0 && data->file.is_stream)
        stream_read(data);
    if (r == 0 && data->file.failed)
        r = err_errno(to->err, -ENOMEM, "events");
    if (r < 0)
        return r;
    if (data->file.damage)
        translation_damage(to, "%s", data->file.damage);
    events_write(data);
    r = symbol_files_write(data);
    if (r == 0)
        r = records_walk(data, data->file.data, data->file.data_end);
    if (r == 0)
        r = names_walk(data, data->file.data, data->file.data_end);
    problems_write(data);
    return r;
}

static int perf_data_run(struct translation *to)
{
    struct perf_data *data = calloc(1, sizeof(*data));
    if (!data)
        return err_errno(to->err, -ENOMEM, "perf.data");
    data->to = to;
    data->min_ts = INT64_MAX;
    int r = spill_init(&data->inflated, to->needs ? to->needs->spill_folder : NULL, to->err);
    data->inflated.budget = to->needs ? to->needs->budget : NULL;
    if (r == 0)
        r = perf_data_translate(data);
    perf_file_done(&data->file);
    spill_done(&data->inflated);
    free(data);
    return r;
}

const struct translator translator_perf_data = {.type = "perf", .run = perf_data_run};
