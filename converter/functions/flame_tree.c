// SPDX-License-Identifier: Apache-2.0
//
// The steps from rows to lines:
//
// 1. Frames. Rows with the same name and the same grouping columns are the same frame, which gets a
//    number. Patterns are matched once for each frame.
// 2. Stacks. Each row knows the row that keeps its weight: itself, or its nearest ancestor that no
//    filter removes. A mask has the filters that the stack up to the row satisfies.
// 3. Nodes. A path of frames from a root is a node. Nodes of the way down come first, then nodes of
//    the way up. In both parts, a parent comes before its children.
// 4. Sums. The weights go into the nodes, and from the last node to the first into the parents.
// 5. Lines. Nodes without a weight are left out; siblings are drawn from the widest to the
//    narrowest.
//
// For each row, the way up can be as long as the tree is deep. Therefore the number of steps has a
// limit.
#include "converter/functions/flame_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "converter/functions/regex.h"

SQLITE_EXTENSION_INIT3

#define ROOT_DOWN NO_NODE
#define ROOT_UP   (NO_NODE - 1)
#define STEPS_MAX 32000000
#define HIDDEN    (UINT64_C(1) << 63)

struct frame {
    uint64_t shows; // a bit for each filter of the kind that matches
    bool hides_stack, hides_frame, is_view;
};
VEC_DEFINE(frame_vec, struct frame);

struct stack {
    uint64_t mask; // filters that are satisfied; HIDDEN: never
    uint32_t kept; // the row that keeps the weight; NO_NODE: none
    uint32_t frame;
    uint32_t depth; // rows on the way up
};

struct builder {
    struct flame_tree *flame;
    const struct flame_source *source;
    const struct flame_query *query;
    uint32_t n;
    uint64_t all_shows;
    struct strset frame_ids;
    struct frame_vec frames;
    struct stack *stacks;        // owned; by row
    uint32_t *down;              // owned; the node of each row; NO_NODE: none
    uint32_t *up_root, *up_leaf; // owned; by row: the two ends of its way up; NO_NODE: none
    struct map64 node_of;        // by parent and frame
    bool has_parts, failed;
};

static void *array_new(struct builder *b, size_t n, size_t size)
{
    void *array = calloc(n + 1, size);
    b->failed |= !array;
    return array;
}

static uint32_t *rows_new(struct builder *b, size_t n)
{
    uint32_t *rows = array_new(b, n, sizeof(*rows));
    for (size_t i = 0; rows && i < n; i++)
        rows[i] = NO_NODE;
    return rows;
}

static uint32_t parent_of(const struct builder *b, uint32_t row)
{
    const struct tree *tree = b->source->tree;
    uint32_t parent = tree->parent[tree->order[row]];
    return parent == NO_NODE ? NO_NODE : tree->place[parent];
}

// -- frames and patterns --

static void text_match(const struct builder *b, const char *text, size_t size, struct frame *frame)
{
    int n_shows = 0;
    if (b->query->view_pattern)
        frame->is_view |= regex_find(b->query->view_pattern, text, size, 0, NULL);
    for (int i = 0; i < b->query->n_filters; i++) {
        const struct flame_filter *filter = &b->query->filters[i];
        bool matches = regex_find(filter->regex, text, size, 0, NULL);
        if (filter->kind == FLAME_SHOW_STACK)
            frame->shows |= (uint64_t)matches << n_shows++;
        frame->hides_stack |= matches && filter->kind == FLAME_HIDE_STACK;
        frame->hides_frame |= matches && filter->kind == FLAME_HIDE_FRAME;
    }
}

static void cell_match(const struct builder *b, const struct cell *cell, struct frame *frame)
{
    char number[40];
    if (cell->kind == CELL_NULL)
        return;
    if (cell->kind == CELL_TEXT) {
        const struct strset_entry *text = &b->source->tree->rows.texts.set.entries[cell->text];
        text_match(b, text->text, text->size, frame);
        return;
    }
    if (cell->kind == CELL_INT)
        snprintf(number, sizeof(number), "%" PRId64, cell->integer);
    else
        snprintf(number, sizeof(number), "%.15g", cell->real);
    text_match(b, number, strlen(number), frame);
}

