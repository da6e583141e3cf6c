// SPDX-License-Identifier: Apache-2.0
//
// The store is a log. Packets are appended; superseded or read packets are marked dead in place;
// compaction moves the live packets together. Compaction runs when the log reaches the end of its
// memory, or earlier if more than half of the log is dead, so that a store with little content
// stays small. In both cases, compaction frees a part of the log that is at least proportional to
// the moved part. Therefore the cost per packet stays constant, and nothing fragments.
//
// Packets of one key are found by a hash table of chains through the log. Chains may include dead
// packets; compaction rebuilds them. At the limit, the oldest packets are dropped, whatever key
// they have. Among packets that build on each other, the oldest packet is the base: a reader sees
// that the base is missing, instead of a gap in the middle. Only packets with PACKET_RETAIN_ALWAYS
// stay.
#include "producer/trace/retained_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "common/memory.h"

#define ALIGNMENT          16
#define BUCKET_BYTES       512         // bytes of the limit per bucket
#define DEAD_BYTES_IGNORED (64u << 10) // not worth a compaction
#define NO_LINK            0

struct entry {
    uint64_t position;
    uint64_t key;
    uint32_t sequence_id;
    uint32_t size; // bytes of the packet, which follows
    uint32_t next; // link to an older entry of the bucket
    bool dead;
    bool always; // PACKET_RETAIN_ALWAYS
    uint8_t padding[2];
};

static_assert(sizeof(struct entry) % ALIGNMENT == 0, "packets and entries stay aligned");

struct retained_store {
    uint8_t *memory; // owned, mapped, `limit` bytes
    size_t limit;
    size_t first; // offset; all entries before it are dead
    size_t end;
    size_t live; // bytes of live entries, with their headers
    uint64_t n_packets, n_bytes, n_dropped;
    uint64_t epoch;    // counts moves of entries, for cursors
    uint32_t *buckets; // owned
    size_t n_buckets;  // a power of two
};

DEFINE_CLEANUP(retained_store_freep, struct retained_store, retained_store_free);

