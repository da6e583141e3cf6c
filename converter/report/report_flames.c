// SPDX-License-Identifier: Apache-2.0
//
// A flame graph in JSON has arrays with an element for each node. Parents come before their
// children. Nodes below the least share are left out. The share grows until the other nodes fit, so
// a profile of any size is a small part of the page.
#include "converter/report/report_flames.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "converter/profile/alloc_stacks.h"
#include "converter/profile/call_stacks.h"
#include "converter/report/json_text.h"
#include "converter/tables/statement.h"

#define NODES_MAX  6000
#define LEAST_PART 10000 // a kept node has at least 1/LEAST_PART of the whole
#define DEPTH_MAX  512

// Heaps of the machine ?1: process, heap, bytes that are not freed, allocated bytes. The largest
// heaps come first.
static const char heaps_sql[] =
    "SELECT h.upid, h.heap_name, sum(h.size), sum(max(h.size, 0)), "
    "coalesce(p.name, 'process') || ' (' || coalesce(p.pid, '?') || ')' "
    "FROM heap_profile_allocation h JOIN process p USING (upid) WHERE p.machine_id = ?1 "
    "GROUP BY h.upid, h.heap_name ORDER BY 4 DESC LIMIT 4";
static const char sessions_sql[] =
    "SELECT s.source, coalesce(s.session_id, -1), count(*), "
    "(SELECT c.name FROM perf_counter_track c WHERE c.perf_session_id = s.session_id AND "
    "c.is_timebase LIMIT 1) "
    "FROM _profiler_sample s LEFT JOIN thread t USING (utid) "
    "WHERE s.callsite_id IS NOT NULL AND t.machine_id = ?1 GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 4";

struct flames {
    FILE *out;
    size_t n; // flame graphs that are written
    struct err *err;
};

enum { PARENT, NAME, VALUE, BEFORE, N_ARRAYS };

struct arrays {
    struct strbuf title, names, nodes[N_ARRAYS];
};

static void arrays_done(struct arrays *arrays)
{
    strbuf_done(&arrays->title);
    strbuf_done(&arrays->names);
    for (size_t i = 0; i < N_ARRAYS; i++)
        strbuf_done(&arrays->nodes[i]);
}

// Returns the number of nodes that are at least as wide as `least`.
static size_t nodes_count(const struct flame *flame, int64_t least)
{
    size_t n = 0;
    vec_foreach(&flame->nodes, node)
        n += node->width >= least && node->depth < DEPTH_MAX;
    return n;
}

static int array_write(FILE *out, const char *name, const struct strbuf *array)
{
    fprintf(out, ",\"%s\":[%s]", name, array->text ? array->text : "");
    return array->failed ? -ENOMEM : 0;
}

static int flame_write(struct flames *flames, const struct flame *flame, const char *title,
                       const char *unit)
{
    CLEANUP(arrays_done) struct arrays arrays = {0};
    CLEANUP(freep) uint32_t *ids = calloc(flame->nodes.n + 1, sizeof(*ids));
    CLEANUP(freep) uint32_t *places = calloc(flame->names.n + 1, sizeof(*places));
    const struct flame_node *nodes = flame->nodes.items;
    int64_t least = nodes[0].width / LEAST_PART + 1;
    uint32_t n = 0, n_names = 0;
    if (!ids || !places)
        return err_errno(flames->err, -ENOMEM, "report");
    while (nodes_count(flame, least) > NODES_MAX)
        least *= 2;
    for (size_t i = 0; i < flame->nodes.n; i++) {
        const struct flame_node *node = &nodes[i];
        ids[i] = FLAME_NONE;
        if ((i && (ids[node->parent] == FLAME_NONE || node->width < least)) ||
            node->depth >= DEPTH_MAX)
            continue;
        const char *comma = n ? "," : "";
        if (!places[node->name]) {
            strbuf_add_str(&arrays.names, n_names ? "," : "");
            json_add_text(&arrays.names, strset_text(&flame->names, node->name));
            places[node->name] = ++n_names;
        }
        strbuf_addf(&arrays.nodes[PARENT], "%s%" PRIu32, comma, i ? ids[node->parent] : 0);
        strbuf_addf(&arrays.nodes[NAME], "%s%" PRIu32, comma, places[node->name] - 1);
        strbuf_addf(&arrays.nodes[VALUE], "%s%" PRId64, comma, node->after);
        strbuf_addf(&arrays.nodes[BEFORE], "%s%" PRId64, comma, node->before);
        ids[i] = n++;
    }
    json_add_text(&arrays.title, title);
    fprintf(flames->out, "%s{\"title\":%s,\"unit\":\"%s\"", flames->n++ ? ",\n" : "",
            arrays.title.text ? arrays.title.text : "null", unit);
    int r = arrays.title.failed ? -ENOMEM : array_write(flames->out, "names", &arrays.names);
    if (r == 0)
        r = array_write(flames->out, "parent", &arrays.nodes[PARENT]);
    if (r == 0)
        r = array_write(flames->out, "name", &arrays.nodes[NAME]);
    if (r == 0)
        r = array_write(flames->out, "value", &arrays.nodes[VALUE]);
    if (r == 0 && flame->is_diff)
        r = array_write(flames->out, "before", &arrays.nodes[BEFORE]);
    fputc('}', flames->out);
    return r < 0 ? err_errno(flames->err, r, "report") : 0;
}

