// SPDX-License-Identifier: Apache-2.0
//
// The tables are made from the trace file alone, because the file is the result. Each sequence of
// samples is one event, with call stacks of its own.
//
// The total of a function counts the samples with the function anywhere in their stack, each once.
#include "producer/cli/stacks_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "producer/cli/trace_stacks.h"
#include "protos/fields.h"

#define CUT_PART 20 // fewer cut stacks than 1/20 of the samples are not reported
#define ROWS     20

struct stacks_row {
    uint32_t name;
    uint64_t self, total, last_sample;
    struct symbol_line line; // of the address with the most samples
    uint64_t line_samples;
};
VEC_DEFINE(stacks_row_vec, struct stacks_row);

struct stacks_event {
    uint32_t sequence;
    struct strbuf name; // of the event; empty: no samples
    struct trace_stacks stacks;
    struct strset names;
    struct stacks_row_vec rows; // by name
    struct map64 name_of;       // key_of() a function in a stack -> name, SAMPLE for each sample
    uint64_t n_samples, n_whole, n_lost, n_cut;
    uint64_t n_cut_made; // in code that was made at run time, part of n_cut
};
VEC_DEFINE(stacks_event_vec, struct stacks_event *);

#define SAMPLE (UINT64_C(1) << 32)

struct stacks_tables {
    struct stacks_event_vec events;
    struct trace_symbols symbols;
};

static void tables_done(struct stacks_tables *tables)
{
    vec_foreach(&tables->events, item) {
        struct stacks_event *event = *item;
        strbuf_done(&event->name);
        trace_stacks_done(&event->stacks);
        strset_done(&event->names);
        stacks_row_vec_done(&event->rows);
        map64_done(&event->name_of);
        free(event);
    }
    stacks_event_vec_done(&tables->events);
    trace_symbols_done(&tables->symbols);
}

static struct stacks_event *event_of(struct stacks_tables *tables, uint32_t sequence)
{
    vec_foreach(&tables->events, event)
        if ((*event)->sequence == sequence)
            return *event;
    struct stacks_event *event = calloc(1, sizeof(*event));
    if (!event || stacks_event_vec_push(&tables->events, event) < 0) {
        free(event);
        return NULL;
    }
    event->sequence = sequence;
    event->stacks.symbols = &tables->symbols;
    return event;
}

static uint64_t key_of(const struct stack_place *place)
{
    return hash_u64(place->frame) + place->depth;
}

static struct stacks_row *row_of(struct stacks_event *event, const struct stack_place *place)
{
    bool is_new;
    uint64_t *known = map64_get_or_add(&event->name_of, key_of(place), 0, &is_new);
    if (!known)
        return NULL;
    if (is_new) {
        struct strbuf name CLEANUP(strbuf_done) = {0};
        if (!trace_stacks_name(&event->stacks, place, &name))
            strbuf_add_str(&name, "[unknown]");
        uint32_t id = name.failed ? STRSET_NONE : strset_add(&event->names, name.text, name.size);
        if (id == STRSET_NONE ||
            (id == event->rows.n &&
             stacks_row_vec_push(&event->rows, (struct stacks_row){.name = id}) < 0)) {
            map64_remove(&event->name_of, key_of(place));
            return NULL;
        }
        *known = id;
    }
    struct stacks_row *row = &event->rows.items[(uint32_t)*known];
    *known += SAMPLE;
    if (*known / SAMPLE > row->line_samples) {
        row->line_samples = *known / SAMPLE;
        row->line = place->line;
    }
    return row;
}

static int take_place(void *userdata, const struct stack_place *place, bool is_leaf)
{
    struct stacks_event *event = userdata;
    struct stacks_row *row = row_of(event, place);
    if (!row)
        return -ENOMEM;
    row->self += is_leaf;
    row->total += row->last_sample != event->n_samples;
    row->last_sample = event->n_samples;
    return 0;
}

static int read_sample(struct stacks_event *event, const struct wire_field *message)
{
    uint64_t callstack = 0, n_lost = 0, error = 0;
    const struct text text = {(const char *)message->data, message->size};
    message_numbers(text, (struct wanted[]){{PB_PerfSample_callstack_iid, &callstack},
                                            {PB_PerfSample_kernel_records_lost, &n_lost},
                                            {PB_PerfSample_unwind_error, &error},
                                            {0}});
    event->n_lost += n_lost;
    if (n_lost)
        return 0;
    event->n_samples++;
    event->n_whole += callstack != 0;
    if (error == PB_UNWIND_ERROR_UNWIND_INFO) {
        event->n_cut++;
        event->n_cut_made += trace_stacks_is_made_code(&event->stacks, callstack);
    }
    return callstack ? trace_stacks_walk(&event->stacks, callstack, take_place, event) : 0;
}

// Returns the field of a message, or an empty field.
static struct wire_field sub_field(const struct wire_field *message, uint32_t number)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field f;
    wire_foreach(&reader, &f)
        if (f.number == number)
            return f;
    return (struct wire_field){0};
}

static const char *counter_text(uint64_t counter)
{
    switch (counter) {
    case PB_SW_CPU_CLOCK:
        return "CPU time";
    case PB_SW_PAGE_FAULTS_MIN:
        return "Minor page faults";
    case PB_SW_PAGE_FAULTS_MAJ:
        return "Major page faults";
    default:
        return "Samples";
    }
}

