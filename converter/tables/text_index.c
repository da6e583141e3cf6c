// SPDX-License-Identifier: Apache-2.0
//
// Many rows share few texts. The rows of each text wait in a log, which takes one or two bytes for
// each row. At the end the texts are sorted, and the index is written text by text.
//
// SQLite makes the index if a text is too long for a page, or if the texts are so many that they
// would take much memory. SQLite takes several times as long, and sorts in bounded memory.
#include "converter/tables/text_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "converter/tables/btree.h"

#define TEXTS_MAX     ((size_t)64 << 10)
#define TEXT_MAX      (BTREE_ENTRY_MAX - 16) // bytes; the rest is the record's head and the id
#define ENTRY_REST    20                     // bytes of an entry and its place, without the text
#define RESERVE_BYTES 4096
#define FORGET_N      ((size_t)256 << 10)

void text_index_init(struct text_index *index, const struct index_def *def, struct pages *pages,
                     const char *folder)
{
    *index = (struct text_index){.def = def, .pages = pages, .folder = folder};
    index->log.n_columns = 1;
}

static void room_give(struct text_index *index)
{
    budget_give(index->log.budget, index->n_reserved);
    index->n_reserved = index->n_free = 0;
}

static void rows_forget(struct text_index *index)
{
    room_give(index);
    group_log_done(&index->log);
    strset_done(&index->texts);
}

// Reserves the room of entries when their rows arrive, because the entries are written at the end.
static int room_reserve(struct text_index *index, size_t n_bytes)
{
    if (index->n_free < n_bytes) {
        int r = budget_take(index->log.budget, RESERVE_BYTES);
        if (r < 0)
            return r;
        index->n_reserved += RESERVE_BYTES;
        index->n_free += RESERVE_BYTES;
    }
    index->n_free -= n_bytes;
    return 0;
}

// Sets *ret to the group of the text. Returns 1, 0 if the index does not take the text, or -ENOMEM.
static int group_find(struct text_index *index, const struct cell *text, uint32_t *ret)
{
    *ret = 0;
    if (text->type == CELL_NULL)
        return 1;
    if (text->type != CELL_TEXT || text->size > TEXT_MAX)
        return 0;
    uint32_t id = strset_add(&index->texts, text->bytes, text->size);
    if (id == STRSET_NONE)
        return -ENOMEM;
    *ret = id + 1;
    return index->texts.n <= TEXTS_MAX;
}

int text_index_add(struct text_index *index, const struct cell *text, int64_t id)
{
    uint32_t number;
    if (index->given_up)
        return 0;
    int r = group_find(index, text, &number);
    if (r <= 0) {
        index->given_up = true;
        rows_forget(index);
        return r;
    }
    struct log_group *group = group_log_group(&index->log, number);
    r = group ? room_reserve(index, ENTRY_REST + text->size) : -ENOMEM;
    return r < 0 ? r : group_log_add(&index->log, index->folder, group, &id);
}

// -- the entries in order --

static int entries_compare(const void *a, const void *b)
{
    const struct strset_entry *left = *(const struct strset_entry *const *)a;
    const struct strset_entry *right = *(const struct strset_entry *const *)b;
    return text_compare((struct text){left->text, left->size},
                        (struct text){right->text, right->size});
}

// Returns the entries in the order of their texts. The caller frees the array. Returns NULL if
// memory ran out.
static const struct strset_entry **texts_sorted(const struct strset *texts)
{
    const struct strset_entry **sorted = malloc((texts->n + 1) * sizeof(*sorted));
    for (size_t i = 0; sorted && i < texts->n; i++)
        sorted[i] = &texts->entries[i];
    if (sorted)
        qsort(sorted, texts->n, sizeof(*sorted), entries_compare);
    return sorted;
}

// Writes an entry: the size of its record, then the record of the text and the id. Returns the size
// of both.
static size_t entry_write(const struct strset_entry *text, int64_t id, uint8_t *entry)
{
    uint8_t head[1 + VARINT_MAX + 1], body[RECORD_SLACK + 1];
    size_t n_head = 1 + put_varint(head + 1, text ? record_text_type(text->size) : RECORD_NULL);
    size_t n_id = record_put_int(body, id, head + n_head++), n_text = text ? text->size : 0;
    head[0] = (uint8_t)n_head;
    uint8_t *to = entry + put_varint(entry, n_head + n_text + n_id);
    memcpy(to, head, n_head);
    if (n_text)
        memcpy(to + n_head, text->text, n_text);
    memcpy(to + n_head + n_text, body, n_id);
    return (size_t)(to - entry) + n_head + n_text + n_id;
}

// Adds the entries of a group to the tree. Returns 0 or a negative errno.
static int group_write(struct text_index *index, struct btree *tree, uint32_t number,
                       const struct strset_entry *text, struct index_result *result)
{
    CLEANUP(group_reader_done) struct group_reader reader = {0};
    uint8_t entry[BTREE_ENTRY_MAX + RECORD_SLACK];
    if (number >= index->log.n_groups || !index->log.groups[number].n)
        return 0;
    result->n_distinct[0]++;
    int r = group_reader_open(&reader, &index->log, number);
    while (r == 0 && group_reader_next(&reader)) {
        size_t size = entry_write(text, reader.row[0] + index->shift, entry);
        r = btree_add_entry(tree, index->pages, entry, size);
        if (++result->n % FORGET_N == 0)
            group_log_forget(&index->log);
    }
    return r;
}

static int entries_write(struct text_index *index, struct btree *tree, struct index_result *result)
{
    CLEANUP(freep) const struct strset_entry **sorted = texts_sorted(&index->texts);
    int r = sorted ? group_log_close(&index->log) : -ENOMEM;
    if (r == 0)
        r = group_write(index, tree, 0, NULL, result);
    for (size_t i = 0; i < index->texts.n && r == 0; i++) {
        uint32_t number = (uint32_t)(sorted[i] - index->texts.entries) + 1;
        r = group_write(index, tree, number, sorted[i], result);
    }
    if (r == 0 && !(result->root = btree_finish(tree, index->pages)))
        r = index->pages->failure < 0 ? index->pages->failure : -ENOMEM;
    return r;
}

int text_index_finish(struct text_index *index, struct index_result *ret)
{
    struct index_result result = {0};
    struct btree tree = {.is_index = true};
    int r = 0;
    room_give(index);
    if (!index->given_up && index->log.n_groups)
        r = entries_write(index, &tree, &result);
    btree_done(&tree);
    if (r == 0)
        *ret = result;
    return r;
}

void text_index_done(struct text_index *index)
{
    rows_forget(index);
    index->given_up = false;
}