static int stacks_failed(const struct report_trace *trace, struct err *err)
{
    return err_set(err, sqlite3_errcode(trace->handle) == SQLITE_NOMEM ? -ENOMEM : -EIO,
                   "report: call stacks: %s", sqlite3_errmsg(trace->handle));
}

static struct call_stacks stacks_of(const struct report_trace *trace, enum call_stacks_kind kind)
{
    return (struct call_stacks){.kind = kind,
                                .before = INT64_MIN,
                                .at = INT64_MAX,
                                .pid = -1,
                                .upid = -1,
                                .machine_id = trace->machine_id,
                                .session_id = -1,
                                .depth_limit = DEPTH_MAX};
}

static int stacks_write(struct flames *flames, const struct report_trace *trace,
                        const struct call_stacks *stacks, const char *title, const char *unit)
{
    CLEANUP(flame_done) struct flame flame = {0};
    if (call_stacks_read(trace->handle, stacks, &flame) != SQLITE_OK)
        return stacks_failed(trace, flames->err);
    flame_finish(&flame);
    return flame.nodes.n && flame.nodes.items[0].width > 0
               ? flame_write(flames, &flame, title, unit)
               : 0;
}

// Writes the heaps: the memory that is not freed. If much was freed, writes all allocations, too.
static int heaps_write(struct flames *flames, const struct report_trace *trace)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int r = 0, code = sqlite3_prepare_v2(trace->handle, heaps_sql, -1, &row, NULL);
    if (code == SQLITE_OK)
        sqlite3_bind_int64(row, 1, trace->machine_id);
    while (row && r == 0 && (code = sqlite3_step(row)) == SQLITE_ROW) {
        CLEANUP(strbuf_done) struct strbuf title = {0};
        struct call_stacks stacks = stacks_of(trace, STACKS_HEAP_BYTES);
        int64_t kept = sqlite3_column_int64(row, 2), all = sqlite3_column_int64(row, 3);
        stacks.upid = sqlite3_column_int64(row, 0);
        stacks.heap = column_text(row, 1);
        strbuf_addf(&title, "%s of %s: allocated and not freed", stacks.heap, column_text(row, 4));
        if (title.failed)
            r = err_errno(flames->err, -ENOMEM, "report");
        else if (kept > 0)
            r = stacks_write(flames, trace, &stacks, title.text, "bytes");
        strbuf_clear(&title);
        strbuf_addf(&title, "%s of %s: all allocations", stacks.heap, column_text(row, 4));
        stacks.total = true;
        if (r == 0 && all > kept + kept / 20)
            r = title.failed ? err_errno(flames->err, -ENOMEM, "report")
                             : stacks_write(flames, trace, &stacks, title.text, "bytes");
    }
    return r < 0 || code == SQLITE_DONE ? r : stacks_failed(trace, flames->err);
}

// Writes the samples of perf by kind of event. These samples have no machine, so only a database of
// one machine is read.
static int events_write(struct flames *flames, const struct report_trace *trace)
{
    static const struct {
        const char *of, *title;
    } kinds[] = {{"cpu", "CPU time: samples"},
                 {"faults", "Page faults: samples"},
                 {"reclaim", "Reclaim and compaction: samples"}};
    int64_t n_machines =
        sql_number(trace->handle, "SELECT count(DISTINCT machine_id) FROM trace_machine", -1);
    if (n_machines != 1)
        return n_machines < 0 ? stacks_failed(trace, flames->err) : 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(kinds); i++) {
        struct call_stacks stacks = stacks_of(trace, STACKS_OF_EVENT);
        stacks.of = kinds[i].of;
        stacks.from = INT64_MIN;
        r = stacks_write(flames, trace, &stacks, kinds[i].title, "times");
    }
    return r;
}

