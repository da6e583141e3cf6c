// SPDX-License-Identifier: Apache-2.0
//
// An address becomes a frame when it first appears. The code that is loaded at that moment decides
// its meaning. When code is unloaded, the addresses are forgotten and the frames stay: a site never
// changes its meaning.
//
// A program has few stacks and repeats each many times: a hash of 64 bits leads from a whole stack
// to its site. Only a client that wants to confuse its own profile can make hashes collide.
//
// The peak costs nothing while the heap grows: a site's own numbers are its numbers at the peak.
// After the heap has shrunk, they are copied aside before the site's first change.
//
// A method's number never changes its meaning: the first name counts. Methods beyond the limits
// have no name.
//
// A program may report 65,535 pieces of code, and each as often as it likes: a piece is found by
// its address (code_map.h) or by a hash of its fields, never by a walk over the others. Where
// pieces overlap, the last report counts.
//
// A live sample is 8 bytes beside its address: 24 bits for the site, 40 for its weight.
#include "producer/sources/heap/heap_book.h"

#include <errno.h>

#define SITES_MAX    (1u << 24)
#define WEIGHT_BITS  40
#define WEIGHT_MAX   ((UINT64_C(1) << WEIGHT_BITS) - 1)
#define MAPPINGS_MAX 65535
#define REL_PC_BITS  48
#define TEXT_EXTRA   64 // approximate memory of a text beside its bytes
#define METHODS_MAX  (1u << 20)
#define METHOD_BYTES (UINT64_C(64) << 20) // of method names

VEC_DEFINE(address_vec, uint64_t);

static void forget_addresses(struct heap_book *book)
{
    map64_clear(&book->frame_of_pc);
    map64_clear(&book->site_of_stack);
}

// Returns 0, -ENOMEM, or -ENOSPC if the text is new and there is no room for more.
static int add_text(struct heap_book *book, const char *text, size_t size, uint32_t *ret)
{
    struct book_room *room = book->room;
    size_t n = book->texts.n;
    if (room && room->text_bytes + size + TEXT_EXTRA > BOOK_TEXT_BYTES &&
        strset_find(&book->texts, text, size) == STRSET_NONE)
        return -ENOSPC;
    uint32_t number = strset_add(&book->texts, text, size);
    if (number == STRSET_NONE)
        return -ENOMEM;
    *ret = number;
    if (room && book->texts.n > n)
        room->text_bytes += size + TEXT_EXTRA;
    return 0;
}

static uint64_t hash_mapping(const struct book_mapping *mapping)
{
    const uint64_t parts[] = {mapping->start, mapping->end, mapping->file_offset,
                              (uint64_t)mapping->path << 32 | mapping->build_id};
    return hash_bytes(parts, sizeof(parts));
}

static int push_mapping(struct heap_book *book, struct book_mapping *mapping)
{
    struct book_room *room = book->room;
    uint32_t number = (uint32_t)book->mappings.n;
    if (number >= MAPPINGS_MAX || (room && room->n_mappings >= BOOK_MAPPINGS_MAX))
        return -ENOSPC;
    mapping->told = book->n_forgotten;
    int r = book_mapping_vec_reserve(&book->mappings, number + (size_t)1);
    if (r == 0)
        r = map64_set(&book->mapping_of, hash_mapping(mapping), number);
    if (r == 0)
        r = code_map_add(&book->code, mapping->start, mapping->end, number);
    if (r < 0)
        return r;
    book_mapping_vec_push(&book->mappings, *mapping);
    if (room)
        room->n_mappings++;
    return 0;
}

