// SPDX-License-Identifier: Apache-2.0
//
// Records are adjacent in a block of memory: a header of 16 bytes, the packet, and padding to the
// next multiple of 16. A packet is always contiguous, so that it is encoded and written out in
// place. If the room up to the end of the memory is too small, a padding record fills it, and
// writing continues at the beginning.
//
// Places in the buffer are 64-bit positions that only grow. The offset of a position in memory is
// its remainder by the capacity. `tail` is the oldest unread record, `head` the place of the next
// record; at most `capacity` bytes lie between the two. Reading moves the tail. A ring that needs
// room also moves the tail: unread packets that the tail passes go to the retained store or are
// dropped. Read packets have left the buffer and never get into the store. Therefore every packet
// is read at most once, and everything in the store is older than everything in the ring. Positions
// also serve as cursors: they stay valid when records move to the store during a walk, because
// entries of the store keep their position.
//
// An empty buffer starts again at the beginning of its memory. Therefore a buffer that is drained
// often touches only the pages that it needs between two drains, and these pages stay in the
// processor's cache.
//
// The beginning that a ring keeps is a separate DISCARD buffer before the ring. Once this
// buffer has refused a packet, it takes no more, so that all its packets are older than the ring
// and the store. It takes packets again only when the whole buffer is empty.
//
// The last read-out returns consumed memory to the kernel. The kernel reuses the last freed pages
// first. Therefore the trace goes to the page cache through pages in the processor's cache, and the
// system never holds the trace twice. (On a virtual machine, the first use of a page costs ten
// times the copy.)
#include "producer/trace/packet_buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/page_release.h"
#include "producer/trace/buffer_memory.h"
#include "producer/trace/retained_store.h"

#define ALIGNMENT     16
#define SIZE_MIN      4096
#define STORE_MIN     ((size_t)1 << 20)
#define PACKET_MAX    (((size_t)1 << 29) - 1) // bits of record.size
#define GENEROSITY    16 // a 16th of the ring may be dropped for bytes beyond `min`
#define RECORD_FILLER 5  // beyond enum packet_retain

struct record {
    uint32_t size : 29; // bytes of the packet, which follows
    uint32_t rule : 3;  // enum packet_retain, or RECORD_FILLER
    uint32_t sequence_id;
    uint64_t key; // for PACKET_PLAIN: the number of events
};

static_assert(sizeof(struct record) == ALIGNMENT, "a header fits wherever there is any room");

struct place {
    uint64_t position;
    size_t offset; // position % capacity
};

struct packet_buffer {
    struct buffer_memory mapping;
    uint8_t *memory; // of the mapping, `capacity` bytes
    size_t capacity;
    size_t page_size;
    enum packet_buffer_policy policy;
    struct place head, tail;
    size_t reserved; // bytes of the open reservation
    bool is_reserved;
    bool releases;                  // consumed memory is returned to the kernel
    struct place released;          // end of the returned memory
    struct retained_store *store;   // owned; NULL for DISCARD
    struct packet_buffer *first;    // owned; the beginning that the ring keeps, or NULL
    bool first_is_full;             // new packets go into the ring
    packet_buffer_lost_fn *on_lost; // with `first` only; NULL: no call
    void *on_lost_userdata;         // borrowed
    struct packet_buffer_stats stats;
};

