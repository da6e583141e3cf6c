// SPDX-License-Identifier: Apache-2.0
//
// The table is made from the trace file alone, because the file is the result. Each dump has the
// totals since the beginning of the profile. At the beginning of a dump, the totals of the previous
// dump are dropped, so that the totals of the last dump remain. Interned data stay as long as the
// state of the sequence.
//
// The total of a function counts the allocations of the function itself and of the functions that
// it called: each stack once, however often the function occurs in it. The own allocations of a
// function are the stacks that end in the function, or in functions of the standard libraries of
// C++ and Rust that the function has called.
//
// For a program that frees most of its allocations, a second table shows all allocations.
#include "producer/cli/heap_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "common/str.h"
#include "common/vec.h"
#include "common/wire.h"
#include "producer/cli/library_names.h"
#include "producer/cli/trace_stacks.h"
#include "producer/heap/heap_abi.h"
#include "protos/fields.h"

#define ROWS       20
#define ROWS_FEW   3
#define SMALL_PART 100 // a small part is less than 1/100
#define SHOWN_MIN  52  // bytes: 0.05 kB
#define NOBODY     SIZE_MAX

// The line of a function with the most bytes in one stack.
struct row_line {
    struct symbol_line line;
    uint64_t bytes;
};

struct row {
    uint64_t function; // index in names
    struct row_line line, allocated_line;
    uint64_t self, total, self_allocated, allocated;
    uint64_t rank, rank_total; // sort keys
    size_t last_stack;
    bool is_library; // library_names.h
};

VEC_DEFINE(row_vec, struct row);

struct heap_total {
    uint64_t retained, allocated, n_samples;
};
VEC_DEFINE(heap_total_vec, struct heap_total);

struct summary {
    struct trace_symbols symbols;
    struct trace_stacks stacks;
    struct strset names, heaps;
    struct row_vec rows;
    struct heap_total_vec totals; // by heap
    uint32_t heap;                // heap of the present samples
    uint64_t lost_flags;
    size_t n_stacks_seen;
    struct map64 pids;
    bool is_whole; // the dump is complete: the next data belong to another dump
    bool at_max;
};

static void forget_dump(struct summary *s)
{
    row_vec_clear(&s->rows);
    strset_done(&s->names);
    s->names = (struct strset){0};
    strset_done(&s->heaps);
    s->heaps = (struct strset){0};
    heap_total_vec_clear(&s->totals);
    map64_clear(&s->pids);
    s->lost_flags = 0;
    s->is_whole = false;
}

static void summary_done(struct summary *s)
{
    forget_dump(s);
    trace_stacks_done(&s->stacks);
    trace_symbols_done(&s->symbols);
    row_vec_done(&s->rows);
    heap_total_vec_done(&s->totals);
    map64_done(&s->pids);
}

// Returns the id of the function's name. The name of any heap except malloc's follows.
static uint32_t name_of(struct summary *s, const struct stack_place *place)
{
    struct strbuf name CLEANUP(strbuf_done) = {0};
    if (!trace_stacks_name(&s->stacks, place, &name))
        return STRSET_NONE;
    if (!str_eq(strset_text(&s->heaps, s->heap), HEAP_MALLOC_NAME))
        strbuf_addf(&name, " [%s]", strset_text(&s->heaps, s->heap));
    return name.failed ? STRSET_NONE : strset_add(&s->names, name.text, name.size);
}

struct sample {
    uint64_t retained, allocated, n_allocs;
};

static void line_weigh(struct row_line *row, const struct symbol_line *line, uint64_t bytes)
{
    if (bytes > row->bytes)
        *row = (struct row_line){*line, bytes};
}

// Returns whether the name of a row is a function of a standard library. The name ends with the
// file in brackets.
static bool row_is_library(const char *name)
{
    const char *end = strrchr(name, '(');
    struct strbuf function CLEANUP(strbuf_done) = {0};
    if (end && end > name)
        strbuf_add(&function, name, (size_t)(end - name) - (end[-1] == ' '));
    return function.text && !function.failed && library_names_have(function.text);
}

// The functions of a stack, outermost first.
struct added {
    struct summary *summary;
    const struct sample *sample;
    size_t owner; // the row whose own allocation the sample is, as far as the stack was read
};