// Returns the columns that make a frame: the name first.
static int frame_columns(const struct flame_query *query, int ret[FLAME_NAMES_MAX + 1])
{
    int n = 0;
    ret[n++] = 2;
    for (int i = 0; i < query->n_names; i++)
        if (query->names[i].role == FLAME_GROUPING)
            ret[n++] = query->names[i].column;
    return n;
}

static uint32_t frame_of(struct builder *b, uint32_t row, const int *columns, int n_columns)
{
    struct {
        uint64_t kind, bits;
    } key[FLAME_NAMES_MAX + 1] = {{0}};
    for (int i = 0; i < n_columns; i++) {
        const struct cell *cell = flame_cell(b->source, row, columns[i]);
        key[i].kind = cell->kind;
        key[i].bits = cell->kind == CELL_TEXT   ? cell->text
                      : cell->kind == CELL_NULL ? 0
                                                : (uint64_t)cell->integer;
    }
    uint32_t id = strset_add(&b->frame_ids, (const char *)key, (size_t)n_columns * sizeof(key[0]));
    if (id == STRSET_NONE || id < b->frames.n) {
        b->failed |= id == STRSET_NONE;
        return id;
    }
    struct frame frame = {0};
    for (int i = 0; i < n_columns; i++)
        cell_match(b, flame_cell(b->source, row, columns[i]), &frame);
    b->failed |= frame_vec_push(&b->frames, frame) < 0;
    return id;
}

static void stacks_make(struct builder *b)
{
    int columns[FLAME_NAMES_MAX + 1], n_columns = frame_columns(b->query, columns);
    b->stacks = array_new(b, b->n, sizeof(*b->stacks));
    for (uint32_t row = 0; row < b->n && !b->failed; row++) {
        uint32_t parent = parent_of(b, row), id = frame_of(b, row, columns, n_columns);
        if (b->failed)
            return;
        const struct frame *frame = &b->frames.items[id];
        struct stack above =
            parent == NO_NODE ? (struct stack){.kept = NO_NODE} : b->stacks[parent];
        b->stacks[row] = (struct stack){
            .mask = frame->hides_frame   ? above.mask
                    : frame->hides_stack ? HIDDEN
                                         : above.mask | frame->shows,
            .kept = frame->hides_frame ? above.kept : row,
            .frame = id,
            .depth = above.depth + !frame->hides_frame,
        };
    }
}

static bool is_kept(const struct builder *b, uint32_t row)
{
    return b->stacks[row].kept == row;
}

static bool counts(const struct builder *b, uint32_t row)
{
    return b->stacks[row].kept != NO_NODE && b->stacks[row].mask == b->all_shows;
}

static bool is_view(const struct builder *b, uint32_t row)
{
    return is_kept(b, row) && b->frames.items[b->stacks[row].frame].is_view;
}

// -- nodes --

static uint32_t node_get(struct builder *b, uint32_t parent, uint32_t row)
{
    struct flame_node_vec *nodes = &b->flame->nodes;
    bool is_new = false;
    uint64_t key = (uint64_t)parent << 32 | b->stacks[row].frame;
    uint64_t *found = map64_get_or_add(&b->node_of, key, nodes->n, &is_new);
    if (!found || nodes->n >= ROOT_UP) {
        b->failed = true;
        return NO_NODE;
    }
    uint32_t id = (uint32_t)*found;
    bool is_root = parent == ROOT_DOWN || parent == ROOT_UP;
    struct flame_node node = {.parent = is_root ? NO_NODE : parent, .row = row};
    if (is_root)
        node.depth = parent == ROOT_DOWN ? 1 : -1;
    else
        node.depth = nodes->items[parent].depth + (nodes->items[parent].depth > 0 ? 1 : -1);
    if (is_new)
        b->failed |= flame_node_vec_push(nodes, node) < 0;
    return id;
}

