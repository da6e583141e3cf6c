// SPDX-License-Identifier: Apache-2.0
//
// Each track has a stack of slices that may still get children. A slice with a known end stays on
// the stack until an event at or after the end. The depth is limited, because a trace may have
// begins without ends.
#include "converter/import/slices.h"

#include <errno.h>

#include "common/memory.h"
#include "converter/import/stats.h"
#include "converter/import/translations.h"

#define DEPTH_MAX   512
#define DUR_PENDING (-1)

struct open_slice {
    int64_t id, ts, dur, parent, thread_ts, thread_dur, instructions, instruction_delta;
    struct slice_name category, name;
    struct arg_vec args;
    bool has_thread_ts, has_thread_dur, has_instructions, has_instruction_delta;
};
VEC_DEFINE(open_slice_vec, struct open_slice);

struct slice_stack {
    uint32_t track;
    struct open_slice_vec open;
    bool is_awaited;       // see slice_await()
    bool single;           // see slice_spec
    uint32_t n_begins;     // if single: begins so far
    int64_t last_begin_ts; // if single
};

static int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static struct slice_stack *stack_find(const struct slices *slices, uint32_t track)
{
    return track < slices->stacks.n ? slices->stacks.items[track] : NULL;
}

static struct slice_stack *stack_get(struct slices *slices, uint32_t track)
{
    struct slice_stack *stack = stack_find(slices, track);
    if (stack)
        return stack;
    while (slices->stacks.n <= track)
        if (slice_stack_vec_push(&slices->stacks, NULL) < 0)
            return NULL;
    stack = memory_calloc(1, sizeof(*stack));
    if (stack)
        stack->track = track;
    return slices->stacks.items[track] = stack;
}

// Pops the innermost slice and writes it.
static void stack_pop(struct slices *slices, struct slice_stack *stack)
{
    struct open_slice *slice = &stack->open.items[--stack->open.n];
    struct cell *row = database_row_with_id(slices->db, TABLE_slice, slice->id);
    cell_int(row, COL_slice_ts, slice->ts);
    cell_int(row, COL_slice_dur, slice->dur);
    cell_int(row, COL_slice_track_id, stack->track);
    cell_name(row, COL_slice_category, slice->category);
    cell_name(row, COL_slice_name, slice->name);
    cell_int(row, COL_slice_depth, (int64_t)stack->open.n);
    cell_known(row, COL_slice_parent_id, slice->parent);
    if (slice->has_thread_ts)
        cell_int(row, COL_slice_thread_ts, slice->thread_ts);
    if (slice->has_thread_dur)
        cell_int(row, COL_slice_thread_dur, slice->thread_dur);
    if (slice->has_instructions)
        cell_int(row, COL_slice_thread_instruction_count, slice->instructions);
    if (slice->has_instruction_delta)
        cell_int(row, COL_slice_thread_instruction_delta, slice->instruction_delta);
    failure_note(slices->failure, translate_args(slices->translations, &slice->args));
    cell_arg_set(row, COL_slice_arg_set_id,
                 args_add(slices->args, slice->args.items, slice->args.n));
    arg_vec_done(&slice->args);
}

// Pops the slices that are over at `ts`. A slice includes its start and excludes its end; instants
// at the same time nest in each other. Returns the slice in which the new slice would begin but not
// end, or NULL.
static const struct open_slice *stack_close(struct slices *slices, struct slice_stack *stack,
                                            int64_t ts, int64_t dur)
{
    size_t n = stack->open.n;
    bool pending_above = false;
    for (size_t i = n; i-- > 0;) {
        struct open_slice *slice = &stack->open.items[i];
        if (slice->dur == DUR_PENDING) {
            pending_above = true;
            continue;
        }
        int64_t end = wrap_add(slice->ts, slice->dur);
        if (pending_above) {
            if (ts <= end)
                continue;
            // The slice has ended. Open slices in the slice end with the slice.
            stats_add(slices->stats, STAT_misplaced_end_event, 1);
            while (stack->open.n > i + 1) {
                struct open_slice *inner = &stack->open.items[stack->open.n - 1];
                inner->dur = wrap_sub(end, inner->ts);
                stack_pop(slices, stack);
            }
            stack_pop(slices, stack);
            pending_above = false;
            continue;
        }
        if (end < ts || (end == ts && !(slice->dur == 0 && dur == 0)))
            stack_pop(slices, stack);
        else if (dur != DUR_PENDING && ts < end && wrap_add(ts, dur) > end)
            return slice;
    }
    return NULL;
}

