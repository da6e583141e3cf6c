// SPDX-License-Identifier: Apache-2.0
//
// perf.data: events are sessions and tracks of counters, mappings give the files of addresses, and
// samples fill the same tables as the perf samples of a trace.
#include "common/text.h"
#include "converter/import/foreign/address_map.h"
#include "converter/import/foreign/text_chain.h"
#include "converter/import/importer.h"
#include "converter/import/profile/samples.h"
#include "converter/import/profile/stacks.h"
#include "protos/fields.h"

#define FRAMES_MAX 8192
#define EVENTS_MAX 65536
#define ANY_CPU    UINT32_MAX

struct perf_event {
    bool is_known, is_timebase;
    struct slice_name name;
    int64_t session;
};
VEC_DEFINE(perf_event_vec, struct perf_event);

struct perf_counter {
    uint32_t track;
    double value; // the last value
};
VEC_DEFINE(perf_counter_vec, struct perf_counter);

VEC_DEFINE(address_map_vec, struct address_map);

struct perf_mapping {
    int64_t id, start, offset; // rel_pc is address - start + offset
};
VEC_DEFINE(perf_mapping_vec, struct perf_mapping);

struct foreign_perf {
    struct perf_event_vec events; // by index
    struct perf_counter_vec counters;
    struct map64 counter_of; // event and CPU -> index in counters
    struct perf_mapping_vec mappings;
    struct address_map modules; // of the kernel -> index in mappings
    int64_t kernel;             // index in mappings + 1; 0: none
    uint64_t kernel_start, kernel_size;
    struct address_map_vec spaces; // of processes -> index in mappings
    struct map64 space_of;         // upid -> index in spaces
    struct map64 no_mapping;       // upid -> id of the mapping of unknown addresses
};

extern const struct importer importer_foreign_sample;

static const char *text_kept(struct import *im, const struct wire_field *field)
{
    return field_present(field) ? strset_text(&im->strings, import_keep(im, field)) : NULL;
}

static void perf_event_now(struct import *im, const struct packet *packet)
{
    struct foreign_perf *perf = packet->own;
    MESSAGE(part, ForeignPerfEvent, packet->message);
    uint64_t index = field_u64(&part.index);
    struct session session = {
        .source = "linux.perf",
        .unit = text_kept(im, &part.unit),
        .cmdline = text_kept(im, &part.cmdline),
    };
    struct perf_event event = {
        .is_known = true,
        .is_timebase = field_u64(&part.is_timebase) != 0,
        .name = import_text_keep(im, field_text(&part.name), part.name.size),
        .session = samples_session_add(im, session),
    };
    while (index < EVENTS_MAX && perf->events.n <= index && !import_failed(im))
        import_fail(im, perf_event_vec_push(&perf->events, (struct perf_event){0}));
    if (index < perf->events.n)
        perf->events.items[index] = event;
}

const struct importer importer_foreign_perf_event = {
    .field = PB_TracePacket_foreign_perf_event,
    .now = perf_event_now,
    .shares = &importer_foreign_sample,
};

static struct address_map *space_get(struct import *im, struct foreign_perf *perf, int64_t upid)
{
    bool is_new;
    const uint64_t *index =
        import_map_get(im, &perf->space_of, (uint64_t)upid, perf->spaces.n, &is_new);
    if (index && is_new)
        import_fail(im, address_map_vec_push(&perf->spaces, (struct address_map){0}));
    return index && *index < perf->spaces.n ? &perf->spaces.items[*index] : NULL;
}

static void kernel_mapping_add(struct import *im, struct foreign_perf *perf, uint64_t start,
                               uint64_t size, struct perf_mapping mapping, bool is_image)
{
    import_fail(im, perf_mapping_vec_push(&perf->mappings, mapping));
    if (is_image) {
        perf->kernel = (int64_t)perf->mappings.n;
        perf->kernel_start = start;
        perf->kernel_size = size;
        return;
    }
    import_fail(im, address_map_put(&perf->modules, start, size, (int64_t)perf->mappings.n - 1));
}

