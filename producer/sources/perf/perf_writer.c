// SPDX-License-Identifier: Apache-2.0
//
// Interned data come before the first sample that refers to them. Ids are never used twice in a
// recording: in a ring, the data of some samples may be lost, and these samples must not use the
// data of other samples.
//
// A ring keeps the first interned data beside itself. When interned data take too much room,
// further interned data are in the ring like samples. Interned data are written again each time
// they have filled an eighth of the ring.
#include "producer/sources/perf/perf_writer.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "protos/fields.h"

#define SAMPLE_ROOM    512
#define KEY_DEFAULTS   2
#define PART_OF_BUFFER 8

static void forget_ids(struct perf_writer *perf)
{
    vec_foreach(&perf->code->files, file)
        file->iid = 0;
    vec_foreach(&perf->code->frames, frame)
        frame->iid = 0;
    vec_foreach(&perf->code->stacks, stack)
        stack->iid = 0;
}

static void put_timebase(struct wire_writer *w, const struct perf_settings *settings)
{
    static Pb__PerfEvents__Timebase cpu_clock = PB__PERF_EVENTS__TIMEBASE__INIT;
    const Pb__PerfEvents__Timebase *from = settings->config->timebase;
    Pb__PerfEvents__Timebase timebase = from ? *from : cpu_clock;
    if (timebase.interval_case == PB__PERF_EVENTS__TIMEBASE__INTERVAL__NOT_SET) {
        timebase.interval_case = settings->is_frequency
                                     ? PB__PERF_EVENTS__TIMEBASE__INTERVAL_FREQUENCY
                                     : PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD;
        timebase.frequency = settings->interval;
    }
    if (timebase.event_case == PB__PERF_EVENTS__TIMEBASE__EVENT__NOT_SET) {
        timebase.event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER;
        timebase.counter = PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK;
    }
    timebase.has_timestamp_clock = false; // the source converts times to boot time
    size_t size = protobuf_c_message_get_packed_size(&timebase.base);
    uint8_t *bytes CLEANUP(freep) = malloc(size + 1);
    if (bytes)
        wire_bytes(w, PB_PerfSampleDefaults_timebase, bytes,
                   protobuf_c_message_pack(&timebase.base, bytes));
}

static void put_followers(struct wire_writer *w, const Pb__PerfEventConfig *config)
{
    for (size_t i = 0; i < config->n_followers; i++) {
        size_t size = protobuf_c_message_get_packed_size(&config->followers[i]->base);
        uint8_t *bytes CLEANUP(freep) = malloc(size + 1);
        if (bytes)
            wire_bytes(w, PB_PerfSampleDefaults_followers, bytes,
                       protobuf_c_message_pack(&config->followers[i]->base, bytes));
    }
}

static bool write_defaults(struct perf_writer *perf)
{
    struct wire_writer *w = packet_writer_begin_message(perf->writer, perf->interned.now, 16384,
                                                        PB_TracePacket_trace_packet_defaults);
    if (!w)
        return false;
    wire_uint(w, PB_TracePacketDefaults_timestamp_clock_id, PB_BUILTIN_CLOCK_BOOTTIME);
    size_t mark = wire_begin(w, PB_TracePacketDefaults_perf_sample_defaults);
    put_timebase(w, perf->settings);
    put_followers(w, perf->settings->config);
    if (perf->settings->n_shards > 1) {
        wire_uint(w, PB_PerfSampleDefaults_process_shard_count, perf->settings->n_shards);
        wire_uint(w, PB_PerfSampleDefaults_chosen_process_shard, perf->shard);
    }
    wire_end(w, mark);
    return packet_writer_end_retained(perf->writer, PACKET_RETAIN_REPLACE, KEY_DEFAULTS);
}

static bool wants_renewal(const struct perf_writer *perf)
{
    const struct interned_stacks *interned = &perf->interned;
    struct packet_buffer_stats stats;
    if (interned->bytes <= interned->retain_max)
        return false;
    packet_buffer_get_stats(perf->writer->buffer, &stats);
    uint64_t since =
        perf->renewed_at > interned->retain_max ? perf->renewed_at : interned->retain_max;
    return interned->bytes - since > stats.size_bytes / PART_OF_BUFFER;
}

void perf_writer_renew(struct perf_writer *perf)
{
    interned_stacks_renew(&perf->interned);
    perf->renewed_at = perf->interned.bytes;
    forget_ids(perf);
}

// Begins the state if necessary, so that readers accept the next sample. Returns false if the
// buffer refuses.
static bool begin(struct perf_writer *perf, nsec_t time)
{
    struct interned_stacks *interned = &perf->interned;
    interned->writer = perf->writer;
    interned->now = time;
    interned->retain_max = interned_stacks_retainable(perf->writer);
    if (perf->has_begun && interned_stacks_is_whole(interned)) {
        if (wants_renewal(perf))
            perf_writer_renew(perf);
        return true;
    }
    interned_stacks_begin(interned);
    perf->renewed_at = 0;
    forget_ids(perf);
    perf->has_begun = write_defaults(perf);
    return perf->has_begun;
}

static uint64_t file_iid(struct perf_writer *perf, struct code_file *file)
{
    if (file->iid)
        return file->iid;
    struct interned_mapping mapping = {file->start, file->end, file->offset, file->load_bias};
    if (file == &perf->code->files.items[CODE_NOWHERE])
        mapping.end = UINT64_C(1) << 63; // spans everything: frames keep their addresses
    file->iid = ++perf->n_mappings;
    interned_mapping(&perf->interned, file->iid, &mapping, file->path, (const char *)file->build_id,
                     file->build_id_size);
    return file->iid;
}