static void read_defaults(struct stacks_event *event, const struct wire_field *message)
{
    struct wire_field defaults = sub_field(message, PB_TracePacketDefaults_perf_sample_defaults);
    struct wire_field timebase = sub_field(&defaults, PB_PerfSampleDefaults_timebase);
    struct wire_field tracepoint = sub_field(&timebase, PB_PerfEvents_Timebase_tracepoint);
    struct wire_field name = sub_field(&tracepoint, PB_PerfEvents_Tracepoint_name);
    struct wire_field counter = sub_field(&timebase, PB_PerfEvents_Timebase_counter);
    struct wire_field period = sub_field(&timebase, PB_PerfEvents_Timebase_period);
    if (!timebase.data)
        return;
    strbuf_clear(&event->name);
    if (name.size)
        strbuf_add(&event->name, name.data, name.size);
    else
        strbuf_add_str(&event->name, counter_text(counter.value));
    if (period.value > 1)
        strbuf_addf(&event->name, ", one sample for %" PRIu64, period.value);
}

static int read_packet(void *userdata, struct wire_reader packet)
{
    struct stacks_tables *tables = userdata;
    struct wire_reader reader = packet;
    struct wire_field f;
    uint64_t sequence = 0, flags = 0;
    int r = 0;
    wire_foreach(&reader, &f) {
        sequence = f.number == PB_TracePacket_trusted_packet_sequence_id ? f.value : sequence;
        flags = f.number == PB_TracePacket_sequence_flags ? f.value : flags;
    }
    struct stacks_event *event = event_of(tables, (uint32_t)sequence);
    if (!event)
        return -ENOMEM;
    if (flags & 1) {
        trace_stacks_forget(&event->stacks);
        map64_clear(&event->name_of);
    }
    while (r == 0 && wire_next(&packet, &f)) {
        if (f.number == PB_TracePacket_interned_data)
            r = trace_stacks_read(&event->stacks, &f);
        else if (f.number == PB_TracePacket_trace_packet_defaults)
            read_defaults(event, &f);
        else if (f.number == PB_TracePacket_perf_sample)
            r = read_sample(event, &f);
    }
    return r;
}

static int by_self(const void *left, const void *right)
{
    const struct stacks_row *a = left, *b = right;
    if (a->self != b->self)
        return a->self > b->self ? -1 : 1;
    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

// Prints how many stacks are cut. Each program has some cut stacks, for example at its start: these
// few get no line.
static void print_cut(const struct stacks_event *event, bool is_dwarf, FILE *out)
{
    if (event->n_cut * CUT_PART < event->n_samples || event->n_cut == 0)
        return;
    fprintf(out, "%" PRIu64 " stacks (%.0f %%) are cut: ", event->n_cut,
            100.0 * (double)event->n_cut / (double)event->n_samples);
    if (trace_stacks_has_file(&event->stacks, "libjvm.so"))
        fprintf(out, "run the JVM with -XX:+PreserveFramePointer\n");
    else if (2 * event->n_cut_made > event->n_cut)
        fprintf(out, "their code was made at run time without frame pointers (run a JVM with "
                     "-XX:+PreserveFramePointer)\n");
    else if (is_dwarf)
        fprintf(out, "their code has neither unwind tables nor frame pointers\n");
    else
        fprintf(out, "their code has no frame pointers (--call-graph dwarf needs none)\n");
}

// Prints the table of an event. Functions without own samples are left out.
static void print_event(struct stacks_event *event, bool is_dwarf, FILE *out)
{
    fprintf(out, "%s: %" PRIu64 " samples", event->name.text, event->n_samples);
    if (event->n_lost)
        fprintf(out, ", %" PRIu64 " records lost", event->n_lost);
    fprintf(out, "\n");
    if (event->n_whole == 0)
        return;
    print_cut(event, is_dwarf, out);
    if (event->rows.n > 0)
        qsort(event->rows.items, event->rows.n, sizeof(event->rows.items[0]), by_self);
    fprintf(out, "%8s %12s  function\n", "self %", "with called");
    for (size_t i = 0; i < event->rows.n && i < ROWS && event->rows.items[i].self > 0; i++) {
        const struct stacks_row *row = &event->rows.items[i];
        const struct strset_entry *name = &event->names.entries[row->name];
        double whole = (double)event->n_samples;
        fprintf(out, "%8.1f %12.1f  ", 100.0 * (double)row->self / whole,
                100.0 * (double)row->total / whole);
        trace_stacks_print(name->text, name->size, &row->line, out);
    }
}

int stacks_summary_print(const char *path, bool is_dwarf, FILE *out, uint64_t *ret_samples,
                         struct err *err)
{
    struct strbuf trace CLEANUP(strbuf_done) = {0};
    struct stacks_tables tables CLEANUP(tables_done) = {0};
    int r = trace_packets_read(path, &trace, trace_symbols_take, &tables.symbols, err);
    if (r < 0)
        return r;
    r = trace_packets_walk(&trace, read_packet, &tables);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    *ret_samples = 0;
    vec_foreach(&tables.events, event) {
        *ret_samples += (*event)->n_samples;
        if (out && (*event)->name.size)
            print_event(*event, is_dwarf, out);
    }
    return 0;
}
