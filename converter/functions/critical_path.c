// SPDX-License-Identifier: Apache-2.0
//
// __intrinsic_wakeup_graph_agg collects nodes: a node is a run of a thread, [ts, ts + dur), with
// the sleep before it, [ts - idle_dur, ts), and the node that woke the thread.
// __intrinsic_critical_path_walk divides the time of each root, from the start of its sleep to the
// end of its run, among the nodes that the root waited for. __intrinsic_critical_path_flat gives
// the same parts in order of time and without gaps: time that belongs to no node belongs to the
// root.
//
// A walk divides a window of time at a node. The part in the run belongs to the node. The part in
// the sleep belongs to the waker, one level deeper. The part before the sleep belongs to the
// thread's previous node. The windows of one node do not overlap.
#include <errno.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/functions/graph.h"

SQLITE_EXTENSION_INIT3

#define VALUE_WAKEUPS "WAKEUP_GRAPH"
// A waker begins to run before the woken thread, so each step of a walk goes back in time. The walk
// ends after this many steps in a row that do not go back, because a trace can have a cycle.
#define EQUAL_STEPS_MAX 64

struct wakeup {
    int64_t utid, ts, dur, idle_dur, waker_id, prev_id;
    bool has_idle, has_waker, has_prev;
};
VEC_DEFINE(wakeup_vec, struct wakeup);

struct wakeups {
    struct map64 index_of; // by id
    struct wakeup_vec nodes;
};

struct window {
    const struct wakeup *node;
    int64_t id; // of the node
    int64_t start, end;
    int64_t depth;
    int equal_steps;
};
VEC_DEFINE(window_vec, struct window);

// A part of a root's time, and the node that it belongs to.
struct blocker {
    const struct wakeup *node;
    int64_t id; // of the node
    int64_t start, end;
    int64_t depth;
};
VEC_DEFINE(blocker_vec, struct blocker);

struct walk {
    const struct wakeups *wakeups;
    const struct wakeup *root;
    int64_t root_id;
    struct window_vec windows;   // a stack
    struct blocker_vec blockers; // of the root
    struct value_table *table;
    bool failed;
};

static void wakeups_free(void *userdata)
{
    struct wakeups *wakeups = userdata;
    map64_done(&wakeups->index_of);
    wakeup_vec_done(&wakeups->nodes);
    free(wakeups);
}

static int wakeup_add(struct wakeups *wakeups, int64_t id, struct wakeup wakeup)
{
    bool is_new;
    uint64_t *index = map64_get_or_add(&wakeups->index_of, (uint64_t)id, wakeups->nodes.n, &is_new);
    if (!index)
        return -ENOMEM;
    if (is_new)
        return wakeup_vec_push(&wakeups->nodes, wakeup);
    wakeups->nodes.items[*index] = wakeup;
    return 0;
}

// SQL arguments: (id, utid, ts, dur, idle_dur, waker_id, prev_id)
static void wakeups_step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    struct wakeups *wakeups = aggregate_get(context, sizeof(*wakeups));
    struct wakeup wakeup = {.utid = sqlite3_value_int64(argv[1]),
                            .ts = sqlite3_value_int64(argv[2]),
                            .dur = sqlite3_value_int64(argv[3]),
                            .idle_dur = sqlite3_value_int64(argv[4]),
                            .waker_id = sqlite3_value_int64(argv[5]),
                            .prev_id = sqlite3_value_int64(argv[6]),
                            .has_idle = sqlite3_value_type(argv[4]) != SQLITE_NULL,
                            .has_waker = sqlite3_value_type(argv[5]) != SQLITE_NULL,
                            .has_prev = sqlite3_value_type(argv[6]) != SQLITE_NULL};
    if (wakeups && wakeup_add(wakeups, sqlite3_value_int64(argv[0]), wakeup) < 0)
        sqlite3_result_error_nomem(context);
}

static void wakeups_final(sqlite3_context *context)
{
    aggregate_result(context, VALUE_WAKEUPS, wakeups_free);
}

static int64_t less(int64_t a, int64_t b)
{
    int64_t ret;
    return __builtin_sub_overflow(a, b, &ret) ? (b > 0 ? INT64_MIN : INT64_MAX) : ret;
}

static int64_t more(int64_t a, int64_t b)
{
    int64_t ret;
    return __builtin_add_overflow(a, b, &ret) ? (b > 0 ? INT64_MAX : INT64_MIN) : ret;
}

static const struct wakeup *wakeup_find(const struct wakeups *wakeups, int64_t id)
{
    const uint64_t *index = map64_find(&wakeups->index_of, (uint64_t)id);
    return index ? &wakeups->nodes.items[*index] : NULL;
}

// Adds a window of the node `id`, seen from the window `from`.
static void window_push(struct walk *walk, const struct window *from, int64_t id, int64_t start,
                        int64_t end, int64_t depth)
{
    const struct wakeup *node = wakeup_find(walk->wakeups, id);
    if (start >= end || !node || node->ts > from->node->ts)
        return;
    int equal_steps = node->ts == from->node->ts ? from->equal_steps + 1 : 0;
    struct window window = {node, id, start, end, depth, equal_steps};
    if (equal_steps <= EQUAL_STEPS_MAX)
        walk->failed |= window_vec_push(&walk->windows, window) < 0;
}