static void put_frame(struct perf_writer *perf, struct code_frame *frame)
{
    struct code_file *file = &perf->code->files.items[frame->file];
    if (frame->iid)
        return;
    uint64_t mapping = file_iid(perf, file);
    frame->iid = ++perf->n_frames;
    interned_frame(&perf->interned, frame->iid, mapping,
                   frame->file == CODE_KERNEL ? 0 : frame->offset + file->load_bias,
                   perf_code_name(perf->code, frame));
}

struct stack_walk {
    const struct perf_code *code;
    const struct code_stack *stack;
};

static uint64_t frame_iid(const void *userdata, size_t i)
{
    const struct stack_walk *walk = userdata;
    const struct code_stack *stack = walk->stack;
    uint32_t frame = walk->code->stack_frames.items[stack->first + stack->n - 1 - i];
    return walk->code->frames.items[frame].iid;
}

static uint64_t stack_iid(struct perf_writer *perf, uint32_t number)
{
    struct perf_code *code = perf->code;
    struct code_stack *stack = &code->stacks.items[number];
    if (stack->iid)
        return stack->iid;
    for (uint32_t i = 0; i < stack->n; i++)
        put_frame(perf, &code->frames.items[code->stack_frames.items[stack->first + i]]);
    stack->iid = ++perf->n_stacks;
    const struct stack_walk walk = {code, stack};
    interned_callstack(&perf->interned, stack->iid, stack->n, frame_iid, &walk);
    return stack->iid;
}

static uint64_t mode_of(uint32_t mode)
{
    switch (mode) {
    case PERF_RECORD_MISC_KERNEL:
        return PB_Profiling_MODE_KERNEL;
    case PERF_RECORD_MISC_USER:
        return PB_Profiling_MODE_USER;
    case PERF_RECORD_MISC_HYPERVISOR:
        return PB_MODE_HYPERVISOR;
    case PERF_RECORD_MISC_GUEST_KERNEL:
        return PB_Profiling_MODE_GUEST_KERNEL;
    case PERF_RECORD_MISC_GUEST_USER:
        return PB_Profiling_MODE_GUEST_USER;
    default:
        return PB_MODE_UNKNOWN;
    }
}

static struct wire_writer *begin_packet(struct perf_writer *perf, nsec_t time, uint32_t cpu)
{
    interned_stacks_end(&perf->interned);
    struct wire_writer *w =
        packet_writer_begin_message(perf->writer, time, SAMPLE_ROOM, PB_TracePacket_perf_sample);
    if (w)
        wire_uint(w, PB_PerfSample_cpu, cpu);
    return w;
}

static void put_counts(struct perf_writer *perf, struct wire_writer *w, const uint64_t *counts)
{
    if (perf_settings_is_of_tasks(perf->settings))
        return; // the counters of threads are not read
    wire_uint(w, PB_PerfSample_timebase_count, counts[0]);
    for (size_t i = 1; i < perf->settings->n_events; i++)
        wire_uint(w, PB_PerfSample_follower_counts, counts[i]);
}

static struct wire_writer *begin_sample(struct perf_writer *perf, const struct perf_waiting *sample)
{
    struct wire_writer *w = begin_packet(perf, sample->time, sample->cpu);
    if (!w)
        return NULL;
    wire_uint(w, PB_PerfSample_pid, sample->pid);
    wire_uint(w, PB_PerfSample_tid, sample->tid);
    wire_uint(w, PB_PerfSample_cpu_mode, mode_of(sample->mode));
    put_counts(perf, w, sample->counts);
    return w;
}

bool perf_write_sample(struct perf_writer *perf, const struct perf_waiting *sample)
{
    if (!begin(perf, sample->time))
        return false;
    uint64_t stack = sample->stack == CODE_STACK_NONE ? 0 : stack_iid(perf, sample->stack);
    struct wire_writer *w = begin_sample(perf, sample);
    if (!w)
        return false;
    if (stack)
        wire_uint(w, PB_PerfSample_callstack_iid, stack);
    if (sample->unwind_error)
        wire_uint(w, PB_PerfSample_unwind_error, sample->unwind_error);
    return packet_writer_end(perf->writer);
}

bool perf_write_skipped(struct perf_writer *perf, const struct perf_waiting *sample, int reason)
{
    struct wire_writer *w = begin(perf, sample->time) ? begin_sample(perf, sample) : NULL;
    if (!w)
        return false;
    wire_uint(w, PB_PerfSample_sample_skipped_reason, (uint64_t)reason);
    return packet_writer_end(perf->writer);
}

bool perf_write_lost(struct perf_writer *perf, nsec_t time, uint32_t cpu, uint64_t n)
{
    struct wire_writer *w = begin(perf, time) ? begin_packet(perf, time, cpu) : NULL;
    if (!w)
        return false;
    wire_uint(w, PB_PerfSample_kernel_records_lost, n);
    return packet_writer_end(perf->writer);
}

bool perf_write_counts(struct perf_writer *perf, nsec_t time, uint32_t cpu, const uint64_t *counts)
{
    struct wire_writer *w = begin(perf, time) ? begin_packet(perf, time, cpu) : NULL;
    if (!w)
        return false;
    put_counts(perf, w, counts);
    return packet_writer_end(perf->writer);
}

bool perf_write_guardrail(struct perf_writer *perf, nsec_t time)
{
    struct wire_writer *w = begin(perf, time) ? begin_packet(perf, time, 0) : NULL;
    if (!w)
        return false;
    size_t mark = wire_begin(w, PB_PerfSample_producer_event);
    wire_uint(w, PB_PerfSample_ProducerEvent_source_stop_reason, PB_PROFILER_STOP_GUARDRAIL);
    wire_end(w, mark);
    return packet_writer_end(perf->writer);
}

void perf_writer_done(struct perf_writer *perf)
{
    interned_stacks_done(&perf->interned);
}