static size_t entry_bytes(size_t size)
{
    return (sizeof(struct entry) + size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static struct entry *entry_at(const struct retained_store *store, size_t offset)
{
    return (struct entry *)(store->memory + offset);
}

static size_t offset_after(size_t offset, const struct entry *entry)
{
    return offset + entry_bytes(entry->size);
}

// A link is an entry's offset in units of the alignment, plus one.
static uint32_t link_to(size_t offset)
{
    return (uint32_t)(offset / ALIGNMENT + 1);
}

static struct entry *entry_linked(const struct retained_store *store, uint32_t link)
{
    return link == NO_LINK ? NULL : entry_at(store, (size_t)(link - 1) * ALIGNMENT);
}

static uint32_t *bucket_of(const struct retained_store *store, uint32_t sequence_id, uint64_t key)
{
    uint64_t hash = table_hash_u64(key ^ table_hash_u64(sequence_id));
    return &store->buckets[hash & (store->n_buckets - 1)];
}

int retained_store_new(size_t limit_bytes, struct retained_store **ret, struct err *err)
{
    CLEANUP(retained_store_freep) struct retained_store *store = memory_calloc(1, sizeof(*store));
    if (!store)
        return err_errno(err, -ENOMEM, "Packet store");
    // Links have 32 bits.
    size_t most = (size_t)(UINT32_MAX - 1) * ALIGNMENT;
    store->limit = (limit_bytes < most ? limit_bytes : most) & ~(size_t)(ALIGNMENT - 1);
    store->n_buckets = 64;
    while (store->n_buckets < store->limit / BUCKET_BYTES)
        store->n_buckets *= 2;
    store->buckets = memory_calloc(store->n_buckets, sizeof(*store->buckets));
    void *memory = mmap(NULL, store->limit, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
        store->memory = memory;
        retained_store_keep_in_fork(store, false);
    }
    if (!store->buckets || !store->memory)
        return err_errno(err, -ENOMEM, "Packet store of %zu bytes", store->limit);
    *ret = STEAL(store);
    return 0;
}

void retained_store_keep_in_fork(const struct retained_store *store, bool keep)
{
    madvise(store->memory, store->limit, keep ? MADV_DOFORK : MADV_DONTFORK);
}

struct retained_store *retained_store_free(struct retained_store *store)
{
    if (!store)
        return NULL;
    int saved = errno;
    if (store->memory)
        munmap(store->memory, store->limit);
    free(store->buckets);
    free(store);
    errno = saved;
    return NULL;
}

static void kill_entry(struct retained_store *store, struct entry *entry)
{
    entry->dead = true;
    store->live -= entry_bytes(entry->size);
    store->n_packets--;
    store->n_bytes -= entry->size;
}

static void skip_dead(struct retained_store *store)
{
    while (store->first < store->end && entry_at(store, store->first)->dead)
        store->first = offset_after(store->first, entry_at(store, store->first));
}

static void forget_links(struct retained_store *store)
{
    memset(store->buckets, 0, store->n_buckets * sizeof(*store->buckets));
    store->epoch++;
}

static void link_entry(struct retained_store *store, size_t offset)
{
    struct entry *entry = entry_at(store, offset);
    uint32_t *bucket = bucket_of(store, entry->sequence_id, entry->key);
    entry->next = *bucket;
    *bucket = link_to(offset);
}

static void compact(struct retained_store *store)
{
    forget_links(store);
    size_t to = 0, next;
    for (size_t from = store->first; from < store->end; from = next) {
        struct entry *entry = entry_at(store, from);
        next = offset_after(from, entry);
        if (entry->dead)
            continue;
        if (to != from)
            memmove(store->memory + to, entry, next - from);
        link_entry(store, to);
        to += next - from;
    }
    store->first = 0;
    store->end = to;
}

// Kills the oldest packets until a quarter of the memory is free beyond `bytes`. Returns false if
// the rest must stay.
static bool give_way(struct retained_store *store, size_t bytes)
{
    size_t at = store->first;
    while (store->live + bytes > store->limit / 4 * 3) {
        while (at < store->end && (entry_at(store, at)->dead || entry_at(store, at)->always))
            at = offset_after(at, entry_at(store, at));
        if (at == store->end)
            return false;
        kill_entry(store, entry_at(store, at));
        store->n_dropped++;
    }
    return true;
}

// Makes room for `bytes` at the end of the log. If necessary, drops the oldest packets, and leaves
// a quarter of the memory free, so that the next compaction is far away.
static bool make_room(struct retained_store *store, size_t bytes)
{
    if (bytes > store->limit / 4 * 3)
        return false;
    size_t dead = store->end - store->live;
    if (bytes <= store->limit - store->end && dead <= store->live + DEAD_BYTES_IGNORED)
        return true;
    if (bytes > store->limit - store->end && !give_way(store, bytes))
        return false;
    compact(store);
    return true;
}

static void forget_key(struct retained_store *store, uint32_t sequence_id, uint64_t key)
{
    uint32_t *link = bucket_of(store, sequence_id, key);
    for (struct entry *entry; (entry = entry_linked(store, *link));) {
        bool same = entry->key == key && entry->sequence_id == sequence_id;
        if (same && !entry->dead)
            kill_entry(store, entry);
        if (entry->dead)
            *link = entry->next;
        else
            link = &entry->next;
    }
}

static void reset_if_empty(struct retained_store *store)
{
    if (store->n_packets || !store->end)
        return;
    forget_links(store);
    store->first = store->end = 0;
}

bool retained_store_take(struct retained_store *store, const struct packet_meta *meta,
                         uint64_t position, const uint8_t *data, size_t size)
{
    if (meta->retain == PACKET_PLAIN)
        return false;
    if (meta->retain != PACKET_RETAIN_APPEND)
        forget_key(store, meta->sequence_id, meta->key);
    if (meta->retain == PACKET_RETAIN_FORGET)
        return false;
    if (!make_room(store, entry_bytes(size))) {
        store->n_dropped++;
        return false;
    }
    size_t offset = store->end;
    struct entry *entry = entry_at(store, offset);
    *entry = (struct entry){
        .position = position,
        .key = meta->key,
        .sequence_id = meta->sequence_id,
        .size = (uint32_t)size,
        .always = meta->retain == PACKET_RETAIN_ALWAYS,
    };
    memcpy(entry + 1, data, size);
    link_entry(store, offset);
    store->end = offset_after(offset, entry);
    store->live += entry_bytes(size);
    store->n_packets++;
    store->n_bytes += size;
    return true;
}

static struct packet_view view_of(const struct entry *entry)
{
    return (struct packet_view){
        .data = (const uint8_t *)(entry + 1),
        .size = entry->size,
        .sequence_id = entry->sequence_id,
    };
}

bool retained_store_peek(struct retained_store *store, struct packet_view *ret)
{
    if (!store->n_packets)
        return false;
    skip_dead(store);
    *ret = view_of(entry_at(store, store->first));
    return true;
}

void retained_store_drop_first(struct retained_store *store)
{
    assert(store->n_packets);
    skip_dead(store);
    kill_entry(store, entry_at(store, store->first));
    reset_if_empty(store);
}

bool retained_store_next(const struct retained_store *store, struct packet_cursor *cursor,
                         struct packet_view *ret)
{
    bool moved = cursor->store_epoch != store->epoch;
    size_t offset =
        moved || cursor->store_offset < store->first ? store->first : cursor->store_offset;
    for (; offset < store->end; offset = offset_after(offset, entry_at(store, offset))) {
        const struct entry *entry = entry_at(store, offset);
        if (!entry->dead && entry->position >= cursor->position)
            break;
    }
    cursor->store_epoch = store->epoch;
    cursor->store_offset = offset;
    if (offset >= store->end || entry_at(store, offset)->position >= cursor->end)
        return false;
    *ret = view_of(entry_at(store, offset));
    cursor->position = entry_at(store, offset)->position + 1;
    cursor->store_offset = offset_after(offset, entry_at(store, offset));
    return true;
}

struct retained_store_stats retained_store_get_stats(const struct retained_store *store)
{
    return (struct retained_store_stats){
        .packets = store->n_packets,
        .bytes = store->n_bytes,
        .dropped = store->n_dropped,
    };
}
