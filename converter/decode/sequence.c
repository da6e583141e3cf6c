// SPDX-License-Identifier: Apache-2.0
//
// Entries are references into the trace, so an entry takes 64 bytes, however long its text is. New
// defaults make a new generation, which shares the interned table with the previous generation.
#include "converter/decode/sequence.h"
#include "common/memory.h"
#include "protos/fields.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(PB_DATA_LOSS_READ_GAP == 2 && PB_DATA_LOSS_SMB_FULL == 1 << LOSS_CAUSES,
               "sequence_note_gap() counts each bit after the first");

#define UNINDEXED_MAX 8
#define LONG_BYTES    4096 // an entry of more bytes is long
#define LONG_BYTES_MAX                                                                             \
    (UINT64_C(256) << 20) // sum of the long entries that generation_find() returns

static uint64_t interned_key(uint32_t field, uint64_t iid)
{
    return table_hash_u64(iid) ^ (uint64_t)field * 0x9e3779b97f4a7c15ULL;
}

static int generation_start(struct sequences *sequences, struct sequence *sequence,
                            struct generation generation)
{
    if (sequences->generations.n > UINT32_MAX - 1)
        return -ENOMEM;
    int r = generation_vec_push(&sequences->generations, generation);
    if (r == 0)
        sequence->generation = (uint32_t)(sequences->generations.n - 1);
    return r;
}

struct sequence *sequences_get(struct sequences *sequences, uint32_t machine, uint32_t sequence_id)
{
    uint64_t id = (uint64_t)machine << 32 | sequence_id;
    uint64_t *index = map64_find(&sequences->by_id, id);
    if (index)
        return &sequences->items.items[*index];
    if (sequence_vec_push(&sequences->items, (struct sequence){0}) < 0 ||
        map64_set(&sequences->by_id, id, sequences->items.n - 1) < 0)
        return NULL;
    struct sequence *sequence = &sequences->items.items[sequences->items.n - 1];
    struct generation first = {.sequence_id = sequence_id,
                               .sequence = (uint32_t)sequences->items.n - 1,
                               .machine = machine,
                               .epoch = ++sequences->n_epochs,
                               .use = &sequences->use};
    return generation_start(sequences, sequence, first) < 0 ? NULL : sequence;
}

int sequence_clear(struct sequences *sequences, struct sequence *sequence)
{
    const struct generation *now = sequences_generation(sequences, sequence->generation);
    sequence->valid = true;
    sequence->thread_clock = (struct thread_clock){0};
    struct generation next = {.sequence_id = now->sequence_id,
                              .sequence = now->sequence,
                              .machine = now->machine,
                              .epoch = ++sequences->n_epochs,
                              .use = now->use,
                              .has_first = sequence->has_first};
    return generation_start(sequences, sequence, next);
}

int sequence_set_defaults(struct sequences *sequences, struct sequence *sequence,
                          struct wire_reader defaults)
{
    struct generation next = *sequences_generation(sequences, sequence->generation);
    next.defaults = defaults;
    return generation_start(sequences, sequence, next);
}

static struct interned_table *table_get(struct sequences *sequences, struct sequence *sequence)
{
    struct generation *now = &sequences->generations.items[sequence->generation];
    if (now->interned)
        return now->interned;
    struct interned_table *table = memory_calloc(1, sizeof(*table));
    if (!table || interned_table_vec_push(&sequences->tables, table) < 0) {
        free(table);
        return NULL;
    }
    return now->interned = table;
}

static struct interned *table_find(const struct interned_table *table, uint32_t field, uint64_t iid)
{
    for (size_t i = 0; i < table->entries.n && table->entries.n <= UNINDEXED_MAX; i++) {
        struct interned *entry = &table->entries.items[i];
        if (entry->field == field && entry->iid == iid)
            return entry;
    }
    if (table->entries.n <= UNINDEXED_MAX)
        return NULL;
    // Hashed keys may collide: the loop compares the entry, and tries the next key.
    uint64_t key = interned_key(field, iid);
    const uint64_t *index;
    for (; (index = map64_find(&table->index, key)); key++) {
        struct interned *entry = &table->entries.items[*index];
        if (entry->field == field && entry->iid == iid)
            return entry;
    }
    return NULL;
}

