// SPDX-License-Identifier: Apache-2.0
//
// Rows come in order of time, and the first number says which of not so many things (tracks) they
// are of. So nothing has to be compared to sort them: entries are counted for each group, put into
// their group's place, and are in order there. Where they are not, or are not such numbers, SQLite
// makes the index, which takes several times as long.
#include "converter/tables/row_index.h"

#include <errno.h>
#include <stdlib.h>

#define GROUPS_MAX (1 << 20)
#define FORGET_N   ((size_t)128 << 10)

struct entry {
    int64_t value;
    uint32_t group, id;
};

static struct entry *entries(const struct scratch *scratch)
{
    return (struct entry *)(void *)scratch->bytes;
}

int row_index_add(struct row_index *index, const char *folder, const struct cell *group,
                  const struct cell *value, int64_t id)
{
    if (index->given_up)
        return 0;
    if (group->type != CELL_INT || (value && value->type != CELL_INT) || group->integer < 0 ||
        group->integer >= GROUPS_MAX || id > UINT32_MAX) {
        index->given_up = true;
        scratch_done(&index->log);
        return 0;
    }
    index->with_value = value != NULL;
    int r = scratch_reserve(&index->log, folder, (index->n + 1) * sizeof(struct entry));
    if (r < 0)
        return r;
    entries(&index->log)[index->n++] =
        (struct entry){value ? value->integer : 0, (uint32_t)group->integer, (uint32_t)id};
    if (group->integer >= index->n_groups)
        index->n_groups = group->integer + 1;
    if (index->n - index->n_forget == FORGET_N) {
        scratch_forget(&index->log);
        index->n_forget = index->n;
    }
    return 0;
}

// Puts entries into the places of their groups; false: they are not in order there.
static bool entries_place(const struct row_index *index, size_t *places, struct entry *to,
                          const struct scratch *placed)
{
    const struct entry *from = entries(&index->log);
    for (size_t i = 0; i < index->n; i++) {
        places[from[i].group + 1]++;
        if (i % FORGET_N == FORGET_N - 1)
            scratch_forget(&index->log);
    }
    for (int64_t group = 0; group < index->n_groups; group++)
        places[group + 1] += places[group];
    for (size_t i = 0; i < index->n; i++) {
        size_t place = places[from[i].group]++;
        to[place] = from[i];
        if (place && to[place - 1].group == from[i].group &&
            (to[place - 1].value > from[i].value ||
             (to[place - 1].value == from[i].value && to[place - 1].id > from[i].id)))
            return false;
        if (i % FORGET_N == FORGET_N - 1) {
            scratch_forget(&index->log);
            scratch_forget(placed);
        }
    }
    return true;
}

static int entries_write(const struct row_index *index, const struct scratch *placed,
                         struct pages *pages, uint32_t *ret_root)
{
    struct btree tree = {.is_index = true};
    struct record record;
    int r = 0;
    for (size_t i = 0; i < index->n && r == 0; i++) {
        struct cell cells[3];
        int64_t id = entries(placed)[i].id + index->add_id;
        cell_int(cells, 0, entries(placed)[i].group + index->add_group);
        cell_int(cells, 1, index->with_value ? entries(placed)[i].value : id);
        cell_int(cells, 2, id);
        record_measure(&record, cells, index->with_value ? 3 : 2);
        r = btree_add_entry(&tree, pages, &record);
        if (i % FORGET_N == FORGET_N - 1)
            scratch_forget(placed);
    }
    if (r == 0)
        *ret_root = btree_finish(&tree, pages);
    if (r == 0 && !*ret_root)
        r = pages->failure < 0 ? pages->failure : -ENOMEM;
    btree_done(&tree);
    return r;
}

int row_index_finish(struct row_index *index, const char *folder, struct pages *pages,
                     uint32_t *ret_root)
{
    struct scratch placed = {0};
    *ret_root = 0;
    if (index->given_up || !index->n)
        return 0;
    size_t *places = calloc((size_t)index->n_groups + 1, sizeof(*places));
    int r = places ? scratch_reserve(&placed, folder, index->n * sizeof(struct entry)) : -ENOMEM;
    if (r == 0 && entries_place(index, places, entries(&placed), &placed))
        r = entries_write(index, &placed, pages, ret_root);
    free(places);
    scratch_done(&placed);
    return r;
}

void row_index_done(struct row_index *index)
{
    scratch_done(&index->log);
    *index = (struct row_index){0};
}
