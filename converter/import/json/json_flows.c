// SPDX-License-Identifier: Apache-2.0
//
// See json_flows.h. A flow is a chain of slices. Memory holds the last slice of each flow.
#include "converter/import/json/json_flows.h"

struct json_flow json_flow_of(struct import *im, struct json_flows *flows, uint64_t id,
                              struct slice_name category, struct slice_name name)
{
    const struct arg args[] = {arg_name("name", name), arg_name("cat", category)};
    const struct json_flow none = {0, ARG_SET_NONE};
    strbuf_clear(&flows->key);
    strbuf_add(&flows->key, &id, sizeof(id));
    strbuf_add(&flows->key, category.text ? category.text : "", category.size);
    strbuf_add_char(&flows->key, '\0');
    strbuf_add(&flows->key, name.text ? name.text : "", name.size);
    if (!import_strbuf_whole(im, &flows->key))
        return none;
    bool is_new;
    int64_t flow = import_set_add(im, &flows->ids, flows->key.text, flows->key.size, &is_new);
    if (flow < 0)
        return none;
    if (is_new)
        import_fail(im,
                    json_flow_sets_push(&flows->sets, args_add(&im->args, args, ELEMENTS(args))));
    bool is_whole = (uint64_t)flow < flows->sets.n;
    return (struct json_flow){(uint64_t)flow, is_whole ? flows->sets.items[flow] : ARG_SET_NONE};
}

static void flow_write(struct import *im, struct json_flow flow, int64_t from, int64_t to)
{
    struct cell *row = database_row(im->db, TABLE_flow, NULL);
    cell_int(row, COL_flow_slice_out, from);
    cell_int(row, COL_flow_slice_in, to);
    cell_int(row, COL_flow_trace_id, (int64_t)flow.number);
    cell_arg_set(row, COL_flow_arg_set_id, flow.set);
}

void json_flow_through(struct import *im, struct json_flows *flows, struct json_flow flow,
                       int64_t slice, int64_t ts, enum json_flow_use use)
{
    const uint64_t *index = map64_find(&flows->last, flow.number);
    struct json_flow_end to = {slice, ts};
    if (slice == SLICE_NONE) {
        stats_add(&im->stats, STAT_flow_no_enclosing_slice, 1);
    } else if (use == JSON_FLOW_BEGIN && index) {
        stats_add(&im->stats, STAT_flow_duplicate_id, 1);
    } else if (use == JSON_FLOW_BEGIN) {
        import_fail(im, json_flow_ends_push(&flows->ends, to));
        import_map_set(im, &flows->last, flow.number, flows->ends.n - 1);
    } else if (!index) {
        stats_add(
            &im->stats,
            use == JSON_FLOW_STEP ? STAT_flow_step_without_start : STAT_flow_end_without_start, 1);
    } else {
        struct json_flow_end *from = &flows->ends.items[*index];
        bool is_forward = from->ts <= ts;
        flow_write(im, flow, is_forward ? from->slice : slice, is_forward ? slice : from->slice);
        if (use == JSON_FLOW_STEP)
            *from = to;
    }
}

void json_flow_await(struct import *im, struct json_flows *flows, struct json_flow flow,
                     uint32_t track)
{
    struct json_flow_wait wait = {.flow = flow};
    bool is_new;
    uint64_t *first = import_map_get(im, &flows->waiting, track, 0, &is_new);
    if (!first)
        return;
    wait.next = *first;
    import_fail(im, json_flow_waits_push(&flows->waits, wait));
    *first = flows->waits.n;
}

void json_flow_slice(struct import *im, struct json_flows *flows, uint32_t track, int64_t slice)
{
    if (!flows->waits.n)
        return;
    uint64_t *first = map64_find(&flows->waiting, track);
    uint64_t next = first ? *first : 0, before = 0;
    if (first)
        *first = 0;
    while (next) { // reverses the chain, which begins with the newest flow
        struct json_flow_wait *wait = &flows->waits.items[next - 1];
        uint64_t following = wait->next;
        wait->next = before;
        before = next;
        next = following;
    }
    for (next = before; next; next = flows->waits.items[next - 1].next) {
        struct json_flow flow = flows->waits.items[next - 1].flow;
        const uint64_t *index = map64_find(&flows->last, flow.number);
        if (index)
            flow_write(im, flow, flows->ends.items[*index].slice, slice);
        else
            stats_add(&im->stats, STAT_flow_end_without_start, 1);
    }
}

void json_flows_done(struct json_flows *flows)
{
    map64_done(&flows->last);
    json_flow_ends_done(&flows->ends);
    strset_done(&flows->ids);
    json_flow_sets_done(&flows->sets);
    map64_done(&flows->waiting);
    json_flow_waits_done(&flows->waits);
    strbuf_done(&flows->key);
}
