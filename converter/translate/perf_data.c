// SPDX-License-Identifier: Apache-2.0
//
// perf.data: each sample, mapping and name of a thread becomes a packet.
//
// perf writes the mappings of processes that ran before perf started, without a time. Such a
// mapping gets the lowest time among the records up to the next record with a time. If no such
// record follows, the mapping is left out. Names of threads come last among the records of the same
// time, so that the last name of a thread counts. Perfetto has both rules, too.
//
// Up to three walks read the records, so no record stays in memory. The first inflates compressed
// records into a file beside the database. The second converts all records but names into packets,
// and the third converts the names. perf_record.c reads a single record.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/translate/perf_record.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"

#define RECORD_TYPES    128
#define TIMEBASE_LIMIT  (UINT64_C(1) << 62) // simpleperf's period of counted events
#define INFLATED_CHUNK  ((size_t)128 << 10)
#define EVENT_TEXTS_MAX ((size_t)64 << 20) // bytes of a text in the packets of all events
#define EVENT_TEXT_MAX  ((size_t)1 << 20)  // bytes of a text in the packet of one event

struct perf_data {
    struct translation *to;
    struct perf_file file;
    struct spill inflated;
    const uint8_t *pending; // the first record whose time is not known yet; NULL: none
    int64_t min_ts;         // INT64_MAX: no time yet
    uint64_t unknown[RECORD_TYPES], skipped[RECORD_TYPES];
    uint64_t n_lost;
};

static void count(uint64_t *counts, uint32_t type)
{
    counts[type < RECORD_TYPES ? type : RECORD_TYPES - 1]++;
}

// Writes the addresses of the call chain, then the runs of user and kernel frames. Marks in the
// chain give the mode of the frames after them.
static void chain_write(struct wire_writer *w, const struct perf_sample *sample, unsigned mode,
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
            now = perf_mode_of_mark(ip);
            continue;
        }
        if (perf_mode_is_kernel(now) != in_kernel) {
            wire_varint(w, run);
            run = 0;
            in_kernel = !in_kernel;
        }
        run++;
    }
    if (!n && has_ip) {
        if (perf_mode_is_kernel(mode))
            wire_varint(w, 0);
        run = 1;
    }
    wire_varint(w, run);
    wire_end(w, runs);
}

