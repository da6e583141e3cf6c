// SPDX-License-Identifier: Apache-2.0
//
// The trace is walked twice. The first walk reads the file from the start to the end. This walk
// frames packets, inflates compressed packets, follows the state of each sequence, converts time
// stamps and fills the timeline (timeline.h). The second walk reads the timeline in order of time.
// Neither walk copies trace data. Both walks release the pages that they have read, so memory does
// not grow with the file.
//
// A packet whose clock is not known yet waits for the end of the first walk, because a snapshot of
// the clock may follow. A packet that cannot be read is skipped and counted, because its length
// still gives the start of the next packet. The rest of the file is lost only if a length is
// damaged.
#include "converter/decode/trace.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "converter/decode/inflate.h"
#include "converter/decode/intact.h"
#include "converter/decode/message.h"
#include "converter/decode/reader.h"
#include "protos/fields.h"

#define FLAG_STATE_CLEARED 1
#define FLAG_STATE_NEEDED  2
#define SEQUENCE_ZERO      UINT32_MAX // stands for the sequence id 0; a packet without id has 0
#define CPU_MAX            (TIMELINE_CPUS - 1)
#define CLOCKS_OF_RUNS     64 // see struct timeline_item
#define PACKET_MAX         ((size_t)512 << 20)
#define INFLATED_MAX       ((size_t)64 << 20) // inflated bytes of one packet
#define FORGET_BYTES       ((size_t)16 << 20)
#define DEFAULTS_MAX_BYTES 16384              // each packet of the sequence reads all defaults
#define FAULT_BYTES        ((size_t)64 << 10) // bytes that the kernel may map around a read byte
#define PROGRESS_STEP      4096
#define NARROWED_STEP_MIN  64
#define CHECK_BYTES        ((size_t)1 << 20)

// Reports and counts damage. Damage is counted once for each outermost packet.
static void packet_damaged(struct reader *reader, enum trace_problem kind)
{
    struct trace_result *result = &reader->result;
    reader_problem(reader, kind, 0);
    if (reader->damage_noted)
        return;
    reader->damage_noted = true;
    if (result->n_damaged++ == 0) {
        result->first_damaged_offset = reader->packet_offset;
        result->first_damaged_packet = result->n_packets;
        result->first_damage = kind;
    }
}

const char *trace_problem_text(enum trace_problem kind)
{
    static const char *const texts[N_TRACE_PROBLEMS] = {
        [PROBLEM_PACKET_DAMAGED] = "its fields cannot be read",
        [PROBLEM_MESSAGE_DAMAGED] = "a message in it cannot be read to its end",
        [PROBLEM_COMPRESSED_DAMAGED] = "its compressed packets cannot be inflated to their end",
        [PROBLEM_COMPRESSED_UNSUPPORTED] = "it is compressed in a way that is not supported",
        [PROBLEM_BUNDLE_DAMAGED] = "its ftrace events cannot be read",
        [PROBLEM_COMPACT_SCHED_DAMAGED] = "its scheduling events do not fit together",
    };
    return texts[kind];
}

// Checks the budget, more often in a repeated conversion. If room is short, the handler first
// writes all rows, because the progress of the writing thread must not decide which rows are kept.
static void budget_ask(struct reader *reader)
{
    struct trace_result *result = &reader->result;
    enum budget_limit *stopped =
        reader->stage == BUDGET_WALK ? &result->stopped : &result->stopped_late;
    unsigned narrowed = budget_narrowed(reader->budget);
    uint64_t step = PROGRESS_STEP >> narrowed;
    step = step < NARROWED_STEP_MIN ? NARROWED_STEP_MIN : step;
    reader->steps_due = (reader->n_steps / step + 1) * step;
    if (reader->stage == BUDGET_ROWS && reader->handler->settle && budget_is_tight(reader->budget))
        reader->handler->settle(reader->handler->userdata);
    if (!*stopped)
        *stopped = budget_check(reader->budget, reader->stage);
}