static void mapping_sorted(struct import *im, const struct packet *packet)
{
    struct foreign_perf *perf = packet->own;
    MESSAGE(part, ForeignMapping, packet->message);
    uint64_t start = field_u64(&part.start), size = field_u64(&part.size);
    struct text name = field_words(&part.name);
    bool in_kernel = field_u64(&part.is_kernel);
    bool is_image = in_kernel && (text_starts_with(name, TEXT("[kernel.kallsyms]")) || !size);
    int64_t upid = UPID_NONE;
    if (!in_kernel) {
        int64_t utid = processes_update_thread(&im->processes, (uint32_t)field_u64(&part.tid),
                                               (uint32_t)field_u64(&part.pid));
        upid = import_failed(im) ? UPID_NONE : processes_thread_at(&im->processes, utid)->upid;
    }
    if ((in_kernel && text_eq(name, TEXT("[bpf]")) && size == UINT64_MAX) ||
        (is_image && perf->kernel))
        return;
    bool is_text = text_starts_with(name, TEXT("[kernel.kallsyms]")); // its offset is an address
    int64_t offset = in_kernel && is_text ? 0 : field_i64(&part.offset);
    uint64_t end;
    if (__builtin_add_overflow(start, size, &end))
        end = UINT64_MAX;
    const int64_t numbers[5] = {offset, 0, (int64_t)start, (int64_t)end, 0};
    struct perf_mapping mapping = {
        .id = stacks_mapping_add(im, import_keep(im, &part.name),
                                 stacks_build_id(im, part.build_id.data, part.build_id.size),
                                 numbers),
        .start = (int64_t)start,
        .offset = offset,
    };
    if (in_kernel) {
        kernel_mapping_add(im, perf, start, size, mapping, is_image);
        return;
    }
    struct address_map *space = space_get(im, perf, upid);
    import_fail(im, perf_mapping_vec_push(&perf->mappings, mapping));
    if (space)
        import_fail(im, address_map_put(space, start, size, (int64_t)perf->mappings.n - 1));
}

const struct importer importer_foreign_mapping = {
    .field = PB_TracePacket_foreign_mapping,
    .sorted = mapping_sorted,
    .shares = &importer_foreign_sample,
};

// Returns the index of the mapping of an address, or ADDRESS_NONE.
static int64_t mapping_find(const struct foreign_perf *perf, int64_t upid, bool in_kernel,
                            uint64_t address)
{
    if (!in_kernel) {
        const uint64_t *space = map64_find(&perf->space_of, (uint64_t)upid);
        return space && *space < perf->spaces.n
                   ? address_map_find(&perf->spaces.items[*space], address)
                   : ADDRESS_NONE;
    }
    int64_t module = address_map_find(&perf->modules, address);
    if (module != ADDRESS_NONE)
        return module;
    bool in_image = perf->kernel && address - perf->kernel_start < perf->kernel_size;
    return in_image ? perf->kernel - 1 : ADDRESS_NONE;
}

// Returns the mapping that stands for all addresses of a process outside of known mappings.
static int64_t mapping_of_nothing(struct import *im, struct foreign_perf *perf, int64_t upid)
{
    static const int64_t all_addresses[5] = {[3] = -1};
    bool is_new;
    uint64_t *id = import_map_get(im, &perf->no_mapping, (uint64_t)upid, 0, &is_new);
    uint32_t empty = strset_add(&im->strings, "", 0);
    stats_add(&im->stats, STAT_perf_dummy_mapping_used, 1);
    if (id && is_new)
        *id = (uint64_t)stacks_mapping_add(im, empty, empty, all_addresses);
    return id ? (int64_t)*id : STACK_NONE;
}

static int64_t address_frame(struct import *im, struct foreign_perf *perf, int64_t upid,
                             bool in_kernel, uint64_t address)
{
    int64_t found = mapping_find(perf, upid, in_kernel, address), id, rel_pc = (int64_t)address;
    if (found == ADDRESS_NONE) {
        id = mapping_of_nothing(im, perf, upid);
    } else {
        const struct perf_mapping *mapping = &perf->mappings.items[found];
        id = mapping->id;
        rel_pc = (int64_t)(address - (uint64_t)mapping->start + (uint64_t)mapping->offset);
    }
    return stacks_frame(im, id, rel_pc, strset_add(&im->strings, "", 0), STRSET_NONE, 0,
                        STRSET_NONE);
}

static int64_t chain_read(struct import *im, struct foreign_perf *perf,
                          const struct wire_field *message, int64_t upid, bool adjust_callers)
{
    struct values addresses = values_of(message, PB_ForeignSample_addresses);
    struct values runs = values_of(message, PB_ForeignSample_mode_runs);
    struct {
        uint64_t address;
        bool in_kernel;
    } frames[FRAMES_MAX];
    uint64_t run = 0, address;
    bool in_kernel = true; // the loop switches first: the first run has user frames
    size_t n = 0;
    while (n < FRAMES_MAX && values_next(&addresses, &address)) {
        while (!run && values_next(&runs, &run))
            in_kernel = !in_kernel;
        run -= run > 0;
        frames[n].address = address;
        frames[n++].in_kernel = in_kernel;
    }
    int64_t callsite = CALLSITE_NONE, depth = 0;
    while (n-- > 0 && !import_failed(im)) {
        address = frames[n].address;
        address -= n && address && adjust_callers;
        int64_t frame = address_frame(im, perf, upid, frames[n].in_kernel, address);
        callsite = stacks_child(im, callsite, frame, depth++);
    }
    return callsite;
}