static void nodes_down(struct builder *b)
{
    bool from_top = b->query->view == FLAME_TOP_DOWN;
    b->down = rows_new(b, b->n);
    for (uint32_t row = 0; row < b->n && !b->failed && b->query->view != FLAME_BOTTOM_UP; row++) {
        uint32_t parent = parent_of(b, row);
        uint32_t above = parent == NO_NODE ? NO_NODE : b->down[parent];
        bool is_root = is_view(b, row) ||
                       (from_top && (parent == NO_NODE || b->stacks[parent].kept == NO_NODE));
        if (!is_kept(b, row))
            b->down[row] = above;
        else if (is_root || above != NO_NODE)
            b->down[row] = node_get(b, is_root ? ROOT_DOWN : above, row);
    }
}

static void part_add(struct builder *b, uint32_t node, uint32_t row)
{
    if (b->has_parts && !b->failed)
        b->failed |= flame_part_vec_push(&b->flame->parts, (struct flame_part){node, row}) < 0;
}

static void way_up(struct builder *b, uint32_t start, bool makes_parts)
{
    uint32_t node = ROOT_UP, row = start;
    while (row != NO_NODE && !b->failed) {
        node = node_get(b, node, row);
        if (row == start)
            b->up_root[start] = node;
        if (makes_parts)
            part_add(b, node, row);
        uint32_t parent = parent_of(b, row);
        row = parent == NO_NODE ? NO_NODE : b->stacks[parent].kept;
    }
    b->up_leaf[start] = node;
}

static bool number_is_zero(enum cell_kind kind, union flame_number number)
{
    return kind == CELL_INT ? number.integer == 0 : !(number.real < 0 || number.real > 0);
}

// Reads the weight of a row. An integer of a column of reals becomes a real. Returns false for
// NULL.
static bool weight_of(const struct builder *b, uint32_t row, int column, union flame_number *ret)
{
    const struct cell *cell = flame_cell(b->source, row, column);
    if (cell->kind == CELL_NULL)
        return false;
    if (b->source->kinds[column] == CELL_INT)
        ret->integer = cell->integer;
    else
        ret->real = cell->kind == CELL_INT ? (double)cell->integer : cell->real;
    return true;
}

static const char *weights_check(const struct builder *b, int column)
{
    union flame_number weight;
    enum cell_kind kind = b->source->kinds[column];
    for (uint32_t row = 0; row < b->n; row++)
        if (weight_of(b, row, column, &weight) &&
            (kind == CELL_INT ? weight.integer < 0 : !(weight.real >= 0)))
            return "flamegraph: value columns must be non-negative: a row has a negative value";
    return NULL;
}

// Marks the rows at which a way up starts.
static void starts_mark(const struct builder *b, bool *starts)
{
    for (uint32_t row = 0; row < b->n && b->query->view == FLAME_PIVOT; row++)
        starts[row] = is_view(b, row);
    for (int i = 0; i < b->flame->n_values && b->query->view == FLAME_BOTTOM_UP; i++)
        for (uint32_t row = 0; row < b->n; row++) {
            union flame_number weight;
            int column = b->flame->value_columns[i];
            if (counts(b, row) && weight_of(b, row, column, &weight) &&
                !number_is_zero(b->source->kinds[column], weight))
                starts[b->stacks[row].kept] = true;
        }
}

static const char *nodes_up(struct builder *b)
{
    b->up_root = rows_new(b, b->n);
    b->up_leaf = rows_new(b, b->n);
    CLEANUP(freep) bool *starts = array_new(b, b->n, sizeof(*starts));
    if (b->failed)
        return NULL;
    starts_mark(b, starts);
    uint64_t n_steps = 0;
    for (uint32_t row = 0; row < b->n; row++)
        n_steps += starts[row] ? b->stacks[row].depth : 0;
    if (n_steps > STEPS_MAX)
        return "flamegraph: the ways up have more than 32 million frames in all";
    for (uint32_t row = 0; row < b->n && !b->failed; row++)
        if (starts[row])
            way_up(b, row, counts(b, row));
    return NULL;
}