static void blocker_add(struct walk *walk, const struct window *window, int64_t start, int64_t end)
{
    struct blocker blocker = {window->node, window->id, start, end, window->depth};
    walk->failed |= blocker_vec_push(&walk->blockers, blocker) < 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Divides a window. A sleep without a known length lasts as long as the window. The sleep of a node
// that has a previous node, but no waker, belongs to the node itself: the thread waited in the
// kernel.
static void window_look(struct walk *walk, const struct window *window)
{
    const struct wakeup *node = window->node;
    int64_t idle_start = node->has_idle ? less(node->ts, node->idle_dur) : window->start;
    int64_t start = window->start > idle_start ? window->start : idle_start;
    int64_t end = least(window->end, more(node->ts, node->dur));
    if (node->has_prev && window->start < idle_start)
        window_push(walk, window, node->prev_id, window->start, least(window->end, idle_start),
                    window->depth);
    if (start >= end)
        return;
    int64_t idle_end = least(end, node->ts), run_start = start > node->ts ? start : node->ts;
    if (start < idle_end && node->has_waker)
        window_push(walk, window, node->waker_id, start, idle_end, window->depth + 1);
    else if (start < idle_end && node->has_prev)
        blocker_add(walk, window, start, idle_end);
    if (run_start < end)
        blocker_add(walk, window, run_start, end);
}

// Fills walk->blockers with the parts of the root `id`.
static void root_walk(struct walk *walk, int64_t id)
{
    const struct wakeup *root = wakeup_find(walk->wakeups, id);
    blocker_vec_clear(&walk->blockers);
    if (!root)
        return;
    struct window window = {
        root, id, less(root->ts, root->has_idle ? root->idle_dur : 0), more(root->ts, root->dur),
        0,    0};
    walk->root = root;
    walk->root_id = id;
    window_vec_clear(&walk->windows);
    if (window.start < window.end)
        walk->failed |= window_vec_push(&walk->windows, window) < 0;
    while (walk->windows.n && !walk->failed && !walk->table->failed) {
        window = walk->windows.items[--walk->windows.n];
        window_look(walk, &window);
    }
}

static void row_add(struct walk *walk, const int64_t *values, int n)
{
    for (int i = 0; i < n; i++)
        value_table_add_int(walk->table, i, values[i]);
    walk->table->n_rows++;
}

static void blockers_print(struct walk *walk)
{
    vec_foreach(&walk->blockers, it) {
        const int64_t values[] = {
            walk->root_id, it->depth,      it->start,    less(it->end, it->start),
            it->id,        it->node->utid, walk->root_id};
        row_add(walk, values, ELEMENTS(values));
    }
}

static int by_start(const void *a, const void *b)
{
    const struct blocker *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                                : (x->depth > y->depth) - (x->depth < y->depth);
}

static void piece_print(struct walk *walk, int64_t id, int64_t utid, int64_t start, int64_t end)
{
    const int64_t values[] = {walk->root_id, walk->root->utid, id, utid, start, less(end, start)};
    if (start < end)
        row_add(walk, values, ELEMENTS(values));
}

static void pieces_print(struct walk *walk)
{
    size_t n = walk->blockers.n;
    if (n > 1)
        qsort(walk->blockers.items, n, sizeof(*walk->blockers.items), by_start);
    for (size_t i = 0; i < n; i++) {
        const struct blocker *it = &walk->blockers.items[i];
        int64_t next = i + 1 < n ? it[1].start : it->end;
        piece_print(walk, it->id, it->node->utid, it->start, least(it->end, next));
        piece_print(walk, walk->root_id, walk->root->utid, it->end, next);
    }
}

static void walks_run(sqlite3_context *context, sqlite3_value **argv, struct value_table *table,
                      void (*print)(struct walk *walk))
{
    const struct int64_vec *roots = sqlite3_value_pointer(argv[1], VALUE_ARRAY);
    struct walk walk = {.wakeups = sqlite3_value_pointer(argv[0], VALUE_WAKEUPS), .table = table};
    for (size_t i = 0; table && walk.wakeups && roots && i < roots->n; i++) {
        root_walk(&walk, roots->items[i]);
        if (walk.failed || table->failed)
            break;
        print(&walk);
    }
    window_vec_done(&walk.windows);
    blocker_vec_done(&walk.blockers);
    if (table)
        table->failed |= walk.failed;
    value_table_result(context, table);
}

// SQL arguments: (wakeups, ids of the roots)
static void critical_path(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {"root_id",    "depth",        "ts",       "dur",
                                        "blocker_id", "blocker_utid", "parent_id"};
    walks_run(context, argv, value_table_new(ELEMENTS(names), names), blockers_print);
}

// SQL arguments: (wakeups, ids of the roots)
static void critical_path_flat(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    static const char *const names[] = {"root_id", "root_utid", "id", "utid", "ts", "dur"};
    walks_run(context, argv, value_table_new(ELEMENTS(names), names), pieces_print);
}

int critical_path_functions_register(sqlite3 *handle)
{
    static const struct value_function functions[] = {
        {"__intrinsic_wakeup_graph_agg", 7, NULL, wakeups_step, wakeups_final},
        {"__intrinsic_critical_path_walk", 2, critical_path, NULL, NULL},
        {"__intrinsic_critical_path_flat", 2, critical_path_flat, NULL, NULL},
    };
    return value_functions_add(handle, functions, ELEMENTS(functions));
}