static struct perf_counter *counter_get(struct import *im, struct foreign_perf *perf,
                                        uint64_t index, int64_t cpu)
{
    const struct perf_event *event = &perf->events.items[index];
    bool is_new;
    uint64_t key = index << 32 | (cpu == SAMPLE_NONE ? ANY_CPU : (uint32_t)cpu);
    const uint64_t *known = import_map_get(im, &perf->counter_of, key, perf->counters.n, &is_new);
    if (!known || !is_new)
        return known ? &perf->counters.items[*known] : NULL;
    struct track_spec spec = {
        .type = cpu == SAMPLE_NONE ? "perf_global_counter" : "perf_cpu_counter",
        .counter = true,
        .name = event->name,
    };
    size_t n = 0;
    if (cpu != SAMPLE_NONE)
        spec.dimensions[n++] = dimension_int("cpu", cpu);
    spec.dimensions[n++] = dimension_int("perf_session_id", event->session);
    spec.dimensions[n] = dimension_text("name", event->name.text, event->name.size);
    struct perf_counter counter = {.track = tracks_get(&im->tracks, &spec)};
    struct arg is_timebase = arg_bool("is_timebase", event->is_timebase);
    track_describe(&im->tracks, counter.track, &is_timebase, 1);
    import_fail(im, perf_counter_vec_push(&perf->counters, counter));
    return import_failed(im) ? NULL : &perf->counters.items[perf->counters.n - 1];
}

static void counters_read(struct import *im, struct foreign_perf *perf,
                          const struct wire_field *message, bool is_delta, struct sample *sample)
{
    struct values events = values_of(message, PB_ForeignSample_counter_events);
    struct values values = values_of(message, PB_ForeignSample_counter_values);
    uint64_t index, value;
    while (sample->n_counters < SAMPLE_COUNTERS_MAX && values_next(&events, &index) &&
           values_next(&values, &value)) {
        if (index >= perf->events.n || !perf->events.items[index].is_known)
            continue;
        struct perf_counter *counter = counter_get(im, perf, index, sample->cpu);
        if (!counter)
            return;
        counter->value = is_delta ? counter->value + (double)value : (double)value;
        sample->counters[sample->n_counters++] =
            counter_push(im, sample->ts, counter->track, counter->value, ARG_SET_NONE);
    }
}

// Returns the name of a mode, such as "user"; NULL: not known.
static const char *mode_text(struct import *im, uint64_t mode)
{
    static const char *const modes[] = {
        NULL, "kernel", "user", "hypervisor", "guest_kernel", "guest_user",
    };
    if (mode && mode < ELEMENTS(modes))
        return modes[mode];
    stats_add(&im->stats, STAT_perf_samples_cpu_mode_unknown, 1);
    return NULL;
}

static void perf_part(struct import *im, struct foreign_perf *perf,
                      const struct wire_field *message, const union message_ForeignSample *part,
                      struct sample *sample)
{
    uint64_t index = field_u64(&part->event);
    if (field_present(&part->cpu) && field_u64(&part->cpu) < CPUS_MAX)
        sample->cpu = field_i64(&part->cpu);
    sample->cpu_mode = mode_text(im, field_u64(&part->cpu_mode));
    sample->callsite =
        chain_read(im, perf, message, sample->upid, field_u64(&part->adjust_callers) != 0);
    counters_read(im, perf, message, field_u64(&part->is_delta) != 0, sample);
    if (index < perf->events.n && perf->events.items[index].is_known)
        sample->session = perf->events.items[index].session;
}

static void foreign_sample_sorted(struct import *im, const struct packet *packet)
{
    MESSAGE(part, ForeignSample, packet->message);
    uint32_t tid = (uint32_t)field_u64(&part.tid), pid = (uint32_t)field_u64(&part.pid);
    bool has_pid = field_present(&part.pid);
    struct sample sample = {
        .ts = packet->ts,
        .source = text_kept(im, &part.source),
        .utid = has_pid ? processes_update_thread(&im->processes, tid, pid)
                        : processes_thread(&im->processes, tid),
        .upid = SAMPLE_NONE,
        .async = SAMPLE_NONE,
        .cpu = SAMPLE_NONE,
        .callsite = SAMPLE_NONE,
        .session = SAMPLE_NONE,
    };
    if (import_failed(im))
        return;
    if (has_pid)
        sample.upid = processes_thread_at(&im->processes, sample.utid)->upid;
    if (field_present(&part.comm))
        processes_rename(&im->processes, sample.utid, import_keep(im, &part.comm), NAME_OTHER);
    if (field_present(&part.frames))
        sample.callsite = text_chain_read(im, packet->message);
    else
        perf_part(im, packet->own, packet->message, &part, &sample);
    sample_write(im, &sample);
}

static void foreign_perf_done(void *state)
{
    struct foreign_perf *perf = state;
    perf_event_vec_done(&perf->events);
    perf_counter_vec_done(&perf->counters);
    map64_done(&perf->counter_of);
    perf_mapping_vec_done(&perf->mappings);
    address_map_done(&perf->modules);
    vec_foreach(&perf->spaces, space)
        address_map_done(space);
    address_map_vec_done(&perf->spaces);
    map64_done(&perf->space_of);
    map64_done(&perf->no_mapping);
}

const struct importer importer_foreign_sample = {
    .field = PB_TracePacket_foreign_sample,
    .sorted = foreign_sample_sorted,
    .state_size = sizeof(struct foreign_perf),
    .done = foreign_perf_done,
};