// Does the periodic work: releases pages, checks the budget, shows progress. Returns false if the
// handler cancels.
static bool reader_pause(struct reader *reader, double done)
{
    if (reader->since_forget >= FORGET_BYTES) {
        if (input_resident_bytes() >= FORGET_BYTES) {
            memset(reader->faults, 0, sizeof(reader->faults));
            input_forget(reader->input);
            spill_forget(&reader->spill);
            timeline_forget(&reader->timeline);
            scratch_forget(&reader->deferred);
        }
        reader->since_forget = 0;
    }
    reader->due = reader->since_forget + CHECK_BYTES;
    budget_ask(reader);
    if (reader->n_steps % PROGRESS_STEP || !reader->handler->progress)
        return true;
    return reader->handler->progress(reader->handler->userdata, done);
}

// Counts bytes that were read. Returns false if the handler cancels.
static inline bool reader_step(struct reader *reader, size_t n_bytes, double done)
{
    reader->since_forget += n_bytes;
    if (++reader->n_steps < reader->steps_due && reader->since_forget < reader->due)
        return true;
    return reader_pause(reader, done);
}

static void header_data(struct reader *reader, struct header *header,
                        const struct wire_field *field)
{
    enum field_interest interest =
        reader->handler->interest(reader->handler->userdata, field->number);
    if (interest == FIELD_IGNORED || field->type != WIRE_BYTES ||
        header->n_data == DATA_FIELDS_MAX) {
        header->left_out = field->number;
        return;
    }
    header->data[header->n_data] = *field;
    header->interest[header->n_data++] = interest;
}

static bool header_read(struct reader *reader, struct wire_reader fields, struct header *header)
{
    memset(header, 0, offsetof(struct header, data));
    header->fields = fields;
    struct wire_field field;
    while (wire_next_hot(&fields, &field)) {
        switch (field.number) {
        case PB_TracePacket_timestamp:
            header->has_timestamp = field.type == WIRE_VARINT;
            header->timestamp = (int64_t)field.value;
            break;
        case PB_TracePacket_timestamp_clock_id:
            header->clock_id = (uint32_t)field.value;
            break;
        case PB_TracePacket_trusted_packet_sequence_id:
            header->sequence_id = field.value ? (uint32_t)field.value : SEQUENCE_ZERO;
            break;
        case PB_TracePacket_sequence_flags:
            header->cleared |= field.value & FLAG_STATE_CLEARED;
            header->needs_state = field.value & FLAG_STATE_NEEDED;
            break;
        case PB_TracePacket_incremental_state_cleared:
            header->cleared |= field.value != 0;
            break;
        case PB_TracePacket_previous_packet_dropped:
            header->dropped = (uint32_t)field.value;
            break;
        case PB_TracePacket_first_packet_on_sequence:
            header->is_first = field.value != 0;
            break;
        case PB_TracePacket_trace_packet_defaults:
            header->defaults = field;
            break;
        case PB_TracePacket_interned_data:
            header->interned = field;
            break;
        case PB_TracePacket_clock_snapshot:
            header->snapshot = field;
            break;
        case PB_TracePacket_remote_clock_sync:
            header->remote_sync = field;
            break;
        case PB_TracePacket_machine_id:
            header->raw_machine = (uint32_t)field.value;
            break;
        case PB_TracePacket_synchronization_marker:
            header->is_marker = true;
            break;
        case PB_TracePacket_compressed_packets:
        case PB_TracePacket_zstd_compressed_packets:
            header->packets = field;
            break;
        case PB_TracePacket_trusted_uid:
        case PB_TracePacket_trusted_pid:
            break; // not data of the packet
        default:
            header_data(reader, header, &field);
        }
    }
    return !fields.error;
}

static void state_check(struct reader *reader, const struct header *header, bool is_valid)
{
    if (header->sequence_id) {
        if (header->interned.data && !is_valid)
            reader_problem(reader, PROBLEM_INTERNED_IGNORED, 0);
        return;
    }
    if (header->cleared || header->dropped)
        reader_problem(reader, PROBLEM_SEQUENCE_MISSING,
                       header->cleared ? PB_TracePacket_incremental_state_cleared
                                       : PB_TracePacket_previous_packet_dropped);
    if (header->defaults.data)
        reader_problem(reader, PROBLEM_SEQUENCE_MISSING, PB_TracePacket_trace_packet_defaults);
    if (header->interned.data)
        reader_problem(reader, PROBLEM_SEQUENCE_MISSING, PB_TracePacket_interned_data);
}