static int sessions_write(struct flames *flames, const struct report_trace *trace)
{
    CLEANUP(statement_finalizep) sqlite3_stmt *row = NULL;
    int r = 0, code = sqlite3_prepare_v2(trace->handle, sessions_sql, -1, &row, NULL);
    if (code == SQLITE_OK)
        sqlite3_bind_int64(row, 1, trace->machine_id);
    while (row && r == 0 && (code = sqlite3_step(row)) == SQLITE_ROW) {
        CLEANUP(strbuf_done) struct strbuf title = {0};
        struct call_stacks stacks = stacks_of(trace, STACKS_SAMPLES);
        const char *event = column_text(row, 3);
        stacks.source = column_text(row, 0);
        stacks.session_id = sqlite3_column_int64(row, 1);
        strbuf_addf(&title, "Samples of %s%s%s", stacks.source, *event ? ": " : "", event);
        r = title.failed ? err_errno(flames->err, -ENOMEM, "report")
                         : stacks_write(flames, trace, &stacks, title.text, "times");
    }
    return r < 0 || code == SQLITE_DONE ? r : stacks_failed(trace, flames->err);
}

// Writes the samples by kind of event. If there are no samples of these kinds, writes the samples
// by session of the profiler.
static int samples_write(struct flames *flames, const struct report_trace *trace)
{
    size_t n = flames->n;
    int r = events_write(flames, trace);
    return r == 0 && flames->n == n ? sessions_write(flames, trace) : r;
}

static int java_write(struct flames *flames, const struct report_trace *trace)
{
    CLEANUP(flame_done) struct flame flame = {0};
    const struct alloc_stacks stacks = {.use_size = true, .depth_limit = DEPTH_MAX};
    if (alloc_stacks_read(trace->handle, &stacks, &flame) != SQLITE_OK)
        return stacks_failed(trace, flames->err);
    flame_finish(&flame);
    return flame.nodes.n && flame.nodes.items[0].width > 0
               ? flame_write(flames, &flame, "Java allocations (log): sampled objects", "bytes")
               : 0;
}

int report_flames_write(const struct report_trace *trace, FILE *out, struct err *err)
{
    struct flames flames = {.out = out, .err = err};
    if (call_stacks_prepare(trace->handle) != SQLITE_OK)
        return stacks_failed(trace, err);
    fputc('[', out);
    int r = heaps_write(&flames, trace);
    if (r == 0)
        r = samples_write(&flames, trace);
    if (r == 0)
        r = java_write(&flames, trace);
    fputc(']', out);
    return r;
}

static int difference_write(struct flames *flames, const struct report_trace *before,
                            const struct report_trace *after, const struct call_stacks *stacks,
                            const char *title, const char *unit)
{
    CLEANUP(flame_done) struct flame flame = {.is_diff = true};
    struct call_stacks one = *stacks;
    one.is_before = one.without_pid = true;
    one.machine_id = before->machine_id;
    if (call_stacks_read(before->handle, &one, &flame) != SQLITE_OK)
        return stacks_failed(before, flames->err);
    size_t n = flame.nodes.n;
    one.is_before = false;
    one.machine_id = after->machine_id;
    if (call_stacks_read(after->handle, &one, &flame) != SQLITE_OK)
        return stacks_failed(after, flames->err);
    if (!n || !flame.nodes.n)
        return 0;
    flame_finish(&flame);
    return flame_write(flames, &flame, title, unit);
}

int report_flames_compare(const struct report_trace *before, const struct report_trace *after,
                          FILE *out, struct err *err)
{
    struct flames flames = {.out = out, .err = err};
    struct call_stacks stacks = stacks_of(before, STACKS_HEAP_BYTES);
    fputc('[', out);
    int r = difference_write(&flames, before, after, &stacks,
                             "Heaps, not freed: B against A (red grew, blue shrank)", "bytes");
    stacks.kind = STACKS_SAMPLES;
    stacks.source = "linux.perf";
    stacks.session_id = 0;
    if (r == 0)
        r = difference_write(&flames, before, after, &stacks,
                             "Samples of linux.perf: B against A (red grew, blue shrank)", "times");
    fputc(']', out);
    return r;
}