// -- sums; functions return false if an integer is too large --

static bool number_add(enum cell_kind kind, union flame_number *to, union flame_number number)
{
    if (kind == CELL_INT)
        return !__builtin_add_overflow(to->integer, number.integer, &to->integer);
    to->real += number.real;
    return true;
}

struct sum {
    enum cell_kind kind;
    int column;
    union flame_number *self, *all;
};

static bool sum_down(const struct builder *b, const struct sum *sum)
{
    union flame_number weight;
    bool fits = true;
    for (uint32_t row = 0; row < b->n && fits; row++)
        if (b->down[row] != NO_NODE && counts(b, row) && weight_of(b, row, sum->column, &weight))
            fits = number_add(sum->kind, &sum->self[b->down[row]], weight) &&
                   number_add(sum->kind, &sum->all[b->down[row]], weight);
    return fits;
}

static bool sum_up_from(const struct builder *b, const struct sum *sum, uint32_t row,
                        union flame_number weight)
{
    return number_add(sum->kind, &sum->self[b->up_root[row]], weight) &&
           number_add(sum->kind, &sum->all[b->up_leaf[row]], weight);
}

static bool sum_bottom_up(const struct builder *b, const struct sum *sum)
{
    union flame_number weight;
    bool fits = true;
    for (uint32_t row = 0; row < b->n && fits; row++)
        if (counts(b, row) && weight_of(b, row, sum->column, &weight) &&
            !number_is_zero(sum->kind, weight))
            fits = sum_up_from(b, sum, b->stacks[row].kept, weight);
    return fits;
}

// The nodes above a row that matches get the weight of the row and of the rows below, down to the
// next rows that match.
static bool sum_pivot(struct builder *b, const struct sum *sum)
{
    union flame_number weight;
    bool fits = true;
    CLEANUP(freep) union flame_number *below = array_new(b, b->n, sizeof(*below));
    if (!below)
        return true;
    for (uint32_t row = 0; row < b->n && fits; row++)
        if (b->down[row] != NO_NODE && counts(b, row) && weight_of(b, row, sum->column, &weight))
            fits = number_add(sum->kind, &below[b->stacks[row].kept], weight);
    for (uint32_t row = b->n; row-- > 0 && fits;)
        if (is_kept(b, row) && b->down[row] != NO_NODE &&
            b->flame->nodes.items[b->down[row]].parent != NO_NODE)
            fits = number_add(sum->kind, &below[b->stacks[parent_of(b, row)].kept], below[row]);
    for (uint32_t row = 0; row < b->n && fits; row++)
        if (b->up_root[row] != NO_NODE)
            fits = sum_up_from(b, sum, row, below[row]);
    return fits;
}

static bool sums_make(struct builder *b, int value)
{
    struct flame_tree *flame = b->flame;
    size_t n = flame->nodes.n;
    int column = flame->value_columns[value];
    flame->self[value] = array_new(b, n, sizeof(union flame_number));
    flame->sums[value] = array_new(b, n, sizeof(union flame_number));
    struct sum sum = {b->source->kinds[column], column, flame->self[value], flame->sums[value]};
    bool fits = b->failed || sum_down(b, &sum);
    if (fits && !b->failed && b->query->view == FLAME_BOTTOM_UP)
        fits = sum_bottom_up(b, &sum);
    if (fits && !b->failed && b->query->view == FLAME_PIVOT)
        fits = sum_pivot(b, &sum);
    for (size_t i = n; i-- > 0 && fits && !b->failed;) {
        uint32_t parent = flame->nodes.items[i].parent;
        if (parent != NO_NODE)
            fits = number_add(sum.kind, &sum.all[parent], sum.all[i]);
    }
    return fits;
}

