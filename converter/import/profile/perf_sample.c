// SPDX-License-Identifier: Apache-2.0
//
// PerfSample: samples of the kernel's perf events. Every sequence is a session. The defaults of the
// sequence have the timebase.
#include <errno.h>
#include <stdio.h>

#include "common/elements.h"
#include "common/str.h"
#include "converter/import/importer.h"
#include "converter/import/profile/samples.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

static const char source_perf[] = "linux.perf";

// Tracks of the counters that a session reads on a CPU.
struct perf_cpu {
    uint32_t tracks[SAMPLE_COUNTERS_MAX]; // the first track is of the timebase
    size_t n;
};
VEC_DEFINE(perf_cpu_vec, struct perf_cpu);

struct perf {
    struct map64 by_cpu; // session and CPU -> index in cpus
    struct perf_cpu_vec cpus;
};

struct counter_event {
    struct wire_field name, counter, tracepoint, raw;
    char modifiers[8];
};

static const char *counter_text(uint64_t counter)
{
    static const char *const names[] = {
        [PB_SW_CPU_CLOCK] = "cpu-clock",
        [PB_SW_PAGE_FAULTS] = "page-faults",
        [PB_SW_TASK_CLOCK] = "task-clock",
        [PB_SW_CONTEXT_SWITCHES] = "context-switches",
        [PB_SW_CPU_MIGRATIONS] = "cpu-migrations",
        [PB_SW_PAGE_FAULTS_MIN] = "minor-faults",
        [PB_SW_PAGE_FAULTS_MAJ] = "major-faults",
        [PB_SW_ALIGNMENT_FAULTS] = "alignment-faults",
        [PB_SW_EMULATION_FAULTS] = "emulation-faults",
        [PB_SW_DUMMY] = "dummy",
        [PB_HW_CPU_CYCLES] = "cpu-cycles",
        [PB_HW_INSTRUCTIONS] = "instructions",
        [PB_HW_CACHE_REFERENCES] = "cache-references",
        [PB_HW_CACHE_MISSES] = "cache-misses",
        [PB_HW_BRANCH_INSTRUCTIONS] = "branch-instructions",
        [PB_HW_BRANCH_MISSES] = "branch-misses",
        [PB_HW_BUS_CYCLES] = "bus-cycles",
        [PB_HW_STALLED_CYCLES_FRONTEND] = "stalled-cycles-frontend",
        [PB_HW_STALLED_CYCLES_BACKEND] = "stalled-cycles-backend",
        [PB_HW_REF_CPU_CYCLES] = "ref-cycles",
    };
    const char *name = counter < ELEMENTS(names) ? names[counter] : NULL;
    return name ? name : "unknown";
}

static const char *timebase_unit(const struct counter_event *event)
{
    if (!field_present(&event->counter))
        return field_present(&event->tracepoint) ? "count" : NULL;
    switch (field_u64(&event->counter)) {
    case PB_SW_CPU_CLOCK:
    case PB_SW_TASK_CLOCK:
        return "ns";
    case PB_HW_CPU_CYCLES:
    case PB_HW_BUS_CYCLES:
    case PB_HW_REF_CPU_CYCLES:
        return "cycles";
    case PB_HW_INSTRUCTIONS:
        return "instructions";
    default:
        return "count";
    }
}

static void counter_name(const struct counter_event *event, struct strbuf *ret)
{
    if (event->name.size) {
        strbuf_add(ret, event->name.data, event->name.size);
    } else if (field_present(&event->counter)) {
        strbuf_add_str(ret, counter_text(field_u64(&event->counter)));
    } else if (field_present(&event->tracepoint)) {
        MESSAGE(tracepoint, PerfEvents_Tracepoint, &event->tracepoint);
        strbuf_add(ret, field_text(&tracepoint.name), tracepoint.name.size);
    } else if (field_present(&event->raw)) {
        MESSAGE(raw, PerfEvents_RawEvent, &event->raw);
        strbuf_addf(ret, "raw.0x%x.0x%llx.0x%llx.0x%llx", (uint32_t)field_u64(&raw.type),
                    (unsigned long long)field_u64(&raw.config),
                    (unsigned long long)field_u64(&raw.config1),
                    (unsigned long long)field_u64(&raw.config2));
    } else {
        strbuf_add_str(ret, "unknown");
    }
    if (event->modifiers[0])
        strbuf_addf(ret, ":%s", event->modifiers);
}