// Updates the sequence's state with a packet. *ret: the packet's generation. *ret_usable: false if
// the packet needs state that was lost. Returns 0 or -ENOMEM.
static int state_follow(struct reader *reader, const struct header *header, uint32_t *ret,
                        bool *ret_usable)
{
    struct sequences *all = &reader->sequences;
    struct sequence *sequence = sequences_get(all, reader->machine, header->sequence_id);
    int r = sequence ? 0 : -ENOMEM;
    if (r == 0 && header->dropped && sequence->seen) {
        reader_problem(reader, PROBLEM_PACKETS_LOST, header->sequence_id);
        sequence_note_gap(sequence, header->dropped);
    }
    if (r == 0 && header->cleared && header->sequence_id)
        r = sequence_clear(all, sequence);
    else if (r == 0 && header->dropped)
        sequence->valid = false;
    if (r == 0 && header->dropped)
        sequence->thread_clock = (struct thread_clock){0};
    if (header->defaults.size > DEFAULTS_MAX_BYTES)
        packet_damaged(reader, PROBLEM_PACKET_DAMAGED);
    else if (r == 0 && header->defaults.data && header->sequence_id)
        r = sequence_set_defaults(all, sequence, wire_sub(&header->defaults));
    if (r == 0 && header->interned.data && sequence->valid)
        r = sequence_intern(all, sequence, wire_sub(&header->interned));
    if (r < 0)
        return r;
    state_check(reader, header, sequence->valid);
    sequence->seen = true;
    if (header->is_first)
        sequence_set_first(all, sequence);
    *ret = sequence->generation;
    *ret_usable = !header->needs_state || sequence->valid;
    sequence->losses.n_with_need += header->needs_state && !header->snapshot.data;
    sequence->losses.n_left_out += !*ret_usable && !header->snapshot.data;
    return 0;
}

static void thread_clock_follow(struct reader *reader, const struct header *header,
                                struct sequence *sequence, const struct wire_field *descriptor)
{
    if (!field_present(descriptor))
        return;
    if (sequence->valid)
        thread_clock_set(&sequence->thread_clock, descriptor);
    else if (header->sequence_id)
        reader_problem(reader, PROBLEM_THREAD_TIME_IGNORED, 0);
}

// Follows the thread clock with a field of the packet. Reads the packet's time from the field, if
// the field has a time; see thread_clock.h.
static enum thread_time thread_time_of(struct reader *reader, const struct header *header,
                                       const struct wire_field *field, int64_t *ret)
{
    if (field->number != PB_TracePacket_track_event &&
        field->number != PB_TracePacket_streaming_profile_packet &&
        field->number != PB_TracePacket_thread_descriptor &&
        field->number != PB_TracePacket_track_descriptor)
        return THREAD_TIME_NONE;
    struct sequence *sequence =
        sequences_get(&reader->sequences, reader->machine, header->sequence_id);
    struct thread_clock *clock = &sequence->thread_clock;
    if (field->number == PB_TracePacket_streaming_profile_packet) {
        enum thread_time found = thread_clock_profile(clock, field, ret);
        return found == THREAD_TIME_UNSET && header->has_timestamp ? THREAD_TIME_NONE : found;
    }
    if (field->number == PB_TracePacket_track_event)
        return clock->is_used || !header->has_timestamp ? thread_clock_event(clock, field, ret)
                                                        : THREAD_TIME_NONE;
    if (field->number == PB_TracePacket_thread_descriptor) {
        thread_clock_follow(reader, header, sequence, field);
    } else {
        struct wire_field thread = message_field(wire_sub(field), PB_TrackDescriptor_thread);
        thread_clock_follow(reader, header, sequence, &thread);
    }
    return THREAD_TIME_NONE;
}

