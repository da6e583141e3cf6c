// SPDX-License-Identifier: Apache-2.0
//
// Rows arrive nearly in order of time, and their first number is one of few groups (tracks,
// threads). A group whose rows arrive in order fills leaves of the tree immediately: at the end,
// only the pages above the leaves are missing. The first rows of each group wait in a log, because
// most groups have few rows. The log keeps the rows of a group in order of arrival. A group whose
// rows are out of order stays in the log and is sorted separately at the end: by few moves if few
// rows came too early, for example nested slices, and otherwise by merging the runs that are in
// order.
//
// If a number of an index is not supported, SQLite makes the index, which takes several times as
// long. A clustered table has supported numbers only: its first columns are never NULL.
#include "converter/tables/row_index.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "converter/ground/scratch.h"

#define ROW_ENTRY_MAX     72  // bytes of an entry
#define LEAVES_FROM       256 // rows of a group in the log
#define LEAVES_MAX        512 // groups that fill leaves
#define INDEX_GROUP_MAX   (1 << 20)
#define CLUSTER_GROUP_MAX (UINT32_MAX - 1)
#define FORGET_N          ((size_t)256 << 10)
#define RESERVE_N         64 // entries
#define RESERVE_BYTES     28 // of an entry, with its share of the pages above
#define MOVES_BASE        1000
#define MOVES_ENTRY       16        // for each entry, on average
#define NULL_VALUE        INT64_MIN // sorts first, as NULL does
#define TEXT_COLUMN       3
// In the log, the id of a row is doubled. An odd number means that the row's number is not an
// integer.
#define ID_FLAG   1
#define WHOLE_MAX ((double)(1LL << 46))

typedef int64_t entry_row[GROUP_LOG_COLUMNS_MAX];

// Returns the number of columns of a row in the log: all columns but the group, and the row's id.
static size_t log_width(const struct index_def *def)
{
    return def->is_table ? def->n_columns - 1u : def->n_columns;
}

static bool text_is(const struct row_index_text *text, const struct cell *cell)
{
    return text->size == cell->size && memcmp(text->bytes, cell->bytes, text->size) == 0;
}

// Sets *ret to 1 + the text's index, or to 0 for NULL. Returns false if the text is not supported.
static bool text_number(struct row_index *index, const struct cell *cell, int64_t *ret)
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
    *ret = (int64_t)at + 1;
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

static bool group_take(const struct cell *cell, int64_t max, uint32_t *ret)
{
    *ret = (uint32_t)cell->integer;
    return cell->type == CELL_INT && cell->integer >= 0 && cell->integer <= max;
}

// Makes an entry in *ret_group and `columns`. Returns false if a number is not supported.
static bool entry_make(struct row_index *index, const struct cell *row, size_t width, int64_t id,
                       uint32_t *ret_group, int64_t *columns)
{
    const struct index_def *def = index->def;
    *ret_group = 0;
    if (index_has_group(def) && (def->columns[0] >= width ||
                                 !group_take(&row[def->columns[0]], INDEX_GROUP_MAX, ret_group)))
        return false;
    for (size_t i = 1; i < def->n_columns; i++) {
        const struct cell *cell = def->columns[i] < width ? &row[def->columns[i]] : NULL;
        if (i == TEXT_COLUMN ? !text_number(index, cell, &columns[i - 1])
                             : !value_take(cell, &columns[i - 1]))
            return false;
    }
    columns[def->n_columns - 1] = id;
    return true;
}

