// SPDX-License-Identifier: Apache-2.0
//
// Rows come nearly in order of time, and their first number is one of few groups (tracks, threads).
// Sorting therefore needs few comparisons: entries are counted for each group, put into the range
// of their group, and moved there past the few entries that came too early, for example nested
// slices. If too many moves are needed, or a number is not supported, SQLite makes the index, which
// takes several times as long.
#include "converter/tables/row_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_BITS  20 // the bits above are the text's number + 1
#define GROUPS_MAX  (1 << GROUP_BITS)
#define FORGET_N    ((size_t)128 << 10)
#define MOVES_BASE  1000
#define MOVES_ENTRY 16        // for each entry, on average
#define NULL_VALUE  INT64_MIN // sorts first, as NULL does

struct entry {
    int64_t value;
    uint32_t group_text, id;
};

// An entry of three or four columns.
struct wide_entry {
    struct entry entry;
    int64_t second;
};

static size_t entry_size(const struct row_index *index)
{
    return index->def->n_columns > 2 ? sizeof(struct wide_entry) : sizeof(struct entry);
}

static struct entry *entry_at(const struct row_index *index, const struct scratch *scratch,
                              size_t i)
{
    return (struct entry *)(void *)(scratch->bytes + i * entry_size(index));
}

static int64_t second_of(const struct entry *entry)
{
    return ((const struct wide_entry *)(const void *)entry)->second;
}

static uint32_t group_of(const struct entry *entry)
{
    return entry->group_text & (GROUPS_MAX - 1);
}

static size_t text_of(const struct entry *entry)
{
    return entry->group_text >> GROUP_BITS;
}

static bool text_is(const struct row_index_text *text, const struct cell *cell)
{
    return text->size == cell->size && memcmp(text->bytes, cell->bytes, text->size) == 0;
}

// *ret: 1 + the text's index; 0 for NULL. False: the text is not supported.
static bool text_number(struct row_index *index, const struct cell *cell, uint32_t *ret)
{
    *ret = 0;
    if (!cell || cell->type == CELL_NULL)
        return true;
    if (cell->type != CELL_TEXT || cell->size > ROW_INDEX_TEXT_BYTES_MAX)
        return false;
    size_t at = index->last_text;
    if (at >= index->n_texts || !text_is(&index->texts[at], cell))
        for (at = 0; at < index->n_texts && !text_is(&index->texts[at], cell); at++)
            ;
    index->last_text = at;
    *ret = (uint32_t)at + 1;
    if (at < index->n_texts)
        return true;
    if (index->n_texts == ROW_INDEX_TEXTS_MAX)
        return false;
    struct row_index_text *text = &index->texts[index->n_texts++];
    text->size = (uint8_t)cell->size;
    memcpy(text->bytes, cell->bytes, cell->size);
    return true;
}

static bool value_take(const struct cell *cell, int64_t *ret)
{
    *ret = NULL_VALUE;
    if (!cell || cell->type == CELL_NULL)
        return true;
    *ret = cell->integer;
    return cell->type == CELL_INT && cell->integer != NULL_VALUE;
}

static bool entry_make(struct row_index *index, const struct cell *row, size_t width, int64_t id,
                       struct wide_entry *ret)
{
    const struct cell *cells[INDEX_COLUMNS_MAX] = {NULL};
    for (size_t i = 0; i < index->def->n_columns; i++)
        if (index->def->columns[i] < width)
            cells[i] = &row[index->def->columns[i]];
    const struct cell *group = cells[0];
    uint32_t text;
    if (!group || group->type != CELL_INT || group->integer < 0 || group->integer >= GROUPS_MAX ||
        id < 0 || id > UINT32_MAX || !value_take(cells[1], &ret->entry.value) ||
        !value_take(cells[2], &ret->second) || !text_number(index, cells[3], &text))
        return false;
    ret->entry.group_text = (uint32_t)group->integer | text << GROUP_BITS;
    ret->entry.id = (uint32_t)id;
    return true;
}

int row_index_add(struct row_index *index, const char *folder, const struct cell *row, size_t width,
                  int64_t id)
{
    if (index->given_up)
        return 0;
    struct wide_entry entry;
    if (!entry_make(index, row, width, id, &entry)) {
        index->given_up = true;
        scratch_done(&index->log);
        return 0;
    }
    int r = scratch_reserve(&index->log, folder, (index->n + 1) * entry_size(index));
    if (r < 0)
        return r;
    memcpy(entry_at(index, &index->log, index->n++), &entry, entry_size(index));
    if (group_of(&entry.entry) >= index->n_groups)
        index->n_groups = group_of(&entry.entry) + 1;
    if (index->n - index->n_forget == FORGET_N) {
        scratch_forget(&index->log);
        index->n_forget = index->n;
    }
    return 0;
}

static int numbers_compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int texts_compare(const struct row_index *index, size_t a, size_t b)
{
    if (a == b || !a || !b)
        return numbers_compare(a != 0, b != 0);
    const struct row_index_text *left = &index->texts[a - 1], *right = &index->texts[b - 1];
    int order =
        memcmp(left->bytes, right->bytes, left->size < right->size ? left->size : right->size);
    return order ? order : left->size - right->size;
}