// Reads the packet's thread time from its fields. Returns false if the packet needs a time that is
// not known.
static bool thread_time_read(struct reader *reader, struct header *header)
{
    for (size_t i = 0; i < header->n_data; i++) {
        uint32_t number = header->data[i].number;
        switch (thread_time_of(reader, header, &header->data[i], &header->thread_time)) {
        case THREAD_TIME_NONE:
            break;
        case THREAD_TIME_KNOWN:
            header->has_thread_time = true;
            break;
        case THREAD_TIME_UNSET:
            reader_problem(reader, PROBLEM_THREAD_TIME_UNSET, number);
            return false;
        case THREAD_TIME_NEGATIVE:
            reader_problem(reader, PROBLEM_THREAD_TIME_NEGATIVE, number);
            return false;
        }
    }
    return true;
}

static void bundle_start(struct reader *reader, const struct bundle_measure *bundle,
                         clock_key_t clock)
{
    struct trace_machine *machine = reader_machine(reader);
    int64_t ts;
    if (!machine_cpu_first(machine, bundle->cpu) || !bundle->has_start ||
        !reader_time(reader, clock, bundle->start, &ts))
        return;
    if (!machine->has_ftrace_start || ts > machine->ftrace_start)
        machine->ftrace_start = ts;
    machine->has_ftrace_start = true;
}

static int ftrace_starts_tell(struct reader *reader)
{
    const struct trace_handler *handler = reader->handler;
    int r = 0;
    for (uint32_t i = 0; i < reader->machines.items.n && r == 0; i++) {
        const struct trace_machine *machine = machine_at(&reader->machines, i);
        if (!machine->has_ftrace_start)
            continue;
        r = reader_enter(reader, i);
        if (r == 0)
            r = handler->complete(handler->userdata, PB_TracePacket_ftrace_events,
                                  machine->ftrace_start);
    }
    return r < 0 ? r : reader_enter(reader, 0);
}

static bool run_time(void *userdata, const struct timeline_item *item, int64_t ts, int64_t *ret)
{
    struct reader *reader = userdata;
    return clocks_convert(reader->clocks, reader_item_clock(reader, item), ts, ret);
}

static int bundle_describe(struct reader *reader, const struct wire_field *bundle)
{
    const struct trace_handler *handler = reader->handler;
    struct wire_reader fields = wire_sub(bundle);
    struct wire_field field;
    int r = 0;
    while (r == 0 && wire_next(&fields, &field))
        if (field.number == PB_FtraceEventBundle_generic_event_descriptors)
            r = handler->describe(handler->userdata, PB_TracePacket_ftrace_events, &field);
    return r;
}

static int bundle_add(struct reader *reader, const struct wire_field *field, uint32_t generation)
{
    uint32_t sequence = sequences_generation(&reader->sequences, generation)->sequence;
    struct bundle_measure bundle;
    bundle_measure(wire_sub(field), &bundle);
    clock_key_t clock;
    if (!bundle.has_cpu || bundle.cpu > CPU_MAX ||
        !reader_bundle_clock(reader, &bundle, sequence, &clock)) {
        packet_damaged(reader, PROBLEM_BUNDLE_DAMAGED);
        return 0;
    }
    if (bundle.damaged || bundle.n_untimed)
        packet_damaged(reader, bundle.messages[RUN_SWITCH].pos ? PROBLEM_COMPACT_SCHED_DAMAGED
                                                               : PROBLEM_BUNDLE_DAMAGED);
    if (bundle.lost_events)
        reader_problem(reader, PROBLEM_EVENTS_LOST, bundle.cpu);
    int r = bundle.has_descriptors ? bundle_describe(reader, field) : 0;
    for (enum run_kind kind = 0; kind < N_RUN_KINDS && r == 0; kind++) {
        const struct run_measure *run = &bundle.runs[kind];
        struct timeline_item item = {
            .data = bundle.messages[kind].pos,
            .size = (uint32_t)(bundle.messages[kind].end - bundle.messages[kind].pos),
            .generation = generation,
            .in_file_order = bundle.ordered,
            .kind = (uint8_t)kind,
            .sorted = run->sorted,
            .clock = bundle.clock < CLOCKS_OF_RUNS ? (uint8_t)bundle.clock : 0,
        };
        if (!run->n)
            continue;
        if (!reader_time(reader, clock, run->min_ts, &item.ts)) {
            reader_clock_problem(reader, clock);
            continue;
        }
        // A packet without a time stamp comes after all events that precede the packet in the file.
        int64_t last;
        if (clocks_convert(reader->clocks, clock, run->max_ts, &last) && last > reader->latest_ts) {
            reader->latest_ts = last;
            reader->latest_is_event = true;
        }
        reader->since_forget += sizeof(item);
        r = timeline_queue(&reader->timeline, item.kind, bundle.cpu, &item.queue);
        if (r == 0)
            r = timeline_add(&reader->timeline, item);
    }
    bundle_start(reader, &bundle, clock);
    return r;
}