// Makes the input of aggregates: the rows that count for a row, and the rows of each node.
static void parts_make(struct builder *b)
{
    struct flame_tree *flame = b->flame;
    if (!b->has_parts)
        return;
    flame->first_row = rows_new(b, b->n);
    flame->next_row = rows_new(b, b->n);
    for (uint32_t row = b->n; row-- > 0 && !b->failed;) {
        uint32_t kept = b->stacks[row].kept;
        if (kept == NO_NODE || (b->stacks[row].mask & HIDDEN))
            continue;
        flame->next_row[row] = flame->first_row[kept];
        flame->first_row[kept] = row;
    }
    for (uint32_t row = 0; row < b->n && !b->failed; row++)
        if (is_kept(b, row) && b->down[row] != NO_NODE && counts(b, row))
            part_add(b, b->down[row], row);
    size_t n = flame->nodes.n, n_parts = flame->parts.n;
    flame->first_part = array_new(b, n + 1, sizeof(*flame->first_part));
    CLEANUP(freep) struct flame_part *sorted = array_new(b, n_parts, sizeof(*sorted));
    if (b->failed)
        return;
    vec_foreach(&flame->parts, part)
        flame->first_part[part->node + 1]++;
    for (size_t i = 0; i < n; i++)
        flame->first_part[i + 1] += flame->first_part[i];
    vec_foreach(&flame->parts, part)
        sorted[flame->first_part[part->node]++] = *part;
    memmove(flame->first_part + 1, flame->first_part, n * sizeof(*flame->first_part));
    flame->first_part[0] = 0;
    if (n_parts)
        memcpy(flame->parts.items, sorted, n_parts * sizeof(*sorted));
}

// -- lines --

static double width_of(const struct flame_tree *flame, uint32_t node)
{
    union flame_number sum = flame->sums[0][node];
    return flame->source->kinds[flame->value_columns[0]] == CELL_INT ? (double)sum.integer
                                                                     : sum.real;
}

struct wide {
    double width;
    uint32_t node;
};

static int wide_compare(const void *a, const void *b)
{
    const struct wide *first = a, *second = b;
    if (first->width > second->width || first->width < second->width)
        return first->width > second->width ? -1 : 1;
    return first->node < second->node ? -1 : first->node > second->node;
}

struct layout {
    struct wide *by_width; // owned; the nodes with a weight
    size_t n;
    uint32_t *first_child; // owned; by node, and the end after the last node
    uint32_t *children;    // owned; in order of width
};

static void layout_done(struct layout *layout)
{
    free(layout->by_width);
    free(layout->first_child);
    free(layout->children);
}

static bool node_has_weight(const struct flame_tree *flame, uint32_t node)
{
    for (int i = 0; i < flame->n_values; i++)
        if (!number_is_zero(flame->source->kinds[flame->value_columns[i]], flame->sums[i][node]))
            return true;
    return false;
}

static void layout_make(struct builder *b, struct layout *layout)
{
    struct flame_tree *flame = b->flame;
    size_t n = flame->nodes.n;
    layout->by_width = array_new(b, n, sizeof(*layout->by_width));
    layout->first_child = array_new(b, n + 1, sizeof(*layout->first_child));
    layout->children = array_new(b, n, sizeof(*layout->children));
    if (b->failed)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (node_has_weight(flame, i))
            layout->by_width[layout->n++] = (struct wide){width_of(flame, i), i};
    qsort(layout->by_width, layout->n, sizeof(*layout->by_width), wide_compare);
    for (size_t i = 0; i < layout->n; i++) {
        uint32_t parent = flame->nodes.items[layout->by_width[i].node].parent;
        if (parent != NO_NODE)
            layout->first_child[parent + 1]++;
    }
    for (size_t i = 0; i < n; i++)
        layout->first_child[i + 1] += layout->first_child[i];
    for (size_t i = 0; i < layout->n; i++) {
        uint32_t node = layout->by_width[i].node, parent = flame->nodes.items[node].parent;
        if (parent != NO_NODE)
            layout->children[layout->first_child[parent]++] = node;
    }
    memmove(layout->first_child + 1, layout->first_child, n * sizeof(*layout->first_child));
    layout->first_child[0] = 0;
}