static int64_t real_bits(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

// Sets *ret to the number, as an integer if possible. Otherwise *ret has the bits of a real number,
// and the function returns ID_FLAG.
static int64_t number_pack(const struct cell *cell, int64_t *ret)
{
    double value = cell->real;
    if (cell->type == CELL_INT)
        *ret = cell->integer;
    else if (cell->type == CELL_REAL && value > -WHOLE_MAX && value < WHOLE_MAX &&
             (double)(int64_t)value == value && real_bits(value) != real_bits(-0.0))
        *ret = (int64_t)value;
    else {
        *ret = cell->type == CELL_REAL ? real_bits(value) : real_bits(NAN); // NULL
        return ID_FLAG;
    }
    return 0;
}

// Makes the columns of a row of a clustered table: group, time, id, value, arg set.
static bool cluster_make(const struct index_def *def, const struct cell *row, int64_t id,
                         uint32_t *ret_group, int64_t *columns)
{
    const struct cell *time = &row[def->columns[1]], *set = &row[def->columns[4]];
    if (!group_take(&row[def->columns[0]], CLUSTER_GROUP_MAX, ret_group) || time->type != CELL_INT)
        return false;
    columns[0] = time->integer;
    columns[1] = id << 1 | number_pack(&row[def->columns[3]], &columns[2]);
    columns[3] = set->type == CELL_INT ? set->integer : NULL_VALUE;
    return true;
}

static int numbers_compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int texts_compare(const struct row_index *index, int64_t a, int64_t b)
{
    if (a == b || !a || !b)
        return numbers_compare(a != 0, b != 0);
    const struct row_index_text *left = &index->texts[a - 1], *right = &index->texts[b - 1];
    return text_compare((struct text){left->bytes, left->size},
                        (struct text){right->bytes, right->size});
}

// Returns the first key column in which two entries of a group differ, from 1; the number of key
// columns if all are equal.
static size_t first_difference(const struct row_index *index, const int64_t *a, const int64_t *b,
                               int *ret_order)
{
    const struct index_def *def = index->def;
    for (size_t i = 1; i < def->n_key; i++) {
        *ret_order = i == TEXT_COLUMN ? texts_compare(index, a[i - 1], b[i - 1])
                                      : numbers_compare(a[i - 1], b[i - 1]);
        if (*ret_order)
            return i;
    }
    *ret_order = def->is_table ? 0 : numbers_compare(a[def->n_columns - 1], b[def->n_columns - 1]);
    return def->n_key;
}

static bool comes_before(const struct row_index *index, const int64_t *a, const int64_t *b)
{
    int order;
    if (a[0] != b[0]) // the usual case
        return a[0] < b[0];
    first_difference(index, a, b, &order);
    return order < 0;
}

// Reserves the room of entries when they arrive, because they are written at the end. Otherwise the
// end of the conversion could find no room for rows that were read.
static int room_reserve(struct row_index *index)
{
    if (index->n_until_reserved--)
        return 0;
    index->n_until_reserved = RESERVE_N - 1;
    int r = budget_take(index->log.budget, RESERVE_N * RESERVE_BYTES);
    if (r == 0)
        index->n_reserved += RESERVE_N * RESERVE_BYTES;
    return r;
}

static void room_give(struct row_index *index)
{
    budget_give(index->log.budget, index->n_reserved);
    index->n_reserved = index->n_until_reserved = 0;
}

static int64_t shift_of(const struct row_index *index, size_t column)
{
    return index->add ? index->add[column] : 0;
}

// Writes the record of an index's entry and returns the end.
static size_t index_entry_write(const struct row_index *index, uint32_t group, const int64_t *row,
                                uint8_t *entry)
{
    const struct index_def *def = index->def;
    bool has_group = index_has_group(def);
    size_t n = def->n_columns + has_group;
    uint8_t *type = entry + 2, *body = type + n;
    if (has_group)
        body += record_put_int(body, group + shift_of(index, def->columns[0]), type++);
    for (size_t i = 1; i < def->n_columns; i++) {
        int64_t value = row[i - 1];
        if (i == TEXT_COLUMN && value) {
            const struct row_index_text *text = &index->texts[value - 1];
            *type++ = (uint8_t)record_text_type(text->size);
            memcpy(body, text->bytes, text->size);
            body += text->size;
        } else if (i == TEXT_COLUMN || value == NULL_VALUE) {
            *type++ = RECORD_NULL;
        } else {
            body += record_put_int(body, value, type++);
        }
    }
    body += record_put_int(body, row[def->n_columns - 1] + shift_of(index, 0), type);
    entry[1] = (uint8_t)(n + 1); // size of the record's header
    return (size_t)(body - entry);
}

// Writes the entry of a row of a clustered table.
static size_t cluster_entry_write(const struct row_index *index, uint32_t group, const int64_t *row,
                                  uint8_t *entry)
{
    const struct index_def *def = index->def;
    bool has_set = row[3] != NULL_VALUE;
    size_t n = def->n_columns - !has_set;
    uint8_t *type = entry + 2, *body = type + n;
    body += record_put_int(body, group + shift_of(index, def->columns[0]), type++);
    body += record_put_int(body, row[0], type++);
    body += record_put_int(body, (row[1] >> 1) + shift_of(index, def->columns[2]), type++);
    if (row[1] & ID_FLAG)
        body += record_put_real(body, row[2], type++);
    else
        body += record_put_int(body, row[2], type++);
    if (has_set)
        body += record_put_int(body, row[3] + shift_of(index, def->columns[4]), type);
    entry[1] = (uint8_t)(n + 1);
    return (size_t)(body - entry);
}

// Writes the size of an entry, then the entry. Returns the size of both.
static size_t entry_write(const struct row_index *index, uint32_t group, const int64_t *row,
                          uint8_t *entry)
{
    size_t size = index->def->is_table ? cluster_entry_write(index, group, row, entry)
                                       : index_entry_write(index, group, row, entry);
    entry[0] = (uint8_t)(size - 1);
    return size;
}

static void distinct_count(const struct row_index *index, const int64_t *before, const int64_t *row,
                           struct index_result *result)
{
    int order;
    size_t differs = 0;
    if (before)
        differs = before[0] != row[0] ? 1 : first_difference(index, before, row, &order);
    for (size_t i = differs; i < index->def->n_key; i++)
        result->n_distinct[i]++;
    result->n++;
}

// -- leaves that are filled while rows arrive --

// Returns the number of a text in an entry.
static int64_t known_text(const struct row_index *index, const uint8_t *text, size_t size)
{
    size_t at = 0;
    while (index->texts[at].size != size || memcmp(index->texts[at].bytes, text, size) != 0)
        at++;
    return (int64_t)at + 1;
}

// Reads the columns of an entry that entry_write() wrote.
static void entry_read(const struct row_index *index, const uint8_t *entry, int64_t *columns)
{
    const struct index_def *def = index->def;
    size_t first = index_has_group(def) ? 0 : 1, n = first + entry[1] - 1u;
    const uint8_t *type = entry + 2 - first, *body = type + n;
    int64_t values[ENTRY_COLUMNS_MAX + 1];
    for (size_t i = first; i < n; body += record_value_size(type[i]), i++)
        if (type[i] >= RECORD_TEXT)
            values[i] = known_text(index, body, record_value_size(type[i]));
        else if (type[i] == RECORD_NULL)
            values[i] = i == TEXT_COLUMN ? 0 : NULL_VALUE;
        else
            values[i] = record_get_int(body, type[i]);
    if (!def->is_table) {
        memcpy(columns, values + 1, (def->n_columns - 1u) * sizeof(*columns));
        columns[def->n_columns - 1] = values[def->n_columns] - shift_of(index, 0);
        return;
    }
    bool is_null = type[3] == RECORD_NULL, is_real = type[3] == RECORD_REAL;
    columns[0] = values[1];
    columns[1] =
        (values[2] - shift_of(index, def->columns[2])) << 1 | (is_null || is_real ? ID_FLAG : 0);
    columns[2] = is_null ? real_bits(NAN) : values[3];
    columns[3] = n > 4 ? values[4] - shift_of(index, def->columns[4]) : NULL_VALUE;
}

static void logs_done(struct row_index *index)
{
    room_give(index);
    group_log_done(&index->log);
    group_log_done(&index->leaves);
    vec_foreach(&index->open, open)
        free(open->leaf.page);
    open_leaf_vec_done(&index->open);
}

// Gives up the index, which SQLite then makes. The leaves in the file become free pages.
static int index_give_up(struct row_index *index)
{
    int r = group_log_settle(&index->leaves);
    for (uint32_t i = 0; i < index->leaves.n_groups && r == 0; i++) {
        CLEANUP(group_reader_done) struct group_reader reader;
        r = group_reader_open(&reader, &index->leaves, i);
        while (r == 0 && group_reader_next(&reader))
            r = pages_free(index->pages, (uint32_t)reader.row[0]);
    }
    index->given_up = true;
    logs_done(index);
    return r;
}

static int log_add(struct row_index *index, struct log_group *group, const int64_t *columns)
{
    if (group->n && comes_before(index, columns, group->last))
        group->unsorted = true;
    int r = room_reserve(index);
    return r < 0 ? r : group_log_add(&index->log, index->folder, group, columns);
}

static int page_log(struct row_index *index, struct log_group *group, const uint8_t *page)
{
    entry_row columns;
    int r = 0;
    for (size_t i = 0; i < btree_n_cells(page) && r == 0; i++) {
        entry_read(index, btree_cell(page, i), columns);
        r = log_add(index, group, columns);
    }
    return r;
}

// Moves the entries of a leaf, and the entry after the leaf, into the log.
static int leaf_log(struct row_index *index, struct log_group *group, const int64_t *leaf)
{
    uint8_t page[PAGE_BYTES];
    uint32_t number = (uint32_t)leaf[0];
    int r = pages_read(index->pages, number, page);
    if (r == 0)
        r = page_log(index, group, page);
    if (r == 0)
        r = log_add(index, group, leaf + 1);
    return r < 0 ? r : pages_free(index->pages, number);
}

// Moves all entries of a group into the log, because they must be sorted.
static int leaves_end(struct row_index *index, struct log_group *group, uint32_t number)
{
    struct open_leaf *open = &index->open.items[group->place - 1];
    CLEANUP(group_reader_done) struct group_reader reader = {0};
    struct log_group *leaves = group_log_group(&index->leaves, number);
    int r = leaves ? group_log_settle(&index->leaves) : -ENOMEM;
    if (r == 0)
        r = group_reader_open(&reader, &index->leaves, number);
    while (r == 0 && group_reader_next(&reader))
        r = leaf_log(index, group, reader.row);
    btree_leaf_end(&open->leaf);
    if (r == 0)
        r = page_log(index, group, open->leaf.page);
    if (leaves)
        group_log_clear(leaves);
    free(open->leaf.page);
    *open = (struct open_leaf){0};
    group->place = 0;
    return r;
}

// Begins to fill leaves with further rows of a group.
static int leaves_begin(struct row_index *index, struct log_group *group)
{
    struct open_leaf open = {0};
    int r = budget_take(index->log.budget, PAGE_BYTES);
    if (r < 0)
        return r;
    index->n_reserved += PAGE_BYTES;
    memcpy(open.last, group->last, sizeof(open.last));
    r = btree_leaf_open(&open.leaf);
    if (r == 0)
        r = open_leaf_vec_push(&index->open, open);
    if (r < 0)
        free(open.leaf.page);
    else
        group->place = (uint32_t)index->open.n;
    return r;
}

// Writes the full leaf of a group, without its last entry. The log of leaves keeps this entry.
static int leaf_put_away(struct row_index *index, struct open_leaf *open, uint32_t number)
{
    entry_row leaf = {0};
    struct log_group *leaves = group_log_group(&index->leaves, number);
    if (!leaves)
        return -ENOMEM;
    leaf[0] = btree_leaf_write(&open->leaf, index->pages);
    memcpy(leaf + 1, open->last, (GROUP_LOG_COLUMNS_MAX - 1) * sizeof(*leaf));
    return group_log_add(&index->leaves, index->folder, leaves, leaf);
}

static int leaf_add(struct row_index *index, const struct log_group *group, uint32_t number,
                    const int64_t *columns)
{
    uint8_t entry[ROW_ENTRY_MAX + RECORD_SLACK];
    struct open_leaf *open = &index->open.items[group->place - 1];
    size_t size = entry_write(index, number, columns, entry);
    int r = 0;
    if (!btree_leaf_add(&open->leaf, entry, size)) {
        r = leaf_put_away(index, open, number);
        btree_leaf_add(&open->leaf, entry, size);
    }
    distinct_count(index, open->last, columns, &open->counts);
    memcpy(open->last, columns, sizeof(open->last));
    return r;
}

static int entry_add(struct row_index *index, uint32_t number, const int64_t *columns)
{
    struct log_group *group = group_log_group(&index->log, number);
    int r = 0;
    if (!group)
        return -ENOMEM;
    if (group->place && comes_before(index, columns, index->open.items[group->place - 1].last))
        r = leaves_end(index, group, number);
    else if (group->n == LEAVES_FROM && !group->unsorted && !group->place &&
             index->open.n < LEAVES_MAX && !comes_before(index, columns, group->last))
        r = leaves_begin(index, group);
    if (r < 0)
        return r;
    return group->place ? leaf_add(index, group, number, columns) : log_add(index, group, columns);
}

int row_index_add_event(struct row_index *index, int64_t kind, int64_t ts, int64_t id)
{
    const entry_row columns = {ts, id};
    if (index->given_up)
        return 0;
    return kind >= 0 && kind <= INDEX_GROUP_MAX ? entry_add(index, (uint32_t)kind, columns)
                                                : index_give_up(index);
}

int row_index_add(struct row_index *index, const struct cell *row, size_t width, int64_t id)
{
    entry_row columns = {0};
    uint32_t number;
    if (index->given_up)
        return 0;
    bool is_good = index->def->is_table ? cluster_make(index->def, row, id, &number, columns)
                                        : entry_make(index, row, width, id, &number, columns);
    if (is_good)
        return entry_add(index, number, columns);
    return index->def->is_table ? -EINVAL : index_give_up(index);
}

int row_index_move(struct row_index *index, uint32_t from, uint32_t to)
{
    return map64_set(&index->moved, from, to);
}

// -- the entries in order --

// Groups that are written as one group are a list.
struct group_lists {
    uint32_t *first; // owned, by group: 1 + the last added group of its list; 0: none
    uint32_t *next;  // owned, by group: 1 + the next group of the list; 0: the end
};

struct writing {
    struct row_index *index; // borrowed
    struct group_lists lists;
    struct scratch rows; // rows of a group that must be sorted
    struct btree tree;
    struct index_result result;
    entry_row last; // last entry of the group
    bool group_goes_on;
    size_t n_forget; // entries since memory was released
};

static int lists_make(struct writing *writing)
{
    const struct group_log *log = &writing->index->log;
    struct group_lists *lists = &writing->lists;
    const struct map64 *moved = &writing->index->moved;
    const struct map64_slot *move;
    size_t at = 0;
    if (!moved->n)
        return 0;
    lists->first = calloc(log->n_groups, sizeof(*lists->first));
    lists->next = calloc(log->n_groups, sizeof(*lists->next));
    if (!lists->first || !lists->next)
        return -ENOMEM;
    for (at = 0; (move = map64_next(moved, &at));) {
        lists->next[move->key] = lists->first[move->value];
        lists->first[move->value] = (uint32_t)move->key + 1;
    }
    return 0;
}

static int entry_put(struct writing *writing, uint32_t group, const int64_t *row)
{
    uint8_t entry[ROW_ENTRY_MAX + RECORD_SLACK];
    const struct row_index *index = writing->index;
    distinct_count(index, writing->group_goes_on ? writing->last : NULL, row, &writing->result);
    writing->group_goes_on = true;
    memcpy(writing->last, row, index->log.n_columns * sizeof(*row));
    size_t size = entry_write(index, group, row, entry);
    if (++writing->n_forget == FORGET_N) {
        group_log_forget(&index->log);
        scratch_forget(&writing->rows);
        writing->n_forget = 0;
    }
    return btree_add_entry(&writing->tree, index->pages, entry, size);
}

// Adds the leaves of a group after the entries of its log.
static int leaves_put(struct writing *writing, uint32_t group)
{
    CLEANUP(group_reader_done) struct group_reader reader = {0};
    uint8_t entry[ROW_ENTRY_MAX + RECORD_SLACK];
    struct row_index *index = writing->index;
    const struct open_leaf *open = &index->open.items[index->log.groups[group].place - 1];
    int r = group < index->leaves.n_groups ? group_reader_open(&reader, &index->leaves, group) : 0;
    while (r == 0 && reader.group && group_reader_next(&reader)) {
        size_t size = entry_write(index, group, reader.row + 1, entry);
        r = btree_add_leaf(&writing->tree, index->pages, (uint32_t)reader.row[0], entry, size);
    }
    for (size_t i = 0; i < index->def->n_key; i++)
        writing->result.n_distinct[i] += open->counts.n_distinct[i];
    writing->result.n += open->counts.n;
    return r < 0 ? r : btree_add_open_leaf(&writing->tree, index->pages, &open->leaf);
}

// Adds the rows of a group after the first `n` of `rows`. Returns 0 or a negative errno.
static int rows_gather(struct writing *writing, uint32_t group, size_t n)
{
    CLEANUP(group_reader_done) struct group_reader reader;
    const struct group_log *log = &writing->index->log;
    size_t size = log->n_columns * sizeof(int64_t);
    int r =
        scratch_reserve(&writing->rows, writing->index->folder, (n + log->groups[group].n) * size);
    int opened = group_reader_open(&reader, log, group);
    for (; r == 0 && opened == 0 && group_reader_next(&reader); n++)
        memcpy(writing->rows.bytes + n * size, reader.row, size);
    return r < 0 ? r : opened;
}

static int64_t *row_at(const struct writing *writing, size_t i)
{
    size_t n_columns = writing->index->log.n_columns;
    return (int64_t *)(void *)writing->rows.bytes + i * n_columns;
}

static void row_copy(const struct writing *writing, int64_t *to, const int64_t *from)
{
    memcpy(to, from, writing->index->log.n_columns * sizeof(*to));
}

// Sorts the rows: moves each row to its place among the rows before it. Returns false if this would
// need too many moves.
static bool rows_move(const struct writing *writing, size_t n)
{
    size_t moves_left = MOVES_BASE + MOVES_ENTRY * n;
    entry_row row;
    for (size_t i = 1; i < n; i++) {
        size_t at = i;
        row_copy(writing, row, row_at(writing, i));
        for (; at > 0 && comes_before(writing->index, row, row_at(writing, at - 1)); at--) {
            row_copy(writing, row_at(writing, at), row_at(writing, at - 1));
            if (--moves_left == 0) {
                row_copy(writing, row_at(writing, at - 1), row);
                return false;
            }
        }
        row_copy(writing, row_at(writing, at), row);
    }
    return true;
}

// Returns the end of the sorted run of rows that begins at `i`.
static size_t run_end(const struct writing *writing, size_t i, size_t n)
{
    for (i++; i < n && !comes_before(writing->index, row_at(writing, i), row_at(writing, i - 1));)
        i++;
    return i;
}

// Merges the sorted runs of the `n` rows at `from`, two neighbouring runs at a time, into the rows
// at `to`. Returns the number of runs that are left.
static size_t runs_merge(const struct writing *writing, size_t from, size_t to, size_t n)
{
    size_t n_runs = 0, end = from + n;
    for (size_t a = from; a < end; n_runs++) {
        size_t b = run_end(writing, a, end), a_end = b;
        size_t b_end = b < end ? run_end(writing, b, end) : b;
        size_t next = b_end;
        while (a < a_end || b < b_end) {
            bool takes_b =
                a == a_end ||
                (b < b_end && comes_before(writing->index, row_at(writing, b), row_at(writing, a)));
            row_copy(writing, row_at(writing, to++), row_at(writing, takes_b ? b++ : a++));
        }
        a = next;
    }
    return n_runs;
}

// Sorts the rows by merging their sorted runs. Sets *ret to the index of the first sorted row.
static int rows_merge(struct writing *writing, size_t n, size_t *ret)
{
    size_t size = writing->index->log.n_columns * sizeof(int64_t), from = 0;
    int r = scratch_reserve(&writing->rows, writing->index->folder, 2 * n * size);
    if (r < 0)
        return r;
    do
        from = n - from;
    while (runs_merge(writing, n - from, from, n) > 1);
    *ret = from;
    return 0;
}

// Adds the rows of a group. Sets *unsorted if they are not in order. Returns 0 or a negative errno.
static int rows_take(struct writing *writing, uint32_t group, size_t *n, bool *unsorted)
{
    const struct log_group *taken = &writing->index->log.groups[group];
    int r = rows_gather(writing, group, *n);
    *unsorted |= taken->unsorted;
    *n += taken->n;
    return r;
}

static int group_write_sorted(struct writing *writing, uint32_t group, bool with_own)
{
    const struct group_lists *lists = &writing->lists;
    size_t n = 0, first = 0;
    bool unsorted = false;
    int r = with_own ? rows_take(writing, group, &n, &unsorted) : 0;
    for (uint32_t of = lists->first ? lists->first[group] : 0; of && r == 0;
         of = lists->next[of - 1])
        r = rows_take(writing, of - 1, &n, &unsorted);
    if (r == 0 && n > 0 && (!unsorted || !rows_move(writing, n)))
        r = rows_merge(writing, n, &first);
    for (size_t i = 0; i < n && r == 0; i++)
        r = entry_put(writing, group, row_at(writing, first + i));
    return r;
}

static int group_write(struct writing *writing, uint32_t group)
{
    CLEANUP(group_reader_done) struct group_reader reader = {0};
    struct row_index *index = writing->index;
    const struct group_lists *lists = &writing->lists;
    bool is_moved = index->moved.n && map64_find(&index->moved, group);
    writing->group_goes_on = false;
    if (index->log.groups[group].unsorted || is_moved || (lists->first && lists->first[group]))
        return group_write_sorted(writing, group, !is_moved);
    const struct log_group *logged = &index->log.groups[group];
    int r = group_reader_open(&reader, &index->log, group);
    for (uint64_t i = 0; r == 0 && group_reader_next(&reader); i++) {
        if (logged->place && i == logged->n - 2)
            r = btree_reserve_two(&writing->tree, index->pages, ROW_ENTRY_MAX);
        if (r == 0)
            r = entry_put(writing, group, reader.row);
    }
    return r < 0 || !logged->place ? r : leaves_put(writing, group);
}

// Moves the leaves of groups that are moved, or that get rows of other groups, into the log: these
// groups must be sorted.
static int moved_prepare(struct row_index *index)
{
    CLEANUP(freep) struct map64_slot *moves = map64_sorted(&index->moved);
    int r = moves ? 0 : -ENOMEM;
    for (size_t move = 0; r == 0 && move < index->moved.n; move++) {
        uint32_t groups[] = {(uint32_t)moves[move].key, (uint32_t)moves[move].value};
        for (size_t i = 0; i < ELEMENTS(groups) && r == 0; i++) {
            struct log_group *group = group_log_group(&index->log, groups[i]);
            if (!group)
                return -ENOMEM;
            r = group->place ? leaves_end(index, group, groups[i]) : 0;
        }
    }
    return r;
}

static int entries_write(struct writing *writing)
{
    struct row_index *index = writing->index;
    int r = moved_prepare(index);
    if (r == 0)
        r = group_log_close(&index->log);
    if (r == 0)
        r = group_log_close(&index->leaves);
    if (r == 0)
        r = lists_make(writing);
    for (uint32_t group = 0; group < index->log.n_groups && r == 0; group++)
        r = group_write(writing, group);
    if (r == 0)
        writing->result.root = btree_finish(&writing->tree, writing->index->pages);
    if (r == 0 && !writing->result.root)
        r = writing->index->pages->failure < 0 ? writing->index->pages->failure : -ENOMEM;
    return r;
}

void row_index_init(struct row_index *index, const struct index_def *def, struct pages *pages,
                    const char *folder)
{
    *index = (struct row_index){.def = def, .pages = pages, .folder = folder};
    index->log.n_columns = log_width(def);
    index->leaves.n_columns = index->log.n_columns + 1;
}

int row_index_finish(struct row_index *index, struct index_result *ret)
{
    struct index_result none = {0};
    bool is_wanted = index->def->is_table || (!index->given_up && index->log.n_groups);
    if (!is_wanted) {
        *ret = none;
        return 0;
    }
    struct writing writing = {
        .index = index, .rows.budget = index->log.budget, .tree.is_index = true};
    room_give(index);
    int r = entries_write(&writing);
    free(writing.lists.first);
    free(writing.lists.next);
    scratch_done(&writing.rows);
    btree_done(&writing.tree);
    if (r == 0)
        *ret = writing.result;
    return r;
}

void row_index_done(struct row_index *index)
{
    logs_done(index);
    map64_done(&index->moved);
    row_index_init(index, index->def, index->pages, index->folder);
}