static int packet_defer(struct reader *reader, const struct header *header, uint32_t generation)
{
    size_t size = (reader->n_deferred + 1) * sizeof(struct deferred);
    int r = scratch_reserve(&reader->deferred, reader->folder, size);
    struct deferred *all = (struct deferred *)(void *)reader->deferred.bytes;
    if (r == 0)
        all[reader->n_deferred++] =
            (struct deferred){header->fields, header->sequence_id, generation};
    return r;
}

// Places a packet whose state is known: finds its time, passes fields to the handler, and adds
// fields for the second walk to the timeline.
static int packet_place(struct reader *reader, const struct header *header, uint32_t generation)
{
    const struct generation *state = sequences_generation(&reader->sequences, generation);
    clock_key_t clock = 0;
    int64_t ts;
    if (!reader_packet_time(reader, header, state, &ts, &clock)) {
        if (reader->final) {
            reader_clock_problem(reader, clock);
            return 0;
        }
        return packet_defer(reader, header, generation);
    }
    if (ts > reader->latest_ts) {
        reader->latest_ts = ts;
        reader->latest_is_event = false;
    }
    struct packet packet = {
        .ts = ts,
        .fields = header->fields,
        .sequence_id = header->sequence_id,
        .state = state,
        .sequences = &reader->sequences,
    };
    bool later = false;
    for (size_t i = 0; i < header->n_data; i++) {
        const struct wire_field *field = &header->data[i];
        int r = 0;
        switch (header->interest[i]) {
        case FIELD_EVENTS:
            r = field->number == PB_TracePacket_etw_events
                    ? etw_events_place(reader, field, generation)
                    : bundle_add(reader, field, generation);
            break;
        case FIELD_NOW:
        case FIELD_BOTH:
            packet.message = field;
            r = reader->handler->now(reader->handler->userdata, &packet);
            break;
        case FIELD_SORTED:
        case FIELD_IGNORED:
            break;
        }
        if (r < 0)
            return r;
        later |= header->interest[i] == FIELD_SORTED || header->interest[i] == FIELD_BOTH;
    }
    if (!later)
        return 0;
    if (ts < 0) {
        reader_problem(reader, PROBLEM_TIME_NEGATIVE, 0);
        return 0;
    }
    struct timeline_item item = {
        .ts = ts,
        .data = header->fields.pos,
        .size = (uint32_t)(header->fields.end - header->fields.pos),
        .generation = generation,
        .queue = header->has_timestamp || !reader->latest_is_event ? 0 : TIMELINE_AFTER_EVENTS,
        .kind = TIMELINE_PACKET,
    };
    reader->since_forget += sizeof(item);
    return timeline_add(&reader->timeline, item);
}

static int packets_walk(struct reader *reader, struct wire_reader trace, bool outermost);