// Writes the counters of a sample. Returns false if a counter belongs to no event of the file, or
// if the sample stands for an unknown number of events.
static bool counters_write(struct wire_writer *w, const struct perf_data *data,
                           const struct perf_record *record, const struct perf_sample *sample)
{
    const struct perf_event_attr *attr = &record->event->attr;
    bool has_period = attr->sample_type & PERF_SAMPLE_PERIOD;
    uint64_t events[PERF_COUNTERS_MAX];
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

static bool sample_write(struct perf_data *data, const struct perf_record *record)
{
    struct perf_sample sample;
    if (!record->event || !perf_sample_read(record, &sample))
        return false;
    uint64_t has = record->event->attr.sample_type;
    unsigned mode = perf_record_mode(record);
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

static bool mapping_write(struct perf_data *data, const struct perf_record *record, int64_t ts)
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
    if (perf_mode_is_kernel(perf_record_mode(record)))
        wire_uint(w, PB_ForeignMapping_is_kernel, 1);
    wire_end(w, message);
    return packets_end(&data->to->packets);
}

static bool task_write(struct perf_data *data, const struct perf_record *record, int64_t ts)
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

static void lost_read(struct perf_data *data, const struct perf_record *record)
{
    struct perf_bytes body = record->body;
    if (record->type == PERF_RECORD_LOST)
        perf_u64(&body);
    uint64_t n = perf_u64(&body);
    data->n_lost += body.failed ? 0 : n;
}

// Turns a record into a packet at `ts`.
static void record_write(struct perf_data *data, const struct perf_record *record, int64_t ts)
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

// Returns whether records of this type describe other records. Such records make no rows.
static bool is_about_records(uint32_t type)
{
    switch (type) {
    case PERF_TOOL_AUXTRACE_INFO:
    case PERF_TOOL_AUXTRACE:
    case PERF_TOOL_TIME_CONV:
    case PERF_TOOL_COMPRESSED:
    case PERF_TOOL_COMPRESSED2:
    case PERF_TOOL_TRACING_DATA:
    case PERF_RECORD_AUX:
        return true;
    default:
        return false;
    }
}

static bool is_of_stream(const struct perf_data *data, uint32_t type)
{
    return data->file.is_stream &&
           (type == PERF_TOOL_ATTR || type == PERF_TOOL_FEATURE || type == PERF_TOOL_BUILD_ID);
}

// Writes the records from data->pending to `end` that had no time.
static void pending_write(struct perf_data *data, const uint8_t *end)
{
    const uint8_t *at = data->pending;
    struct perf_record record;
    data->pending = NULL;
    while (at && at < end && perf_record_next(&at, end, &record) > 0) {
        if (is_about_records(record.type) || is_of_stream(data, record.type) ||
            record.type == PERF_RECORD_COMM || !perf_record_find_event(&data->file, &record))
            continue;
        record_write(data, &record, data->min_ts);
    }
}

static int records_walk(struct perf_data *data, const uint8_t *at, const uint8_t *end)
{
    struct perf_record record;
    int r = 0, more;
    const uint8_t *start = at;
    for (const uint8_t *before = at; r == 0 && (more = perf_record_next(&at, end, &record)) > 0;
         before = at) {
        r = translation_step(data->to, (size_t)(at - before));
        if (is_about_records(record.type) || is_of_stream(data, record.type))
            continue;
        if (!perf_record_find_event(&data->file, &record)) {
            count(data->skipped, record.type);
            continue;
        }
        perf_record_read_time(&record);
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
        translation_damage(data->to, "the records cannot be read from their byte %zu on",
                           (size_t)(at - start));
    return r;
}

static int names_walk(struct perf_data *data, const uint8_t *at, const uint8_t *end)
{
    struct perf_record record;
    int r = 0;
    for (const uint8_t *before = at; r == 0 && perf_record_next(&at, end, &record) > 0;
         before = at) {
        r = translation_step(data->to, (size_t)(at - before));
        if (record.type != PERF_RECORD_COMM || !perf_record_find_event(&data->file, &record))
            continue;
        perf_record_read_time(&record);
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

// Cuts a text so that all packets together are not too large: a file has the text once, but the
// packet of each event repeats it.
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

// Writes files with symbols as packets, without a change.
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

// Reads the events, features and build ids of a stream, which are in records in any order.
static void stream_read(struct perf_data *data)
{
    enum { HEADER_SIZE = sizeof(struct perf_event_header) };
    const uint8_t *at = data->file.data;
    struct perf_record record;
    while (perf_record_next(&at, data->file.data_end, &record) > 0) {
        struct perf_bytes body = record.body;
        uint32_t size = 0;
        if (record.type == PERF_TOOL_ATTR && perf_bytes_left(&body) >= 2 * sizeof(uint32_t)) {
            memcpy(&size, body.at + sizeof(uint32_t), sizeof(size));
            if (size <= perf_bytes_left(&body)) {
                struct perf_bytes attr = {.at = body.at, .end = body.at + size};
                perf_bytes_skip(&body, size);
                perf_event_add(&data->file, attr, body);
            }
        } else if (record.type == PERF_TOOL_FEATURE) {
            uint64_t feature = perf_u64(&body);
            perf_feature_read(&data->file, feature < UINT32_MAX ? (unsigned)feature : 0, body);
        } else if (record.type == PERF_TOOL_BUILD_ID) {
            perf_build_ids_read(&data->file,
                                (struct perf_bytes){.at = body.at - HEADER_SIZE, .end = body.end});
        }
    }
}

#ifdef HAVE_ZSTD
// Inflates a record into data->inflated. The data of a record continues the data of the record
// before.
static int record_inflate(struct perf_data *data, ZSTD_DStream *stream,
                          const struct perf_record *record, uint8_t *chunk)
{
    struct perf_bytes body = record->body;
    uint64_t size = perf_bytes_left(&body);
    if (record->type == PERF_TOOL_COMPRESSED2) {
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

// Replaces the compressed records by their content. Keeps the records between them.
static int records_inflate(struct perf_data *data)
{
    CLEANUP(freep) uint8_t *chunk = malloc(INFLATED_CHUNK);
    ZSTD_DStream *stream = ZSTD_createDStream();
    const uint8_t *at = data->file.data, *bytes = NULL;
    struct perf_record record;
    int r = chunk && stream ? 0 : err_errno(data->to->err, -ENOMEM, "zstd");
    for (const uint8_t *before = at;
         r == 0 && perf_record_next(&at, data->file.data_end, &record) > 0; before = at) {
        if (record.type == PERF_TOOL_COMPRESSED || record.type == PERF_TOOL_COMPRESSED2)
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
    struct perf_record record;
    while (perf_record_next(&at, data->file.data_end, &record) > 0)
        if (record.type == PERF_TOOL_COMPRESSED || record.type == PERF_TOOL_COMPRESSED2)
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