DEFINE_CLEANUP(packet_buffer_freep, struct packet_buffer, packet_buffer_free);

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static size_t record_bytes(size_t size)
{
    return (sizeof(struct record) + size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static struct record *record_at(const struct packet_buffer *buffer, size_t offset)
{
    return (struct record *)(buffer->memory + offset);
}

static bool is_empty(const struct packet_buffer *buffer)
{
    return buffer->head.position == buffer->tail.position;
}

static void advance(const struct packet_buffer *buffer, struct place *place, size_t bytes)
{
    place->position += bytes;
    place->offset += bytes;
    if (place->offset == buffer->capacity)
        place->offset = 0;
}

static size_t store_bytes(size_t capacity)
{
    return capacity / 4 > STORE_MIN ? capacity / 4 : STORE_MIN;
}

uint64_t packet_buffer_retainable_bytes(const struct packet_buffer *buffer)
{
    return buffer->store ? store_bytes(buffer->capacity) : UINT64_MAX;
}

int packet_buffer_new(size_t size_bytes, enum packet_buffer_policy policy,
                      struct packet_buffer **ret, struct err *err)
{
    if (size_bytes < SIZE_MIN)
        return err_set(err, -EINVAL, "A buffer of %zu bytes is too small, %d is the least",
                       size_bytes, SIZE_MIN);
    if (size_bytes > SIZE_MAX / 2)
        return err_errno(err, -ENOMEM, "Buffer of %zu bytes", size_bytes);
    CLEANUP(packet_buffer_freep) struct packet_buffer *buffer = memory_calloc(1, sizeof(*buffer));
    if (!buffer)
        return err_errno(err, -ENOMEM, "Buffer");
    buffer->policy = policy;
    buffer->page_size = (size_t)sysconf(_SC_PAGESIZE);
    buffer->capacity = round_up(size_bytes, buffer->page_size);
    buffer->stats.size_bytes = buffer->capacity;
    int r = buffer_memory_map(&buffer->mapping, buffer->capacity, err);
    if (r == 0 && policy == PACKET_BUFFER_RING)
        r = retained_store_new(store_bytes(buffer->capacity), &buffer->store, err);
    if (r < 0)
        return r;
    buffer->memory = buffer->mapping.start;
    *ret = STEAL(buffer);
    return 0;
}

int packet_buffer_new_both_ends(size_t size_bytes, size_t first_bytes, struct packet_buffer **ret,
                                struct err *err)
{
    CLEANUP(packet_buffer_freep) struct packet_buffer *buffer = NULL;
    int r = packet_buffer_new(size_bytes > first_bytes ? size_bytes - first_bytes : 0,
                              PACKET_BUFFER_RING, &buffer, err);
    if (r == 0)
        r = packet_buffer_new(first_bytes, PACKET_BUFFER_DISCARD, &buffer->first, err);
    if (r < 0)
        return r;
    *ret = STEAL(buffer);
    return 0;
}

struct packet_buffer *packet_buffer_free(struct packet_buffer *buffer)
{
    if (!buffer)
        return NULL;
    int saved = errno;
    packet_buffer_free(buffer->first);
    retained_store_free(buffer->store);
    buffer_memory_unmap(&buffer->mapping);
    free(buffer);
    errno = saved;
    return NULL;
}

void packet_buffer_keep_in_fork(const struct packet_buffer *buffer, bool keep)
{
    if (buffer->first)
        packet_buffer_keep_in_fork(buffer->first, keep);
    if (buffer->store)
        retained_store_keep_in_fork(buffer->store, keep);
    buffer_memory_keep_in_fork(&buffer->mapping, keep);
}

size_t packet_buffer_touch(struct packet_buffer *buffer, size_t most)
{
    size_t before = buffer->first ? packet_buffer_touch(buffer->first, most) : 0;
    size_t size = buffer->capacity < most - before ? buffer->capacity : most - before;
    size -= size % buffer->page_size;
#ifdef MADV_POPULATE_WRITE
    buffer_memory_prepare(&buffer->mapping, size);
    if (size > 0 && madvise(buffer->memory, size, MADV_POPULATE_WRITE) == 0)
        return before + size;
#endif
    return before;
}

static void count_overwritten(struct packet_buffer *buffer, const struct record *record)
{
    buffer->stats.packets_overwritten++;
    buffer->stats.bytes_overwritten += record->size;
    if (!buffer->first)
        return;
    buffer->stats.packets_lost++;
    if (record->rule != PACKET_PLAIN)
        return;
    buffer->stats.events_lost += record->key;
    if (buffer->on_lost)
        buffer->on_lost(buffer->on_lost_userdata, record->sequence_id,
                        (const uint8_t *)(record + 1), record->size);
}

void packet_buffer_on_lost(struct packet_buffer *buffer, packet_buffer_lost_fn *fn, void *userdata)
{
    buffer->on_lost = fn;
    buffer->on_lost_userdata = userdata;
}

void packet_buffer_unlose(struct packet_buffer *buffer, uint64_t n_events)
{
    uint64_t *lost = &buffer->stats.events_lost;
    *lost -= n_events < *lost ? n_events : *lost;
}

// Drops the oldest record of the ring, or moves it to the store.
static void pass_over(struct packet_buffer *buffer)
{
    const struct record *record = record_at(buffer, buffer->tail.offset);
    if (record->rule != RECORD_FILLER) {
        struct packet_meta meta = {
            .sequence_id = record->sequence_id,
            .retain = (enum packet_retain)record->rule,
            .key = record->key,
        };
        bool kept = meta.retain != PACKET_PLAIN &&
                    retained_store_take(buffer->store, &meta, buffer->tail.position,
                                        (const uint8_t *)(record + 1), record->size);
        if (!kept)
            count_overwritten(buffer, record);
    }
    advance(buffer, &buffer->tail, record_bytes(record->size));
}

static void rewind_empty(struct packet_buffer *buffer)
{
    if (buffer->head.offset)
        advance(buffer, &buffer->head, buffer->capacity - buffer->head.offset);
    buffer->tail = buffer->head;
}

static void fill_to_end(struct packet_buffer *buffer)
{
    size_t bytes = buffer->capacity - buffer->head.offset;
    *record_at(buffer, buffer->head.offset) = (struct record){
        .size = (uint32_t)(bytes - sizeof(struct record)) & PACKET_MAX,
        .rule = RECORD_FILLER,
    };
    advance(buffer, &buffer->head, bytes);
    buffer->stats.wraps++;
}

// Frees `least` contiguous bytes at the head, and up to `most` if they are contiguous too. Returns
// false if a DISCARD buffer would lose packets.
static bool make_room(struct packet_buffer *buffer, size_t least, size_t most)
{
    for (;;) {
        if (is_empty(buffer))
            rewind_empty(buffer);
        size_t contiguous = buffer->capacity - buffer->head.offset;
        size_t filler = contiguous < least ? contiguous : 0;
        if (filler)
            contiguous = buffer->capacity;
        uint64_t needed = buffer->head.position + filler + (most < contiguous ? most : contiguous);
        if (needed <= buffer->tail.position + buffer->capacity) {
            if (filler)
                fill_to_end(buffer);
            return true;
        }
        if (buffer->policy == PACKET_BUFFER_DISCARD)
            return false;
        pass_over(buffer);
    }
}

static size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Reserves room in the beginning that the ring keeps. Returns NULL if this beginning is full.
static uint8_t *reserve_first(struct packet_buffer *buffer, size_t min, size_t want,
                              size_t *ret_size)
{
    struct packet_buffer *first = buffer->first;
    struct packet_view view;
    if (buffer->first_is_full && !packet_buffer_peek(buffer, &view))
        first->stats.full = buffer->first_is_full = false;
    if (buffer->first_is_full)
        return NULL;
    uint8_t *memory = packet_buffer_reserve(first, min, want, ret_size);
    buffer->first_is_full = !memory;
    return memory;
}

uint8_t *packet_buffer_reserve(struct packet_buffer *buffer, size_t min, size_t want,
                               size_t *ret_size)
{
    assert(!buffer->is_reserved && min <= want);
    uint8_t *memory = buffer->first ? reserve_first(buffer, min, want, ret_size) : NULL;
    if (memory)
        return memory;
    buffer->releases = false; // writing moves the tail, too
    size_t header = sizeof(struct record);
    if (min > size_min(buffer->capacity - header, PACKET_MAX) || buffer->stats.full) {
        buffer->stats.packets_discarded++;
        return NULL;
    }
    size_t least = record_bytes(min), most = least;
    if (buffer->policy == PACKET_BUFFER_RING && want > min) {
        size_t generous =
            size_min(record_bytes(size_min(want, PACKET_MAX)), buffer->capacity / GENEROSITY);
        most = generous > least ? generous : least;
    }
    if (!make_room(buffer, least, most)) {
        buffer->stats.full = true;
        buffer->stats.packets_discarded++;
        return NULL;
    }
    size_t contiguous = buffer->capacity - buffer->head.offset;
    size_t used = (size_t)(buffer->head.position - buffer->tail.position);
    size_t room = size_min(contiguous, buffer->capacity - used) - header;
    buffer->reserved = size_min(size_min(want, room), PACKET_MAX);
    buffer->is_reserved = true;
    buffer_memory_prepare(&buffer->mapping, buffer->head.offset + header + buffer->reserved);
    *ret_size = buffer->reserved;
    return buffer->memory + buffer->head.offset + header;
}

void packet_buffer_commit(struct packet_buffer *buffer, size_t size, const struct packet_meta *meta)
{
    if (buffer->first && buffer->first->is_reserved) {
        packet_buffer_commit(buffer->first, size, meta);
        return;
    }
    assert(buffer->is_reserved && size <= buffer->reserved);
    *record_at(buffer, buffer->head.offset) = (struct record){
        .size = (uint32_t)size & PACKET_MAX,
        .rule = meta->retain,
        .sequence_id = meta->sequence_id,
        .key = meta->retain == PACKET_PLAIN ? meta->n_events : meta->key,
    };
    buffer->is_reserved = false;
    buffer->stats.packets_written++;
    buffer->stats.bytes_written += size;
    advance(buffer, &buffer->head, record_bytes(size));
    if (buffer->head.offset == 0)
        buffer->stats.wraps++;
}

void packet_buffer_cancel(struct packet_buffer *buffer)
{
    if (buffer->first && buffer->first->is_reserved) {
        packet_buffer_cancel(buffer->first);
        return;
    }
    assert(buffer->is_reserved);
    buffer->is_reserved = false;
}

static struct packet_view view_of(const struct record *record)
{
    return (struct packet_view){
        .data = (const uint8_t *)(record + 1),
        .size = record->size,
        .sequence_id = record->sequence_id,
    };
}

static void release_consumed(struct packet_buffer *buffer)
{
    struct place *released = &buffer->released;
    if (buffer->tail.position <= released->position)
        return;
    size_t end = released->offset + (size_t)(buffer->tail.position - released->position);
    end = end < buffer->capacity ? end - end % buffer->mapping.unit : buffer->capacity;
    if (end <= released->offset)
        return;
    size_t size = end - released->offset;
    pages_give_back(buffer->memory + released->offset, size);
    advance(buffer, released, size);
}

void packet_buffer_release_consumed(struct packet_buffer *buffer)
{
    if (buffer->first)
        packet_buffer_release_consumed(buffer->first);
    // The first page may begin with the newest data.
    size_t rest = round_up(buffer->tail.offset, buffer->page_size) - buffer->tail.offset;
    buffer->released = buffer->tail;
    advance(buffer, &buffer->released, rest);
    buffer->releases = true;
}

bool packet_buffer_peek(struct packet_buffer *buffer, struct packet_view *ret)
{
    if (buffer->first && packet_buffer_peek(buffer->first, ret))
        return true;
    if (buffer->store && retained_store_peek(buffer->store, ret))
        return true;
    for (; !is_empty(buffer);) {
        const struct record *record = record_at(buffer, buffer->tail.offset);
        if (record->rule != RECORD_FILLER) {
            *ret = view_of(record);
            return true;
        }
        advance(buffer, &buffer->tail, record_bytes(record->size));
    }
    return false;
}

void packet_buffer_consume(struct packet_buffer *buffer)
{
    struct packet_view view;
    if (buffer->first && packet_buffer_peek(buffer->first, &view)) {
        packet_buffer_consume(buffer->first);
        return;
    }
    if (!packet_buffer_peek(buffer, &view))
        return;
    buffer->stats.packets_read++;
    buffer->stats.bytes_read += view.size;
    if (buffer->store && retained_store_peek(buffer->store, &view))
        retained_store_drop_first(buffer->store);
    else
        advance(buffer, &buffer->tail, record_bytes(view.size));
    if (buffer->releases)
        release_consumed(buffer);
}

// Sets *ret to the first packet at or after `*position` and before `end`, and moves `*position`
// after this packet. Returns false if none is left.
static bool next_record(const struct packet_buffer *buffer, uint64_t *position, uint64_t end,
                        struct packet_view *ret)
{
    if (*position < buffer->tail.position)
        *position = buffer->tail.position;
    while (*position < end) {
        const struct record *record = record_at(buffer, (size_t)(*position % buffer->capacity));
        *position += record_bytes(record->size);
        if (record->rule != RECORD_FILLER) {
            *ret = view_of(record);
            return true;
        }
    }
    return false;
}

bool packet_buffer_next(const struct packet_buffer *buffer, struct packet_cursor *cursor,
                        struct packet_view *ret)
{
    const struct packet_buffer *first = buffer->first;
    if (!cursor->started) {
        cursor->started = true;
        cursor->end = buffer->head.position;
        cursor->first_end = first ? first->head.position : 0;
    }
    if (first && next_record(first, &cursor->first_position, cursor->first_end, ret))
        return true;
    if (buffer->store && retained_store_next(buffer->store, cursor, ret))
        return true;
    return next_record(buffer, &cursor->position, cursor->end, ret);
}

uint64_t packet_buffer_copy_bytes(const struct packet_buffer *buffer)
{
    uint64_t size = buffer->head.position - buffer->tail.position;
    if (buffer->store) {
        struct retained_store_stats retained = retained_store_get_stats(buffer->store);
        size += retained.bytes + retained.packets * (sizeof(struct record) + ALIGNMENT);
    }
    if (buffer->first)
        size += packet_buffer_copy_bytes(buffer->first);
    size = round_up(size, buffer->page_size);
    return size > SIZE_MIN ? size : SIZE_MIN;
}

static void copy_store(struct packet_buffer *copy, const struct packet_buffer *buffer)
{
    struct packet_cursor cursor = {.started = true, .end = buffer->head.position};
    struct packet_view packet;
    while (retained_store_next(buffer->store, &cursor, &packet)) {
        size_t room;
        uint8_t *to = packet_buffer_reserve(copy, packet.size, packet.size, &room);
        assert(to);
        memcpy(to, packet.data, packet.size);
        packet_buffer_commit(copy, packet.size,
                             &(struct packet_meta){.sequence_id = packet.sequence_id});
    }
}

// Copies records with unchanged distances. Only their start is at another offset.
static void copy_records(struct packet_buffer *copy, const struct packet_buffer *buffer)
{
    size_t size = (size_t)(buffer->head.position - buffer->tail.position);
    size_t first = size_min(size, buffer->capacity - buffer->tail.offset);
    assert(size <= copy->capacity - copy->head.offset);
    buffer_memory_prepare(&copy->mapping, copy->head.offset + size);
    uint8_t *to = copy->memory + copy->head.offset;
    memcpy(to, buffer->memory + buffer->tail.offset, first);
    memcpy(to + first, buffer->memory, size - first);
    advance(copy, &copy->head, size);
}

int packet_buffer_copy(const struct packet_buffer *buffer, struct packet_buffer **ret,
                       struct err *err)
{
    struct packet_buffer *copy;
    int r = packet_buffer_new((size_t)packet_buffer_copy_bytes(buffer), PACKET_BUFFER_DISCARD,
                              &copy, err);
    if (r < 0)
        return r;
    if (buffer->first)
        copy_records(copy, buffer->first);
    if (buffer->store)
        copy_store(copy, buffer);
    copy_records(copy, buffer);
    packet_buffer_release_consumed(copy);
    *ret = copy;
    return 0;
}

void packet_buffer_get_stats(const struct packet_buffer *buffer, struct packet_buffer_stats *ret)
{
    *ret = buffer->stats;
    if (buffer->first) {
        const struct packet_buffer_stats *first = &buffer->first->stats;
        ret->size_bytes += first->size_bytes;
        ret->packets_written += first->packets_written;
        ret->bytes_written += first->bytes_written;
        ret->packets_read += first->packets_read;
        ret->bytes_read += first->bytes_read;
        ret->wraps += first->wraps;
    }
    if (!buffer->store)
        return;
    struct retained_store_stats retained = retained_store_get_stats(buffer->store);
    ret->retained_packets = retained.packets;
    ret->retained_bytes = retained.bytes;
    ret->retained_dropped = retained.dropped;
}