static int compressed_read(struct reader *reader, const struct header *header)
{
    uint64_t inflated_max = input_inflated_max(input_size(reader->input)); // of all packets
    size_t start = reader->spill.size;
    uint64_t left = inflated_max > start ? inflated_max - start : 0;
    int r = packets_inflate(&header->packets, left < INFLATED_MAX ? left : INFLATED_MAX,
                            &reader->spill, reader->err);
    if (r == -EBADMSG)
        packet_damaged(reader, PROBLEM_COMPRESSED_DAMAGED);
    else if (r == -EOPNOTSUPP)
        packet_damaged(reader, PROBLEM_COMPRESSED_UNSUPPORTED);
    else if (r < 0)
        return r;
    size_t size = reader->spill.size - start;
    if (!size)
        return 0;
    const uint8_t *inflated;
    r = spill_view(&reader->spill, start, size, &inflated, reader->err);
    return r < 0 ? r : packets_walk(reader, wire_reader_over(inflated, size), false);
}

// Reports damage in a field, so that no importer needs to. bundle_measure() finds damage in ftrace
// bundles.
static void field_check(struct reader *reader, const struct wire_field *field)
{
    if (message_is_intact(wire_sub(field), field_kind_of(packet_kind, field->number)))
        return;
    packet_damaged(reader, PROBLEM_MESSAGE_DAMAGED);
    if (reader->result.n_damaged == 1 && !reader->result.first_damaged_field)
        reader->result.first_damaged_field = field->number;
}

static void packet_check(struct reader *reader, const struct header *header)
{
    const struct wire_field *state[] = {&header->defaults, &header->interned, &header->snapshot,
                                        &header->remote_sync};
    for (size_t i = 0; i < ELEMENTS(state); i++)
        if (state[i]->data)
            field_check(reader, state[i]);
    for (size_t i = 0; i < header->n_data; i++)
        if (header->data[i].number != PB_TracePacket_ftrace_events)
            field_check(reader, &header->data[i]);
}

static int packet_read(struct reader *reader, struct wire_reader fields, bool outermost)
{
    struct header header;
    if ((size_t)(fields.end - fields.pos) > PACKET_MAX || !header_read(reader, fields, &header)) {
        packet_damaged(reader, PROBLEM_PACKET_DAMAGED);
        return 0;
    }
    bool is_compressed = field_present(&header.packets); // a field of any wire type counts
    if (is_compressed && !outermost)                     // nesting would allow bombs
        packet_damaged(reader, PROBLEM_COMPRESSED_DAMAGED);
    else if (is_compressed)
        return compressed_read(reader, &header);
    uint32_t machine = machines_get(&reader->machines, header.raw_machine, header.is_marker);
    if (machine == MACHINE_NONE) {
        reader_problem(reader, PROBLEM_MACHINES_MANY, 0);
        return 0;
    }
    uint32_t generation;
    bool usable;
    int r = reader_enter(reader, machine);
    if (r == 0 && header.left_out)
        reader_problem(reader, PROBLEM_FIELD_LEFT_OUT, header.left_out);
    if (r == 0)
        packet_check(reader, &header);
    if (r == 0)
        r = state_follow(reader, &header, &generation, &usable);
    if (r == 0 && header.snapshot.data)
        return reader_snapshot(reader, &header, generation);
    if (r == 0 && header.remote_sync.data)
        return reader_remote_sync(reader, &header);
    if (r == 0 && !usable)
        reader_problem(reader, PROBLEM_STATE_MISSING, header.sequence_id);
    else if (r == 0 && thread_time_read(reader, &header))
        r = packet_place(reader, &header, generation);
    return r;
}

// Reads the next packet of a Trace message. Returns 1; 0 at the end; -EBADMSG at damage (trace->pos
// is then the start of the damage).
static int packet_frame(struct wire_reader *trace, struct wire_reader *ret)
{
    struct wire_reader next = *trace;
    struct wire_field field;
    while (next.pos < next.end) {
        if (!wire_next(&next, &field))
            return -EBADMSG;
        if (field.number == PB_Trace_packet && field.type == WIRE_BYTES) {
            *trace = next;
            *ret = wire_sub(&field);
            return 1;
        }
        trace->pos = next.pos;
    }
    return 0;
}