// Returns the first column in which two entries differ, from 0; the number of columns if all are
// equal.
static size_t first_difference(const struct row_index *index, const struct entry *a,
                               const struct entry *b, int *ret_order)
{
    size_t n = index->def->n_columns;
    if ((*ret_order = numbers_compare(group_of(a), group_of(b))))
        return 0;
    if ((*ret_order = numbers_compare(a->value, b->value)))
        return 1;
    if (n > 2 && (*ret_order = numbers_compare(second_of(a), second_of(b))))
        return 2;
    if (n > 3 && (*ret_order = texts_compare(index, text_of(a), text_of(b))))
        return 3;
    *ret_order = numbers_compare(a->id, b->id);
    return n;
}

// Puts an entry behind the entries of its group and moves it to its sorted place. Returns the
// number of moves.
static size_t entry_place(const struct row_index *index, const struct scratch *placed, size_t first,
                          size_t place, const struct entry *entry)
{
    size_t at = place, size = entry_size(index);
    int order;
    for (; at > first; at--) {
        const struct entry *before = entry_at(index, placed, at - 1);
        first_difference(index, before, entry, &order);
        if (order <= 0)
            break;
        memcpy(entry_at(index, placed, at), before, size);
    }
    memcpy(entry_at(index, placed, at), entry, size);
    return place - at;
}

// Sorts the entries into the ranges of their groups. False: too many moves are needed.
static bool entries_place(const struct row_index *index, size_t *starts, size_t *n_placed,
                          const struct scratch *placed)
{
    size_t moves_left = MOVES_BASE + MOVES_ENTRY * index->n;
    for (size_t i = 0; i < index->n; i++) {
        starts[group_of(entry_at(index, &index->log, i)) + 1]++;
        if (i % FORGET_N == FORGET_N - 1)
            scratch_forget(&index->log);
    }
    for (int64_t group = 0; group < index->n_groups; group++)
        starts[group + 1] += starts[group];
    for (size_t i = 0; i < index->n; i++) {
        const struct entry *entry = entry_at(index, &index->log, i);
        size_t start = starts[group_of(entry)], *n = &n_placed[group_of(entry)];
        size_t n_moves = entry_place(index, placed, start, start + (*n)++, entry);
        if (n_moves > moves_left)
            return false;
        moves_left -= n_moves;
        if (i % FORGET_N == FORGET_N - 1) {
            scratch_forget(&index->log);
            scratch_forget(placed);
        }
    }
    return true;
}

static void cell_value(struct cell *cells, size_t column, int64_t value)
{
    cell_int(cells, column, value);
    if (value == NULL_VALUE)
        cells[column].type = CELL_NULL;
}

static int entry_write(const struct row_index *index, const struct entry *entry, struct btree *tree,
                       struct pages *pages)
{
    struct cell cells[INDEX_COLUMNS_MAX + 1] = {{.type = CELL_NULL}};
    struct record record;
    size_t n = index->def->n_columns, text = text_of(entry);
    cell_int(cells, 0, group_of(entry) + index->add_group);
    cell_value(cells, 1, entry->value);
    if (n > 2)
        cell_value(cells, 2, second_of(entry));
    if (text)
        cell_bytes(cells, 3, index->texts[text - 1].bytes, index->texts[text - 1].size);
    cell_int(cells, n, entry->id + index->add_id);
    record_measure(&record, cells, n + 1);
    return btree_add_entry(tree, pages, &record);
}

static int entries_write(const struct row_index *index, const struct scratch *placed,
                         struct pages *pages, struct row_index_result *ret)
{
    struct btree tree = {.is_index = true};
    int r = 0, order;
    for (size_t i = 0; i < index->n && r == 0; i++) {
        const struct entry *entry = entry_at(index, placed, i);
        size_t differs =
            i ? first_difference(index, entry_at(index, placed, i - 1), entry, &order) : 0;
        for (size_t k = differs; k < index->def->n_columns; k++)
            ret->n_distinct[k]++;
        r = entry_write(index, entry, &tree, pages);
        if (i % FORGET_N == FORGET_N - 1)
            scratch_forget(placed);
    }
    if (r == 0)
        ret->root = btree_finish(&tree, pages);
    if (r == 0 && !ret->root)
        r = pages->failure < 0 ? pages->failure : -ENOMEM;
    ret->n = index->n;
    btree_done(&tree);
    return r;
}

int row_index_finish(struct row_index *index, const char *folder, struct pages *pages,
                     struct row_index_result *ret)
{
    struct scratch placed = {.budget = index->log.budget};
    struct row_index_result written = {0};
    if (index->given_up || !index->n) {
        *ret = written;
        return 0;
    }
    size_t n_groups = (size_t)index->n_groups;
    size_t *starts = calloc(2 * n_groups + 1, sizeof(*starts));
    int r = starts ? scratch_reserve(&placed, folder, index->n * entry_size(index)) : -ENOMEM;
    if (r == 0 && entries_place(index, starts, starts + n_groups + 1, &placed))
        r = entries_write(index, &placed, pages, &written);
    free(starts);
    scratch_done(&placed);
    if (r == 0)
        *ret = written;
    return r;
}

void row_index_done(struct row_index *index)
{
    scratch_done(&index->log);
    *index = (struct row_index){.def = index->def};
}