static struct slice_name true_name(const struct slices *slices, struct slice_name name)
{
    translate_slice(slices->translations, &name.text, &name.size);
    return name;
}

static int64_t slice_open(struct slices *slices, const struct slice_spec *spec, int64_t dur)
{
    struct slice_stack *stack = stack_get(slices, spec->track);
    if (!stack) {
        failure_note(slices->failure, -ENOMEM);
        return SLICE_NONE;
    }
    if (spec->single) {
        stack->single = true;
        stack->n_begins++;
        stack->last_begin_ts = spec->ts;
        if (stack->open.n)
            return SLICE_NONE;
    }
    const struct open_slice *other = stack_close(slices, stack, spec->ts, dur);
    if (other && spec->overlap) {
        *spec->overlap = (struct slice_overlap){other->name, other->ts, other->dur};
        return SLICE_OVERLAPS;
    }
    if (other) {
        stats_add(slices->stats, STAT_slice_drop_overlapping_complete_event, 1);
        return SLICE_NONE;
    }
    if (stack->open.n >= DEPTH_MAX) {
        stats_add(slices->stats, STAT_slice_max_depth_exceeded, 1);
        return SLICE_NONE;
    }
    struct open_slice slice = {
        .id = database_reserve_id(slices->db, TABLE_slice),
        .ts = spec->ts,
        .dur = dur,
        .parent = stack->open.n ? stack->open.items[stack->open.n - 1].id : SLICE_NONE,
        .category = spec->category,
        .name = true_name(slices, spec->name),
        .has_thread_ts = spec->has_thread_ts,
        .thread_ts = spec->thread_ts,
        .has_instructions = spec->has_instructions,
        .instructions = spec->instructions,
    };
    if (dur != DUR_PENDING) {
        slice.has_thread_dur = spec->thread_dur_is == THREAD_DUR_WITH_TS
                                   ? spec->has_thread_ts
                                   : spec->thread_dur_is == THREAD_DUR_KNOWN;
        slice.thread_dur = spec->thread_dur;
        slice.has_instruction_delta = spec->has_instructions;
        slice.instruction_delta = spec->instruction_delta;
    }
    int r = arg_vec_reserve(&slice.args, spec->n_args);
    for (size_t i = 0; r == 0 && i < spec->n_args; i++)
        r = arg_vec_push(&slice.args, spec->args[i]);
    if (r == 0)
        r = open_slice_vec_push(&stack->open, slice);
    if (r < 0) {
        arg_vec_done(&slice.args);
        failure_note(slices->failure, r);
        return SLICE_NONE;
    }
    bounds_add(&slices->bounds, spec->ts);
    if (stack->is_awaited) {
        stack->is_awaited = false;
        slices->begun(slices->userdata, spec->track, slice.id, spec->ts);
    }
    return slice.id;
}

void slice_await(struct slices *slices, uint32_t track)
{
    struct slice_stack *stack = stack_get(slices, track);
    if (stack)
        stack->is_awaited = true;
    else
        failure_note(slices->failure, -ENOMEM);
}

int64_t slice_begin(struct slices *slices, const struct slice_spec *spec)
{
    return slice_open(slices, spec, DUR_PENDING);
}

int64_t slice_add(struct slices *slices, const struct slice_spec *spec)
{
    if (spec->dur < 0) {
        stats_add(slices->stats, STAT_slice_negative_duration, 1);
        return SLICE_NONE;
    }
    int64_t id = slice_open(slices, spec, spec->dur);
    if (id >= 0)
        bounds_add(&slices->bounds, wrap_add(spec->ts, spec->dur));
    return id;
}

static void args_append(struct slices *slices, struct open_slice *slice, const struct arg *args,
                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        failure_note(slices->failure, arg_vec_push(&slice->args, args[i]));
}