// The fields of a Timebase and of a FollowerEvent.
enum { EVENT_NAME, EVENT_COUNTER, EVENT_TRACEPOINT, EVENT_RAW, EVENT_MODIFIERS, N_EVENT_FIELDS };
static const uint32_t of_timebase[N_EVENT_FIELDS] = {
    PB_PerfEvents_Timebase_name,       PB_PerfEvents_Timebase_counter,
    PB_PerfEvents_Timebase_tracepoint, PB_PerfEvents_Timebase_raw_event,
    PB_PerfEvents_Timebase_modifiers,
};
static const uint32_t of_follower[N_EVENT_FIELDS] = {
    PB_FollowerEvent_name,      PB_FollowerEvent_counter,   PB_FollowerEvent_tracepoint,
    PB_FollowerEvent_raw_event, PB_FollowerEvent_modifiers,
};

static struct counter_event event_of(const struct wire_field *message, const uint32_t *fields)
{
    struct counter_event event = {
        .name = message_field(wire_sub(message), fields[EVENT_NAME]),
        .counter = message_field(wire_sub(message), fields[EVENT_COUNTER]),
        .tracepoint = message_field(wire_sub(message), fields[EVENT_TRACEPOINT]),
        .raw = message_field(wire_sub(message), fields[EVENT_RAW]),
    };
    struct values modifiers = values_of(message, fields[EVENT_MODIFIERS]);
    uint64_t modifier;
    for (size_t n = 0; n + 1 < sizeof(event.modifiers) && values_next(&modifiers, &modifier);)
        if (modifier >= 1 && modifier <= 3)
            event.modifiers[n++] = "ukh"[modifier - 1];
    return event;
}

static void track_add(struct import *im, struct perf_cpu *perf, uint32_t cpu, int64_t session,
                      const struct counter_event *event)
{
    if (perf->n == SAMPLE_COUNTERS_MAX)
        return;
    struct strbuf name = {0};
    counter_name(event, &name);
    struct track_spec spec = {
        .type = "perf_cpu_counter",
        .counter = true,
        .dimensions = {dimension_int("cpu", cpu), dimension_int("perf_session_id", session),
                       dimension_text("name", name.text, name.size)},
        .name = {name.text, name.size},
    };
    uint32_t track = tracks_get(&im->tracks, &spec);
    struct arg is_timebase = arg_bool("is_timebase", perf->n == 0);
    track_describe(&im->tracks, track, &is_timebase, 1);
    perf->tracks[perf->n++] = track;
    strbuf_done(&name);
}

static void tracks_make(struct import *im, struct perf_cpu *perf, uint32_t cpu, int64_t session,
                        const struct wire_field *defaults)
{
    if (!field_present(defaults)) { // old recorders sampled by a clock only
        struct counter_event clock = {
            .counter = {.number = PB_PerfEvents_Timebase_counter, .value = PB_SW_CPU_CLOCK}};
        track_add(im, perf, cpu, session, &clock);
        samples_set_unit(im, session, "ns");
        return;
    }
    MESSAGE(part, PerfSampleDefaults, defaults);
    struct counter_event timebase = event_of(&part.timebase, of_timebase);
    track_add(im, perf, cpu, session, &timebase);
    samples_set_unit(im, session, timebase_unit(&timebase));
    for (struct fields each = fields_of(defaults, PB_PerfSampleDefaults_followers);
         fields_next(&each);) {
        struct counter_event follower = event_of(&each.field, of_follower);
        track_add(im, perf, cpu, session, &follower);
    }
    uint64_t n_shards = field_u64(&part.process_shard_count);
    if (!n_shards)
        return;
    stats_set_at(&im->stats, STAT_perf_process_shard_count, (uint32_t)session, (int64_t)n_shards);
    stats_set_at(&im->stats, STAT_perf_chosen_process_shard, (uint32_t)session,
                 field_i64(&part.chosen_process_shard));
}

static const struct perf_cpu *cpu_get(struct import *im, struct perf *state,
                                      const struct packet *packet, uint32_t cpu, int64_t session)
{
    uint64_t key = (uint64_t)session << 32 | cpu;
    const uint64_t *known = map64_find(&state->by_cpu, key);
    if (known)
        return &state->cpus.items[*known];
    struct wire_field defaults =
        message_field(packet->state->defaults, PB_TracePacketDefaults_perf_sample_defaults);
    struct perf_cpu made = {0};
    tracks_make(im, &made, cpu, session, &defaults);
    if (perf_cpu_vec_push(&state->cpus, made) < 0 ||
        map64_set(&state->by_cpu, key, state->cpus.n - 1) < 0)
        return NULL;
    return &state->cpus.items[state->cpus.n - 1];
}

static const char *enum_text(const struct wire_field *field, const char *const *names, size_t n)
{
    uint64_t value = field_u64(field);
    return value < n && names[value] ? names[value] : "unknown";
}

static const char *cpu_mode_text(const struct wire_field *field)
{
    static const char *const modes[] = {
        NULL, "kernel", "user", "hypervisor", "guest_kernel", "guest_user",
    };
    return field_u64(field) ? enum_text(field, modes, ELEMENTS(modes)) : NULL;
}