static int add_to_row(struct added *added, const struct stack_place *place, bool is_leaf)
{
    struct summary *s = added->summary;
    const struct sample *sample = added->sample;
    uint32_t name = name_of(s, place);
    if (name == STRSET_NONE)
        return 0;
    if (name == s->rows.n) {
        bool is_library = row_is_library(strset_text(&s->names, name));
        if (row_vec_push(&s->rows, (struct row){.function = name, .is_library = is_library}) < 0)
            return -ENOMEM;
    }
    struct row *row = &s->rows.items[name];
    line_weigh(&row->line, &place->line, sample->retained);
    line_weigh(&row->allocated_line, &place->line, sample->allocated);
    if (row->last_stack != s->n_stacks_seen) {
        row->last_stack = s->n_stacks_seen;
        row->total += sample->retained;
        row->allocated += sample->allocated;
    }
    if (!row->is_library || added->owner == NOBODY)
        added->owner = name;
    if (is_leaf) {
        s->rows.items[added->owner].self += sample->retained;
        s->rows.items[added->owner].self_allocated += sample->allocated;
    }
    return 0;
}

static int add_place(void *userdata, const struct stack_place *place, bool is_leaf)
{
    return add_to_row(userdata, place, is_leaf);
}

// Adds the sample to the functions of its stack.
static int add_to_rows(struct summary *s, uint64_t callstack, const struct sample *sample)
{
    struct added added = {s, sample, NOBODY};
    s->n_stacks_seen++;
    return trace_stacks_walk(&s->stacks, callstack, add_place, &added);
}

static int read_sample(struct summary *s, const struct wire_field *message)
{
    struct sample sample = {0};
    uint64_t callstack = 0, freed = 0, max = UINT64_MAX;
    message_numbers(
        (struct text){(const char *)message->data, message->size},
        (struct wanted[]){{PB_ProfilePacket_HeapSample_callstack_id, &callstack},
                          {PB_ProfilePacket_HeapSample_self_allocated, &sample.allocated},
                          {PB_ProfilePacket_HeapSample_self_freed, &freed},
                          {PB_ProfilePacket_HeapSample_alloc_count, &sample.n_allocs},
                          {PB_ProfilePacket_HeapSample_self_max, &max},
                          {0}});
    s->at_max |= max != UINT64_MAX;
    if (max != UINT64_MAX)
        sample.allocated = max;
    sample.retained = sample.allocated - freed;
    struct heap_total *total = &s->totals.items[s->heap];
    total->retained += sample.retained;
    total->allocated += sample.allocated;
    total->n_samples += sample.n_allocs;
    return add_to_rows(s, callstack, &sample);
}

static int begin_heap(struct summary *s, struct wire_reader process)
{
    struct wire_field f;
    struct text name = TEXT(HEAP_MALLOC_NAME);
    wire_foreach(&process, &f) {
        if (f.number == PB_ProfilePacket_ProcessHeapSamples_heap_name)
            name = (struct text){(const char *)f.data, f.size};
    }
    s->heap = strset_add(&s->heaps, name.at, name.size);
    if (s->heap == STRSET_NONE)
        return -ENOMEM;
    return s->heap < s->totals.n ? 0 : heap_total_vec_push(&s->totals, (struct heap_total){0});
}

static int read_process(struct summary *s, const struct wire_field *message)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field f;
    uint64_t pid = 0, rejected = 0;
    int r = begin_heap(s, reader);
    while (r == 0 && wire_next(&reader, &f)) {
        if (f.number == PB_ProfilePacket_ProcessHeapSamples_pid)
            pid = f.value;
        else if (f.number == PB_ProfilePacket_ProcessHeapSamples_rejected_concurrent)
            rejected = f.value;
        else if (f.number == PB_ProfilePacket_ProcessHeapSamples_samples)
            r = read_sample(s, &f);
        else if (f.number == PB_ProfilePacket_ProcessHeapSamples_buffer_overran)
            s->lost_flags |= f.value;
    }
    if (r == 0 && !rejected)
        r = map64_set(&s->pids, pid, 1);
    return r;
}

static int read_profile(struct summary *s, const struct wire_field *message)
{
    struct wire_reader reader = wire_sub(message);
    struct wire_field f;
    uint64_t goes_on = 0;
    int r = 0;
    if (s->is_whole)
        forget_dump(s);
    while (r == 0 && wire_next(&reader, &f))
        if (f.number == PB_ProfilePacket_process_dumps)
            r = read_process(s, &f);
        else if (f.number == PB_ProfilePacket_continued)
            goes_on = f.value;
    s->is_whole = !goes_on;
    return r;
}