static int packets_walk(struct reader *reader, struct wire_reader trace, bool outermost)
{
    const uint8_t *start = trace.pos;
    size_t size = (size_t)(trace.end - trace.pos);
    struct wire_reader fields;
    int r;
    for (;;) {
        size_t offset = (size_t)(trace.pos - start);
        if (outermost) {
            reader->packet_offset = offset;
            reader->damage_noted = false;
        }
        r = packet_frame(&trace, &fields);
        if (r <= 0)
            break;
        size_t n_bytes = (size_t)(trace.pos - start) - offset;
        if (!reader_step(reader, n_bytes, outermost ? 0.3 * (double)offset / (double)size : 0))
            return -ECANCELED;
        r = packet_read(reader, fields, outermost);
        if (r < 0)
            return r;
        reader->result.n_packets += outermost;
        if (reader->result.stopped) {
            reader->result.stopped_offset =
                (uint64_t)(trace.pos - start); // the outermost walk sets this value last
            return 0;
        }
    }
    if (r == -EBADMSG && outermost) {
        reader->result.truncated = true;
        reader->result.truncated_offset = (uint64_t)(trace.pos - start);
    } else if (r == -EBADMSG) {
        packet_damaged(reader, PROBLEM_COMPRESSED_DAMAGED);
    }
    return r == -EBADMSG ? 0 : r;
}

static int deferred_place(struct reader *reader)
{
    reader->final = true;
    const struct deferred *all = (const struct deferred *)(void *)reader->deferred.bytes;
    for (size_t i = 0; i < reader->n_deferred; i++) {
        struct header header;
        header_read(reader, all[i].fields, &header);
        if (!reader_step(reader, sizeof(*all) + sizeof(header), 0.3))
            return -ECANCELED;
        uint32_t generation = all[i].generation;
        int r = reader_enter(reader, sequences_generation(&reader->sequences, generation)->machine);
        if (r == 0)
            r = packet_place(reader, &header, generation);
        if (r < 0)
            return r;
        if (reader->result.stopped) {
            reader->result.stopped_offset = input_size(reader->input);
            break;
        }
    }
    scratch_done(&reader->deferred);
    return 0;
}

static int packet_sorted(struct reader *reader, const struct timeline_item *item)
{
    const struct trace_handler *handler = reader->handler;
    struct packet packet = {
        .ts = item->ts,
        .fields = wire_reader_over(item->data, item->size),
        .state = sequences_generation(&reader->sequences, item->generation),
    };
    packet.sequence_id = packet.state->sequence_id;
    struct header header;
    header_read(reader, packet.fields, &header);
    for (size_t i = 0; i < header.n_data; i++) {
        if (header.interest[i] != FIELD_SORTED && header.interest[i] != FIELD_BOTH)
            continue;
        packet.message = &header.data[i];
        int r = handler->sorted(handler->userdata, &packet);
        if (r < 0)
            return r;
    }
    return 0;
}

// Passes an event to the handler. `run`: NULL for an ETW event.
static int event_sorted(struct reader *reader, const struct timeline_item *item, int64_t ts,
                        const struct run_record *run)
{
    struct run_record single;
    if (!run)
        single.event = wire_reader_over(item->data, item->size);
    struct bundle_event event = {
        .ts = ts,
        .cpu = timeline_cpu(&reader->timeline, item->queue),
        .kind = run ? (enum run_kind)item->kind : RUN_EVENTS,
        .run = run ? run : &single,
        .state = sequences_generation(&reader->sequences, item->generation),
    };
    return reader->handler->event(reader->handler->userdata,
                                  run ? PB_TracePacket_ftrace_events : PB_TracePacket_etw_events,
                                  &event);
}

// Counts the memory that is mapped around a byte, unless fault_note() counted this memory recently.
static void fault_note(struct reader *reader, const uint8_t *at)
{
    uintptr_t window = (uintptr_t)at / FAULT_BYTES;
    uintptr_t *noted = &reader->faults[window % READER_FAULTS];
    if (*noted == window)
        return;
    *noted = window;
    reader->since_forget += FAULT_BYTES;
}