static const char *unwind_error_text(const struct wire_field *field)
{
    static const char *const errors[] = {
        "unknown",     "none",        "memory_invalid",      "unwind_info",
        "unsupported", "invalid_map", "max_frames_exceeded", "repeated_frame",
        "invalid_elf", "system_call", "thread_timeout",      "thread_does_not_exist",
        "bad_arch",    "maps_parse",  "invalid_parameter",   "ptrace_call",
    };
    if (!field_present(field))
        return NULL;
    return enum_text(field, errors, ELEMENTS(errors));
}

// Reads an event of the recorder. False: the packet is a sample.
static bool event_read(struct import *im, int64_t ts, const union message_PerfSample *sample,
                       int64_t session)
{
    if (field_u64(&sample->kernel_records_lost)) {
        stats_add_at(&im->stats, STAT_perf_cpu_lost_records, (uint32_t)field_u64(&sample->cpu),
                     field_i64(&sample->kernel_records_lost));
        return true;
    }
    if (!field_present(&sample->producer_event))
        return false;
    MESSAGE(event, PerfSample_ProducerEvent, &sample->producer_event);
    if (field_u64(&event.source_stop_reason) == PB_PROFILER_STOP_GUARDRAIL)
        stats_set_at(&im->stats, STAT_perf_guardrail_stop_ts, (uint32_t)session, ts);
    return true;
}

static void skip_count(struct import *im, const struct wire_field *reason)
{
    switch (field_u64(reason)) {
    case PB_PROFILER_SKIP_READ_STAGE:
    case PB_PROFILER_SKIP_UNWIND_STAGE:
        stats_add(&im->stats, STAT_perf_samples_skipped, 1);
        break;
    case PB_PROFILER_SKIP_UNWIND_ENQUEUE:
        stats_add(&im->stats, STAT_perf_samples_skipped_dataloss, 1);
        break;
    default:
        break;
    }
}

static void counters_read(struct import *im, const struct wire_field *message,
                          const struct wire_field *timebase, const struct perf_cpu *perf,
                          struct sample *sample)
{
    if (field_present(timebase) && perf->n)
        sample->counters[sample->n_counters++] = counter_push(
            im, sample->ts, perf->tracks[0], (double)field_u64(timebase), ARG_SET_NONE);
    struct values values = values_of(message, PB_PerfSample_follower_counts);
    uint64_t value;
    for (size_t next = 1; next < perf->n && values_next(&values, &value); next++)
        sample->counters[sample->n_counters++] =
            counter_push(im, sample->ts, perf->tracks[next], (double)value, ARG_SET_NONE);
}

static void perf_sample_sorted(struct import *im, const struct packet *packet)
{
    struct perf *state = packet->own;
    MESSAGE(part, PerfSample, packet->message);
    bool is_new;
    int64_t session = samples_session(im, source_perf, packet->sequence_id, &is_new);
    uint32_t cpu = (uint32_t)field_u64(&part.cpu);
    if (cpu >= CPUS_MAX) {
        stats_add(&im->stats, STAT_mmsql_packets_damaged, 1);
        return;
    }
    const struct perf_cpu *perf =
        session == SAMPLE_NONE ? NULL : cpu_get(im, state, packet, cpu, session);
    if (!perf) {
        import_fail(im, -ENOMEM);
        return;
    }
    if (event_read(im, packet->ts, &part, session))
        return;
    if (field_present(&part.sample_skipped_reason))
        skip_count(im, &part.sample_skipped_reason);
    struct sample sample = {
        .ts = packet->ts,
        .source = source_perf,
        .async = SAMPLE_NONE,
        .cpu = field_present(&part.cpu) ? (int64_t)cpu : SAMPLE_NONE,
        .cpu_mode = cpu_mode_text(&part.cpu_mode),
        .callsite = SAMPLE_NONE,
        .session = session,
        .unwind_error = unwind_error_text(&part.unwind_error),
    };
    counters_read(im, packet->message, &part.timebase_count, perf, &sample);
    uint32_t pid = (uint32_t)field_u64(&part.pid);
    sample.utid = processes_update_thread(&im->processes, (uint32_t)field_u64(&part.tid), pid);
    sample.upid = processes_process(&im->processes, pid);
    if (field_present(&part.callstack_iid)) {
        struct stack_source source = stack_source_interned(packet->state);
        sample.callsite = stacks_callsite(im, &source, field_u64(&part.callstack_iid));
    }
    sample_write(im, &sample);
}

static void perf_sample_done(void *userdata)
{
    struct perf *state = userdata;
    map64_done(&state->by_cpu);
    perf_cpu_vec_done(&state->cpus);
}

const struct importer importer_perf_sample = {
    .field = PB_TracePacket_perf_sample,
    .sorted = perf_sample_sorted,
    .state_size = sizeof(struct perf),
    .of_all_machines = true,
    .done = perf_sample_done,
};