static int read_packet(void *userdata, struct wire_reader packet)
{
    struct summary *s = userdata;
    struct wire_reader reader = packet;
    struct wire_field f;
    int r = 0;
    wire_foreach(&reader, &f) {
        if (f.number == PB_TracePacket_sequence_flags && (f.value & 1)) {
            forget_dump(s); // an incomplete dump will stay incomplete
            trace_stacks_forget(&s->stacks);
        }
    }
    while (r == 0 && wire_next(&packet, &f)) {
        if (f.number == PB_TracePacket_interned_data)
            r = trace_stacks_read(&s->stacks, &f);
        else if (f.number == PB_TracePacket_profile_packet)
            r = read_profile(s, &f);
    }
    return r;
}

static int by_rank(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return a->rank_total > b->rank_total ? -1 : a->rank_total < b->rank_total;
}

// Sorts by the function's own bytes if they are more than a small part of the whole, then by the
// bytes of the function with all called functions.
static void sort_rows(struct summary *s, bool allocated, uint64_t whole)
{
    vec_foreach(&s->rows, row) {
        uint64_t self = allocated ? row->self_allocated : row->self;
        row->rank = self >= whole / SMALL_PART ? self : 0;
        row->rank_total = allocated ? row->allocated : row->total;
    }
    qsort(s->rows.items, s->rows.n, sizeof(s->rows.items[0]), by_rank);
}

static double kb(uint64_t bytes)
{
    return (double)bytes / 1024;
}

static void print_totals(const struct summary *s, FILE *out)
{
    for (size_t i = 0; i < s->totals.n; i++) {
        const struct heap_total *total = &s->totals.items[i];
        char name[HEAP_NAME_BYTES + 8] = "";
        if (!str_eq(strset_text(&s->heaps, i), HEAP_MALLOC_NAME))
            snprintf(name, sizeof(name), "%s: ", strset_text(&s->heaps, i));
        if (s->at_max)
            fprintf(out, "%sAt its largest: %.1f kB in all", name, kb(total->retained));
        else
            fprintf(out,
                    "%sNot freed: %.1f kB in all, %.1f kB allocated since the beginning, %" PRIu64
                    " samples",
                    name, kb(total->retained), kb(total->allocated), total->n_samples);
        fprintf(out, "%s\n", s->lost_flags ? "; samples were lost" : "");
    }
}

static void print_table(struct summary *s, bool allocated, size_t n, FILE *out)
{
    bool has_third = !allocated && !s->at_max;
    fprintf(out, "%12s %12s", "self kB", "with called");
    fprintf(out, has_third ? " %12s  function\n" : "  function\n", "allocated");
    for (size_t i = 0; i < s->rows.n && i < n; i++) {
        const struct row *row = &s->rows.items[i];
        if ((allocated ? row->allocated : row->total) < SHOWN_MIN)
            continue; // the table would show 0.0
        fprintf(out, "%12.1f %12.1f", kb(allocated ? row->self_allocated : row->self),
                kb(allocated ? row->allocated : row->total));
        fprintf(out, has_third ? " %12.1f  " : "  ", kb(row->allocated));
        const struct strset_entry *name = &s->names.entries[row->function];
        trace_stacks_print(name->text, name->size,
                           allocated ? &row->allocated_line.line : &row->line.line, out);
    }
}

static void print_rows(struct summary *s, FILE *out)
{
    uint64_t retained = 0, allocated = 0;
    print_totals(s, out);
    if (s->rows.n == 0)
        return;
    vec_foreach(&s->totals, total) {
        retained += total->retained;
        allocated += total->allocated;
    }
    bool nearly_all_is_freed = retained < allocated / SMALL_PART;
    sort_rows(s, false, retained);
    print_table(s, false, nearly_all_is_freed ? ROWS_FEW : ROWS, out);
    if (retained < allocated / 2) {
        sort_rows(s, true, allocated);
        fputs("Allocated, most of it freed again (--dump-at-max shows the moment when most was "
              "allocated):\n",
              out);
        print_table(s, true, nearly_all_is_freed ? ROWS : ROWS / 2, out);
    }
}

int heap_summary_print(const char *path, FILE *out, size_t *ret_processes, struct err *err)
{
    struct strbuf trace CLEANUP(strbuf_done) = {0};
    struct summary s CLEANUP(summary_done) = {0};
    s.stacks.symbols = &s.symbols;
    int r = trace_packets_read(path, &trace, trace_symbols_take, &s.symbols, err);
    if (r < 0)
        return r;
    r = trace_packets_walk(&trace, read_packet, &s);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    *ret_processes = s.pids.n;
    if (out && s.pids.n > 0)
        print_rows(&s, out);
    return 0;
}