// Adds the entry at `at` to the index.
static int table_index(struct interned_table *table, size_t at)
{
    const struct interned *entry = &table->entries.items[at];
    uint64_t key = interned_key(entry->field, entry->iid);
    while (map64_find(&table->index, key))
        key++;
    return map64_set(&table->index, key, at);
}

// Appends an entry. Small tables have no index: a trace that clears its state very often has many
// small tables.
static int table_push(struct interned_table *table, struct interned entry)
{
    int r = interned_vec_push(&table->entries, entry);
    if (r < 0 || table->entries.n <= UNINDEXED_MAX)
        return r;
    size_t first = table->entries.n == UNINDEXED_MAX + 1 ? 0 : table->entries.n - 1;
    for (size_t i = first; i < table->entries.n && r == 0; i++)
        r = table_index(table, i);
    return r;
}

static int table_add(struct interned_table *table, const struct wire_field *field,
                     struct interned_use *use)
{
    struct wire_reader reader = wire_sub(field);
    struct wire_field inner;
    uint64_t iid = 0;
    bool has_iid = false;
    wire_foreach(&reader, &inner) {
        if (inner.number != PB_InternedString_iid || inner.type != WIRE_VARINT)
            continue;
        iid = inner.value;
        has_iid = true;
    }
    if (use)
        use->n_missing += !has_iid;
    if (reader.error || table_find(table, field->number, iid))
        return 0;
    struct interned entry = {
        .iid = iid, .data = field->data, .size = (uint32_t)field->size, .field = field->number};
    return table_push(table, entry);
}

int interned_table_read(struct interned_table *table, struct wire_reader interned_data,
                        struct interned_use *use)
{
    struct wire_field field;
    wire_foreach(&interned_data, &field) {
        int r = field.type == WIRE_BYTES ? table_add(table, &field, use) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

void interned_table_done(struct interned_table *table)
{
    interned_vec_done(&table->entries);
    map64_done(&table->index);
}

int sequence_intern(struct sequences *sequences, struct sequence *sequence,
                    struct wire_reader interned_data)
{
    struct interned_table *table = table_get(sequences, sequence);
    return table ? interned_table_read(table, interned_data, &sequences->use) : -ENOMEM;
}

struct interned *generation_entry(const struct generation *generation, uint32_t field, uint64_t iid)
{
    struct interned *found =
        generation->interned ? table_find(generation->interned, field, iid) : NULL;
    if (!found && generation->use)
        generation->use->n_missing++;
    return found;
}

struct interned *generation_find(const struct generation *generation, uint32_t field, uint64_t iid)
{
    struct interned *found = generation_entry(generation, field, iid);
    if (!found || found->size <= LONG_BYTES || !generation->use)
        return found;
    if (generation->use->n_long_bytes > LONG_BYTES_MAX) {
        generation->use->n_withheld++;
        return NULL;
    }
    generation->use->n_long_bytes += found->size;
    return found;
}

void sequences_done(struct sequences *sequences)
{
    vec_foreach(&sequences->tables, table) {
        interned_table_done(*table);
        free(*table);
    }
    interned_table_vec_done(&sequences->tables);
    generation_vec_done(&sequences->generations);
    sequence_vec_done(&sequences->items);
    map64_done(&sequences->by_id);
    *sequences = (struct sequences){0};
}

bool sequences_is_valid(const struct sequences *sequences, uint32_t machine, uint32_t sequence_id)
{
    const uint64_t *index = map64_find(&sequences->by_id, (uint64_t)machine << 32 | sequence_id);
    return index && sequences->items.items[*index].valid;
}

const struct sequence_losses *sequences_losses(const struct sequences *sequences, uint32_t machine,
                                               uint32_t sequence_id)
{
    const uint64_t *index = map64_find(&sequences->by_id, (uint64_t)machine << 32 | sequence_id);
    return index ? &sequences->items.items[*index].losses : NULL;
}

void sequence_note_gap(struct sequence *sequence, uint32_t reasons)
{
    sequence->losses.n_gaps++;
    for (unsigned i = 0; i < LOSS_CAUSES; i++)
        sequence->losses.n_by_cause[i] += reasons >> (i + 1) & 1;
}

void sequence_set_first(struct sequences *sequences, struct sequence *sequence)
{
    sequence->has_first = true;
    sequences->generations.items[sequence->generation].has_first = true;
}