// Returns the number of the equal mapping of an earlier report, or BOOK_NO_MAPPING.
static uint32_t known_mapping(const struct heap_book *book, const struct book_mapping *mapping)
{
    const uint64_t *number = map64_find(&book->mapping_of, hash_mapping(mapping));
    if (!number || *number >= book->mappings.n)
        return BOOK_NO_MAPPING;
    const struct book_mapping *known = &book->mappings.items[*number];
    bool is_same = known->start == mapping->start && known->end == mapping->end &&
                   known->path == mapping->path && known->build_id == mapping->build_id &&
                   known->file_offset == mapping->file_offset;
    return is_same ? (uint32_t)*number : BOOK_NO_MAPPING;
}

static bool is_there(const struct heap_book *book, const struct book_mapping *mapping)
{
    return mapping->told == book->n_forgotten;
}

static int add_mapping(struct heap_book *book, const struct ring_record *record)
{
    struct book_mapping mapping = {
        .start = record->object.start,
        .end = record->object.end,
        .file_offset = record->object.file_offset,
        .load_bias = record->object.load_bias,
    };
    int r = add_text(book, record->path, record->object.path_size, &mapping.path);
    if (r == 0)
        r = add_text(book, (const char *)record->id, record->object.id_size, &mapping.build_id);
    if (r < 0)
        return r;
    uint32_t number = known_mapping(book, &mapping);
    if (number != BOOK_NO_MAPPING) {
        struct book_mapping *known = &book->mappings.items[number];
        if (is_there(book, known))
            return 0;
        forget_addresses(book);
        known->told = book->n_forgotten;
        return code_map_add(&book->code, known->start, known->end, number);
    }
    r = push_mapping(book, &mapping);
    if (r == 0)
        forget_addresses(book); // some had no mapping until now
    return r;
}

int heap_book_copy_mappings(struct heap_book *book, const struct heap_book *from)
{
    vec_foreach(&from->mappings, other) {
        const struct strset_entry *path = &from->texts.entries[other->path];
        const struct strset_entry *id = &from->texts.entries[other->build_id];
        struct book_mapping mapping = *other;
        if (!is_there(from, other))
            continue;
        int r = add_text(book, path->text, path->size, &mapping.path);
        if (r == 0)
            r = add_text(book, id->text, id->size, &mapping.build_id);
        if (r == 0)
            r = push_mapping(book, &mapping);
        if (r < 0)
            return r == -ENOSPC ? 0 : r;
    }
    return 0;
}

static void forget_mappings(struct heap_book *book)
{
    book->n_forgotten++;
    code_map_clear(&book->code);
    forget_addresses(book);
}

static int add_method(struct heap_book *book, const struct ring_record *record)
{
    const struct heap_method *method = record->method;
    bool is_new;
    if (book->methods.n >= METHODS_MAX || book->method_bytes + method->name_size > METHOD_BYTES ||
        method->number == 0 || method->number >> REL_PC_BITS)
        return 0;
    uint64_t *name = map64_get_or_add(&book->methods, method->number, 0, &is_new);
    if (!name)
        return -ENOMEM;
    if (!is_new)
        return 0;
    uint32_t text = strset_add(&book->texts, record->method_name, method->name_size);
    if (text == STRSET_NONE) {
        map64_remove(&book->methods, method->number);
        return -ENOMEM;
    }
    book->method_bytes += method->name_size;
    *name = text;
    return 0;
}

static int method_frame_of(struct heap_book *book, uint64_t number, uint32_t *ret)
{
    const uint64_t *name = map64_find(&book->methods, number);
    struct book_frame frame = {.mapping = BOOK_METHOD, .name = STRSET_NONE};
    bool is_new;
    if (name) {
        frame.rel_pc = number;
        frame.name = (uint32_t)*name;
    }
    uint64_t *index = map64_get_or_add(&book->frame_of, frame.rel_pc, book->frames.n, &is_new);
    if (!index)
        return -ENOMEM;
    if (is_new && book_frame_vec_push(&book->frames, frame) < 0) {
        map64_remove(&book->frame_of, frame.rel_pc);
        return -ENOMEM;
    }
    *ret = (uint32_t)*index;
    return 0;
}

