// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/trace_fixture.h"

#include <stdlib.h>

#include "protos/fields.h"

void trace_writer_start(struct trace_writer *writer)
{
    writer->w = wire_writer_over(writer->bytes, sizeof(writer->bytes));
}

// trace_uuid stands for packets that are handled at once, sys_stats for those handled in order.
static enum field_interest interest(void *userdata, uint32_t field)
{
    (void)userdata;
    switch (field) {
    case PB_TracePacket_ftrace_events:
        return FIELD_EVENTS;
    case PB_TracePacket_trace_uuid:
        return FIELD_NOW;
    case PB_TracePacket_sys_stats:
    case PB_TracePacket_track_event:
    case PB_TracePacket_thread_descriptor:
    case PB_TracePacket_streaming_profile_packet:
        return FIELD_SORTED;
    case PB_TracePacket_track_descriptor:
        return FIELD_NOW;
    case PB_TracePacket_process_stats:
        return FIELD_BOTH;
    default:
        return FIELD_IGNORED;
    }
}

static int outcome(struct seen *seen)
{
    return seen->n_calls-- > 0 ? 0 : seen->failure;
}

static int on_now(void *userdata, struct packet *packet)
{
    struct seen *seen = userdata;
    strbuf_addf(&seen->log, "now%lld ", (long long)packet->ts);
    return outcome(seen);
}

static int on_sorted(void *userdata, struct packet *packet)
{
    struct seen *seen = userdata;
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field number = {0};
    wire_next(&reader, &number); // num_forks tells the packets apart
    const struct interned *interned = generation_find(packet->state, 1, number.value);
    strbuf_addf(&seen->log, "p%lld@%lld%s ", (long long)number.value, (long long)packet->ts,
                interned ? "i" : "");
    return outcome(seen);
}

static int on_event(void *userdata, uint32_t field, const struct bundle_event *event)
{
    struct seen *seen = userdata;
    assert_int_equal(field, PB_TracePacket_ftrace_events);
    strbuf_addf(&seen->log, "%c%u@%lld ", "swe"[event->kind], event -> cpu, (long long)event -> ts);
    return outcome(seen);
}

static int on_machine(void *userdata, uint32_t machine, uint32_t raw_id)
{
    strbuf_addf(&((struct seen *)userdata)->log, "m%u=%u ", machine, raw_id);
    return outcome(userdata);
}

static int on_complete(void *userdata, uint32_t field, int64_t ts)
{
    assert_int_equal(field, PB_TracePacket_ftrace_events);
    strbuf_addf(&((struct seen *)userdata)->log, "from%lld ", (long long)ts);
    return 0;
}

static int on_indexed(void *userdata, const struct trace_result *result)
{
    (void)result;
    strbuf_add_str(&((struct seen *)userdata)->log, "| ");
    return 0;
}

static int on_finished(void *userdata, int outcome, const struct trace_result *result)
{
    (void)result;
    strbuf_add_char(&((struct seen *)userdata)->log, '.');
    return outcome;
}

static int on_describe(void *userdata, uint32_t field, const struct wire_field *descriptor)
{
    struct seen *seen = userdata;
    assert_int_equal(field, PB_TracePacket_ftrace_events);
    strbuf_addf(&seen->log, "d%zu ", descriptor->size);
    return outcome(seen);
}

static void on_snapshot(void *userdata, uint32_t id, int64_t ts,
                        const struct clock_reading *readings, size_t n)
{
    (void)id;
    (void)readings;
    strbuf_addf(&((struct seen *)userdata)->log, "clocks%zu@%lld ", n, (long long)ts);
}

static void on_problem(void *userdata, enum trace_problem problem, uint32_t detail)
{
    struct seen *seen = userdata;
    seen->problems[problem]++;
    seen->details[problem] = detail;
}

static bool on_progress(void *userdata, double done)
{
    assert_true(done >= 0 && done <= 1);
    double stops_at = ((struct seen *)userdata)->stops_at;
    return stops_at == 0 || done < stops_at;
}

void read_with(struct seen *seen, const void *bytes, size_t size, int expected)
{
    struct trace_handler handler = {
        .userdata = seen,
        .machine = on_machine,
        .interest = interest,
        .now = on_now,
        .sorted = on_sorted,
        .event = on_event,
        .describe = on_describe,
        .complete = on_complete,
        .indexed = on_indexed,
        .finished = on_finished,
        .snapshot = on_snapshot,
        .problem = on_problem,
        .progress = on_progress,
    };
    struct err err = {0};
    struct clocks clocks = {0};
    struct input *input;
    assert_int_equal(input_from_memory(bytes, size, &err, &input), 0);
    assert_int_equal(trace_read(input, NULL, &handler, &clocks, &err, &seen->result), expected);
    assert_int_equal(err.text[0] != 0, expected < 0);
    clocks_done(&clocks);
    input_free(input);
}

struct seen *read_bytes(const void *bytes, size_t size)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    read_with(seen, bytes, size, 0);
    return seen;
}

struct seen *seen_free(struct seen *seen)
{
    strbuf_done(&seen->log);
    free(seen);
    return NULL;
}

struct seen *read_all(struct trace_writer *writer)
{
    assert_false(writer->w.overflow);
    return read_bytes(writer->bytes, wire_size(&writer->w));
}

void write_sample(struct wire_writer *w, struct sample sample)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    if (sample.ts)
        wire_uint(w, PB_TracePacket_timestamp, (uint64_t)sample.ts);
    if (sample.sequence)
        wire_uint(w, PB_TracePacket_trusted_packet_sequence_id, sample.sequence);
    if (sample.clock)
        wire_uint(w, PB_TracePacket_timestamp_clock_id, sample.clock);
    if (sample.flags)
        wire_uint(w, PB_TracePacket_sequence_flags, sample.flags);
    if (sample.dropped)
        wire_uint(w, PB_TracePacket_previous_packet_dropped, 1);
    size_t stats = wire_begin(w, PB_TracePacket_sys_stats);
    wire_uint(w, PB_SysStats_num_forks, sample.id);
    wire_end(w, stats);
    wire_end(w, packet);
}

void write_bundle(struct wire_writer *w, uint32_t cpu, size_t n, const int64_t *ts)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, cpu);
    for (size_t i = 0; i < n; i++) {
        size_t event = wire_begin(w, PB_FtraceEventBundle_event);
        wire_uint(w, PB_FtraceEvent_timestamp, (uint64_t)ts[i]);
        wire_uint(w, PB_FtraceEvent_pid, 1);
        wire_end(w, event);
    }
    wire_end(w, bundle);
    wire_end(w, packet);
}

void write_descriptors(struct wire_writer *w)
{
    size_t packet = wire_begin(w, FIELD_PACKET);
    size_t bundle = wire_begin(w, PB_TracePacket_ftrace_events);
    wire_uint(w, PB_FtraceEventBundle_cpu, 0);
    for (size_t i = 0; i < 2; i++) {
        size_t descriptor = wire_begin(w, PB_FtraceEventBundle_generic_event_descriptors);
        if (i)
            wire_uint(w, 1, 5);
        wire_end(w, descriptor);
    }
    wire_end(w, bundle);
    wire_end(w, packet);
}