static bool name_fits(struct slice_name wanted, struct slice_name name, bool none_fits)
{
    if (!wanted.text)
        return true;
    if (!name.text)
        return none_fits;
    return wanted.size == name.size && memcmp(wanted.text, name.text, name.size) == 0;
}

// Returns the innermost open slice with the category and name, or NULL.
static struct open_slice *open_find(struct slice_stack *stack, struct slice_name category,
                                    struct slice_name name)
{
    for (size_t i = stack ? stack->open.n : 0; i-- > 0;) {
        struct open_slice *slice = &stack->open.items[i];
        if (slice->dur == DUR_PENDING && name_fits(category, slice->category, false) &&
            name_fits(name, slice->name, true))
            return slice;
    }
    return NULL;
}

int64_t slice_end(struct slices *slices, const struct slice_spec *spec)
{
    int64_t ts;
    return slice_end_of(slices, spec, &ts);
}

int64_t slice_end_of(struct slices *slices, const struct slice_spec *spec, int64_t *ret_ts)
{
    struct slice_stack *stack = stack_find(slices, spec->track);
    if (!stack)
        return SLICE_NONE;
    stack_close(slices, stack, spec->ts, DUR_PENDING);
    struct open_slice *slice = open_find(stack, spec->category, true_name(slices, spec->name));
    if (!slice)
        return SLICE_NONE;
    slice->dur = wrap_sub(spec->ts, slice->ts);
    args_append(slices, slice, spec->args, spec->n_args);
    if (stack->single) {
        struct arg begins[] = {
            arg_int("legacy_unnestable_begin_count", stack->n_begins),
            arg_int("legacy_unnestable_last_begin_ts", stack->last_begin_ts),
        };
        args_append(slices, slice, begins, 2);
    }
    if (slice->has_thread_ts && spec->has_thread_ts) {
        slice->thread_dur = wrap_sub(spec->thread_ts, slice->thread_ts);
        slice->has_thread_dur = slice->thread_dur != 0;
    }
    if (slice->has_instructions && spec->has_instructions) {
        slice->instruction_delta = wrap_sub(spec->instructions, slice->instructions);
        slice->has_instruction_delta = true;
    }
    bounds_add(&slices->bounds, spec->ts);
    int64_t id = slice->id;
    *ret_ts = slice->ts;
    if (slice + 1 == stack->open.items + stack->open.n)
        stack_pop(slices, stack);
    return id;
}

void slice_rename(struct slices *slices, uint32_t track, struct slice_name name)
{
    const struct slice_name any = {0};
    struct open_slice *slice = open_find(stack_find(slices, track), any, any);
    if (slice)
        slice->name = name;
}

void slice_add_args(struct slices *slices, const struct slice_spec *spec)
{
    struct slice_stack *stack = stack_find(slices, spec->track);
    struct open_slice *slice = open_find(stack, spec->category, true_name(slices, spec->name));
    if (slice)
        args_append(slices, slice, spec->args, spec->n_args);
}

const struct arg_vec *slice_open_args(const struct slices *slices, const struct slice_spec *spec)
{
    const struct open_slice *slice =
        open_find(stack_find(slices, spec->track), spec->category, true_name(slices, spec->name));
    return slice ? &slice->args : NULL;
}

int64_t slices_top(const struct slices *slices, uint32_t track, int64_t *ret_ts)
{
    const struct slice_stack *stack = stack_find(slices, track);
    if (!stack || !stack->open.n)
        return SLICE_NONE;
    const struct open_slice *top = &stack->open.items[stack->open.n - 1];
    *ret_ts = top->ts;
    return top->id;
}

void slices_finish(struct slices *slices)
{
    vec_foreach(&slices->stacks, stack) {
        while (*stack && (*stack)->open.n)
            stack_pop(slices, *stack);
    }
}

void slices_done(struct slices *slices)
{
    vec_foreach(&slices->stacks, stack) {
        for (size_t i = 0; *stack && i < (*stack)->open.n; i++)
            arg_vec_done(&(*stack)->open.items[i].args);
        if (*stack)
            open_slice_vec_done(&(*stack)->open);
        free(*stack);
    }
    slice_stack_vec_done(&slices->stacks);
}