static int timeline_walk(struct reader *reader)
{
    struct timeline *timeline = &reader->timeline;
    const struct timeline_item *item;
    const struct run_record *record;
    int64_t ts;
    timeline->convert = run_time;
    timeline->userdata = reader;
    int r = timeline_sort(timeline);
    if (r < 0)
        return r;
    const uint8_t *after = NULL; // end of the last begun packet or run
    size_t n_begun = 0;
    while ((r = timeline_next(timeline, &item, &record, &ts)) > 0) {
        if (timeline->n_begun != n_begun) {
            // Scattered reads map more memory than they read.
            if (item->data < after || (size_t)(item->data - after) > FAULT_BYTES)
                fault_note(reader, item->data);
            after = item->data + item->size;
            n_begun = timeline->n_begun;
        }
        r = reader_enter(reader,
                         sequences_generation(&reader->sequences, item->generation)->machine);
        if (r < 0)
            return r;
        size_t n_bytes = item->size;
        if (record)
            n_bytes = record->event.pos && item->kind == RUN_EVENTS
                          ? (size_t)(record->event.end - record->event.pos)
                          : sizeof(*record);
        double done = 0.3 + 0.7 * (double)timeline->n_begun / (double)timeline->n_items;
        if (!reader_step(reader, n_bytes, done))
            return -ECANCELED;
        if (reader->result.stopped_late) {
            reader->result.stopped_ts = record ? ts : item->ts;
            return 0;
        }
        if (record || item->kind == TIMELINE_ETW)
            r = event_sorted(reader, item, record ? ts : item->ts, record);
        else
            r = packet_sorted(reader, item);
        if (r < 0)
            return r;
    }
    return r;
}

static void problem_count(struct reader *reader, enum trace_problem kind, uint64_t n)
{
    for (uint32_t part; n > 0; n -= part) {
        part = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
        reader_problem(reader, kind, part);
    }
}

int trace_read(struct input *input, const char *spill_folder, const struct trace_handler *handler,
               struct clocks *clocks, struct err *err, struct trace_result *ret)
{
    struct reader *reader = memory_calloc(1, sizeof(*reader));
    if (!reader)
        return err_errno(err, -ENOMEM, "trace");
    *reader = (struct reader){.input = input, .handler = handler, .clocks = clocks, .err = err};
    reader->folder = reader->timeline.folder = spill_folder;
    if (!clocks->trace_clock)
        clocks->trace_clock = CLOCK_ID_BOOTTIME;
    if (machines_get(&reader->machines, 0, true) == MACHINE_NONE) {
        free(reader);
        return err_errno(err, -ENOMEM, "trace");
    }
    reader->budget = input_budget(input);
    reader->stage = BUDGET_WALK;
    reader->timeline.scratch.budget = reader->deferred.budget = reader->budget;
    int r = spill_init(&reader->spill, spill_folder, err);
    reader->spill.budget = reader->budget;
    if (r == 0)
        r = packets_walk(reader, wire_reader_over(input_bytes(input), input_size(input)), true);
    if (r == 0)
        r = deferred_place(reader);
    if (r == 0)
        r = ftrace_starts_tell(reader);
    if (r == 0)
        r = handler->indexed(handler->userdata, &reader->result);
    reader->stage = BUDGET_ROWS;
    if (r == 0)
        r = timeline_walk(reader);
    problem_count(reader, PROBLEM_INTERNED_MISSING, reader->sequences.use.n_missing);
    problem_count(reader, PROBLEM_INTERNED_WITHHELD, reader->sequences.use.n_withheld);
    r = handler->finished(handler->userdata, r, &reader->result);
    if (r < 0 && err && !err->text[0])
        err_errno(err, r, r == -ENOMEM ? "trace" : "temporary files");
    timeline_done(&reader->timeline);
    scratch_done(&reader->deferred);
    sequences_done(&reader->sequences);
    trace_machines_done(&reader->machines);
    spill_done(&reader->spill);
    if (r == 0)
        *ret = reader->result;
    free(reader);
    return r;
}