static void line_add(struct flame_tree *flame, uint32_t node, uint32_t parent, double x)
{
    flame->lines[flame->n_lines++] = (struct flame_line){node, parent, x};
}

// Draws the roots from left to right. The roots of the way down and the roots of the way up both
// begin at 0.
static void roots_draw(struct flame_tree *flame, const struct layout *layout)
{
    size_t at[2] = {0, 0};
    double x[2] = {0, 0};
    for (;;) {
        for (int up = 0; up < 2; up++)
            for (; at[up] < layout->n; at[up]++) {
                const struct flame_node *node = &flame->nodes.items[layout->by_width[at[up]].node];
                if (node->parent == NO_NODE && (node->depth < 0) == (up == 1))
                    break;
            }
        if (at[0] == layout->n && at[1] == layout->n)
            return;
        int next = at[0] == layout->n || (at[1] < layout->n && x[1] < x[0]) ? 1 : 0;
        const struct wide *wide = &layout->by_width[at[next]++];
        line_add(flame, wide->node, NO_NODE, x[next]);
        x[next] += wide->width;
    }
}

static void lines_make(struct builder *b)
{
    struct flame_tree *flame = b->flame;
    CLEANUP(layout_done) struct layout layout = {0};
    layout_make(b, &layout);
    flame->lines = array_new(b, layout.n, sizeof(*flame->lines));
    if (b->failed)
        return;
    roots_draw(flame, &layout);
    for (size_t i = 0; i < flame->n_lines; i++) {
        uint32_t node = flame->lines[i].node;
        double x = flame->lines[i].x;
        for (uint32_t j = layout.first_child[node]; j < layout.first_child[node + 1]; j++) {
            line_add(flame, layout.children[j], (uint32_t)i, x);
            x += width_of(flame, layout.children[j]);
        }
    }
}

static const char *sums_and_lines(struct builder *b)
{
    for (int i = 0; i < b->flame->n_values && !b->failed; i++)
        if (!sums_make(b, i))
            return "flamegraph: integer value overflow: the sum does not fit 64 bits";
    if (!b->failed)
        parts_make(b);
    if (!b->failed)
        lines_make(b);
    return NULL;
}

static const char *build(struct builder *b)
{
    for (int i = 0; i < b->flame->n_values; i++) {
        const char *why = weights_check(b, b->flame->value_columns[i]);
        if (why)
            return why;
    }
    stacks_make(b);
    if (!b->failed)
        nodes_down(b);
    const char *why = b->failed ? NULL : nodes_up(b);
    return why || b->failed ? why : sums_and_lines(b);
}

const char *flame_tree_build(struct flame_tree *flame, const struct flame_source *source,
                             struct flame_query *query, bool *ret_failed)
{
    struct builder b = {.flame = flame, .source = source, .query = query, .n = source->tree->n};
    int n_shows = 0;
    flame->source = source;
    for (int i = 0; i < query->n_filters; i++)
        n_shows += query->filters[i].kind == FLAME_SHOW_STACK;
    b.all_shows = (UINT64_C(1) << n_shows) - 1;
    for (int i = 0; i < query->n_names; i++) {
        if (query->names[i].role == FLAME_VALUE)
            flame->value_columns[flame->n_values++] = query->names[i].column;
        b.has_parts |= query->names[i].role > FLAME_VALUE;
    }
    const char *why = build(&b);
    strset_done(&b.frame_ids);
    frame_vec_done(&b.frames);
    map64_done(&b.node_of);
    free(b.stacks);
    free(b.down);
    free(b.up_root);
    free(b.up_leaf);
    *ret_failed = b.failed;
    return why;
}