// A return address belongs to the call before it.
static int frame_of(struct heap_book *book, uint64_t return_address, uint32_t *ret)
{
    uint64_t pc = return_address - 1;
    bool is_new;
    if (book->has_methods)
        return method_frame_of(book, return_address, ret);
    uint64_t *known = map64_get_or_add(&book->frame_of_pc, pc, 0, &is_new);
    if (!known)
        return -ENOMEM;
    if (!is_new) {
        *ret = (uint32_t)*known;
        return 0;
    }
    struct book_frame frame = {
        .mapping = code_map_find(&book->code, pc), .rel_pc = pc, .name = STRSET_NONE};
    if (frame.mapping != BOOK_NO_MAPPING) {
        const struct book_mapping *mapping = &book->mappings.items[frame.mapping];
        frame.rel_pc = pc - mapping->start + mapping->file_offset + mapping->load_bias;
    }
    uint64_t key = (uint64_t)(frame.mapping & 0xffff) << REL_PC_BITS |
                   (frame.rel_pc & ((UINT64_C(1) << REL_PC_BITS) - 1));
    uint64_t *index = map64_get_or_add(&book->frame_of, key, book->frames.n, &is_new);
    if (!index || (is_new && book_frame_vec_push(&book->frames, frame) < 0)) {
        if (index)
            map64_remove(&book->frame_of, key);
        map64_remove(&book->frame_of_pc, pc);
        return -ENOMEM;
    }
    *known = *index;
    *ret = (uint32_t)*index;
    return 0;
}

static int make_site(struct heap_book *book, const struct ring_record *record, uint32_t *ret)
{
    uint32_t site = 0;
    if (book->sites.n == 0 && book_site_vec_push(&book->sites, (struct book_site){0}) < 0)
        return -ENOMEM;
    for (size_t i = record->n_frames; i-- > 0;) {
        uint32_t frame;
        bool is_new;
        int r = frame_of(book, record->frames[i], &frame);
        if (r < 0)
            return r;
        if (book->sites.n >= SITES_MAX || (book->room && book->room->n_sites >= BOOK_SITES_MAX))
            return -ENOSPC;
        uint64_t *next =
            map64_get_or_add(&book->site_of, (uint64_t)site << 32 | frame, book->sites.n, &is_new);
        if (!next)
            return -ENOMEM;
        struct book_site child = {.parent = site, .frame = frame};
        site = (uint32_t)*next;
        if (is_new && book_site_vec_push(&book->sites, child) < 0) {
            map64_remove(&book->site_of, (uint64_t)child.parent << 32 | frame);
            return -ENOMEM;
        }
        if (is_new && book->room)
            book->room->n_sites++;
    }
    *ret = site;
    return 0;
}

static int site_of(struct heap_book *book, const struct ring_record *record, uint32_t *ret)
{
    if (record->n_frames == 0)
        return make_site(book, record, ret);
    uint64_t key = hash_bytes(record->frames, record->n_frames * sizeof(record->frames[0]));
    const uint64_t *known = map64_find(&book->site_of_stack, key);
    if (known) {
        *ret = (uint32_t)*known;
        return 0;
    }
    uint32_t site;
    int r = make_site(book, record, &site);
    if (r == 0)
        r = map64_set(&book->site_of_stack, key, site);
    if (r == 0)
        *ret = site;
    return r;
}

struct book_peak heap_book_at_peak(const struct heap_book *book, const struct book_site *site)
{
    if (book->below_peak && site->peak == book->peak)
        return (struct book_peak){site->bytes_at_peak, site->n_at_peak};
    return (struct book_peak){site->allocated - site->freed, site->n_allocs - site->n_frees};
}

// Call it before a site changes.
static void keep_peak(struct heap_book *book, struct book_site *site)
{
    if (!book->below_peak || site->peak == book->peak)
        return;
    site->bytes_at_peak = site->allocated - site->freed;
    site->n_at_peak = site->n_allocs - site->n_frees;
    site->peak = book->peak;
}

static void count_alloc(struct heap_book *book, struct book_site *site, uint64_t weight)
{
    if (book->total + weight > book->peak_total) {
        book->peak_total = book->total + weight;
        book->below_peak = false;
    }
    keep_peak(book, site);
    site->allocated += weight;
    site->n_allocs++;
    book->total += weight;
}

static void count_free(struct heap_book *book, uint64_t packed)
{
    struct book_site *site = &book->sites.items[packed >> WEIGHT_BITS];
    uint64_t weight = packed & WEIGHT_MAX;
    if (!book->below_peak) {
        book->below_peak = true;
        book->peak++;
    }
    keep_peak(book, site);
    site->freed += weight;
    site->n_frees++;
    book->total -= weight;
}

static bool has_room_for_sample(const struct heap_book *book, uint64_t address)
{
    return !book->room || book->room->n_live < BOOK_LIVE_MAX || map64_find(&book->live, address);
}

static void forget_live(struct heap_book *book, uint64_t address)
{
    map64_remove(&book->live, address);
    if (book->room)
        book->room->n_live--;
}

static int add_alloc(struct heap_book *book, const struct ring_record *record)
{
    uint32_t site;
    bool is_new;
    int r = has_room_for_sample(book, record->address) ? site_of(book, record, &site) : -ENOSPC;
    if (r == -ENOSPC) {
        book->n_dropped++;
        return 0;
    }
    if (r < 0)
        return r;
    uint64_t weight = record->weight < WEIGHT_MAX ? record->weight : WEIGHT_MAX;
    uint64_t packed = (uint64_t)site << WEIGHT_BITS | weight;
    uint64_t *live = map64_get_or_add(&book->live, record->address, packed, &is_new);
    if (!live)
        return -ENOMEM;
    // The address was handed out again, so its old sample was freed unseen.
    if (!is_new)
        count_free(book, *live);
    else if (book->room)
        book->room->n_live++;
    *live = packed;
    count_alloc(book, &book->sites.items[site], weight);
    return 0;
}

int heap_book_add(struct heap_book *book, const struct ring_record *record)
{
    switch (record->kind) {
    case HEAP_ALLOC:
        return add_alloc(book, record);
    case HEAP_FREE: {
        const uint64_t *live = map64_find(&book->live, record->address);
        if (live) {
            count_free(book, *live);
            forget_live(book, record->address);
        }
        return 0;
    }
    case HEAP_OBJECT: {
        int r = add_mapping(book, record);
        return r == -ENOSPC ? 0 : r; // its code has no names
    }
    case HEAP_METHOD:
        return book->has_methods ? add_method(book, record) : 0;
    case HEAP_OBJECTS:
        forget_mappings(book);
        return 0;
    default:
        return 0;
    }
}

int heap_book_reconcile(struct heap_book *book, book_is_live_fn is_live, void *userdata)
{
    struct address_vec dead = {0};
    const struct map64_slot *slot;
    int r = 0;
    for (size_t cursor = 0; r == 0 && (slot = map64_next(&book->live, &cursor));)
        if (!is_live(userdata, slot->key))
            r = address_vec_push(&dead, slot->key);
    vec_foreach(&dead, address) {
        count_free(book, *map64_find(&book->live, *address));
        forget_live(book, *address);
    }
    address_vec_done(&dead);
    return r;
}

void heap_book_done(struct heap_book *book)
{
    strset_done(&book->texts);
    book_mapping_vec_done(&book->mappings);
    map64_done(&book->mapping_of);
    code_map_done(&book->code);
    book_frame_vec_done(&book->frames);
    book_site_vec_done(&book->sites);
    map64_done(&book->frame_of_pc);
    map64_done(&book->site_of_stack);
    map64_done(&book->frame_of);
    map64_done(&book->site_of);
    map64_done(&book->live);
    map64_done(&book->methods);
    *book = (struct heap_book){0};
}