void flame_tree_done(struct flame_tree *flame)
{
    for (int i = 0; i < flame->n_values; i++) {
        free(flame->self[i]);
        free(flame->sums[i]);
    }
    flame_node_vec_done(&flame->nodes);
    flame_part_vec_done(&flame->parts);
    free(flame->first_part);
    free(flame->first_row);
    free(flame->next_row);
    free(flame->lines);
    *flame = (struct flame_tree){0};
}

// -- aggregates --

static void sum_result(sqlite3_context *context, bool has, enum cell_kind kind,
                       union flame_number sum)
{
    if (has && kind == CELL_INT)
        sqlite3_result_int64(context, sum.integer);
    else if (has)
        sqlite3_result_double(context, sum.real);
}

static void cell_append(const struct flame_tree *flame, const struct cell *cell, sqlite3_str *text)
{
    if (cell->kind == CELL_TEXT)
        sqlite3_str_appendall(text, flame->source->tree->rows.texts.set.entries[cell->text].text);
    else if (cell->kind == CELL_INT)
        sqlite3_str_appendf(text, "%lld", (long long)cell->integer);
    else
        sqlite3_str_appendf(text, "%!.15g", cell->real);
}

struct aggregate {
    union flame_number sum;
    const struct cell *first; // NULL: no row has a value
    struct map64 different;   // the values, if there are several
    sqlite3_str *text;
    bool fits, failed;
};

static void aggregate_add(const struct flame_tree *flame, struct aggregate *all,
                          enum flame_role role, enum cell_kind kind, const struct cell *cell)
{
    union flame_number number = {.integer = cell->integer};
    if (kind == CELL_REAL)
        number.real = cell->kind == CELL_INT ? (double)cell->integer : cell->real;
    if (role == FLAME_SUM)
        all->fits &= number_add(kind, &all->sum, number);
    if (role == FLAME_ONE) {
        uint64_t key = cell->kind == CELL_TEXT ? cell->text : (uint64_t)number.integer;
        all->failed |= map64_set(&all->different, key, 1) < 0;
    }
    if (role == FLAME_CONCAT) {
        if (all->first)
            sqlite3_str_appendall(all->text, ",");
        cell_append(flame, cell, all->text);
    }
    if (!all->first)
        all->first = cell;
}

void flame_tree_aggregate(const struct flame_tree *flame, uint32_t node, enum flame_role role,
                          int column, sqlite3_context *context)
{
    struct aggregate all = {.fits = true, .text = sqlite3_str_new(NULL)};
    enum cell_kind kind = flame->source->kinds[column];
    for (uint32_t i = flame->first_part[node]; i < flame->first_part[node + 1]; i++)
        for (uint32_t row = flame->first_row[flame->parts.items[i].row]; row != NO_NODE;
             row = flame->next_row[row]) {
            const struct cell *cell = flame_cell(flame->source, row, column);
            if (cell->kind != CELL_NULL)
                aggregate_add(flame, &all, role, kind, cell);
        }
    if (role == FLAME_ONE && all.first) {
        cell_append(flame, all.first, all.text);
        if (all.different.n > 1)
            sqlite3_str_appendf(all.text, " and %llu others", (unsigned long long)all.different.n);
    }
    int length = sqlite3_str_length(all.text), code = sqlite3_str_errcode(all.text);
    char *text = sqlite3_str_finish(all.text);
    if (all.failed || code != SQLITE_OK)
        sqlite3_result_error_nomem(context);
    else if (!all.fits)
        sqlite3_result_error(context, "flamegraph: integer aggregate overflow", -1);
    else if (role == FLAME_SUM)
        sum_result(context, all.first, kind, all.sum);
    else if (all.first)
        sqlite3_result_text(context, text ? text : "", length, SQLITE_TRANSIENT);
    sqlite3_free(text);
    map64_done(&all.different);
}

void flame_query_free(void *userdata)
{
    struct flame_query *query = userdata;
    if (!query)
        return;
    regex_free(query->view_pattern);
    for (int i = 0; i < query->n_filters; i++)
        regex_free(query->filters[i].regex);
    free(query);
}
