// SPDX-License-Identifier: Apache-2.0
//
// The client sets the write position; it is believed only within the length of the ring. Read bytes
// are zeroed before the room is given back, so a word that is not zero was written in the present
// lap.
//
// Room is given back in larger pieces, because each time costs all threads of the client a cache
// miss.
//
// A thread can be stopped for ever between reserving and completing a record (a handler that jumps
// out, a debugger). The record is skipped after a while; its size is known from the beginning.
#include "producer/sources/heap/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/heap/heap_owner.h"
#include "producer/sources/heap/last_will.h"

#define GIVEN_BACK    32 // parts of the ring that are given back at a time
#define INTERVAL_LONG 65536
#define BUSY_MAX      (2 * NSEC_PER_SEC)
#define RECORD_MAX    (sizeof(struct heap_object) + HEAP_ID_MAX + HEAP_PATH_MAX + 64)

_Static_assert(RECORD_MAX >= sizeof(struct heap_alloc) + HEAP_FRAMES_MAX * sizeof(uint64_t) &&
                   RECORD_MAX >= HEAP_ARENAS_BYTES(HEAP_ARENAS_MAX),
               "the copy holds any record");

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

// Only a memfd has seals, so its pages never come from a file system. A file of a file system has
// no seals at all, and fcntl() fails.
static bool is_sealed(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & SEALS) == SEALS;
}

// Returns the shortest interval, which limits how many samples memory may have.
static uint64_t shortest_interval(const struct ring_options *options)
{
    uint64_t shortest = options->interval_bytes ? options->interval_bytes : UINT64_MAX;
    for (uint32_t i = 0; i < options->n_wanted && i < HEAP_WANTED_MAX; i++) {
        uint64_t interval = options->wanted[i].interval_bytes;
        shortest = interval && interval < shortest ? interval : shortest;
    }
    uint64_t others = options->others_interval_bytes;
    return others && others < shortest ? others : shortest;
}

// A piece of the table's filter is a sixteenth of the interval, or a 64th of a long interval, for
// which the filter is small anyway.
static uint32_t table_shift(const struct ring_options *options)
{
    uint32_t shift = HEAP_TABLE_SHIFT_MIN;
    uint64_t interval = shortest_interval(options);
    uint32_t parts_bits = interval < INTERVAL_LONG ? 4 : 6;
    if (options->is_numbered)
        return 0;
    while (shift < HEAP_TABLE_SHIFT_MAX && interval >> (shift + parts_bits + 1) > 0)
        shift++;
    return shift;
}

void ring_header_fill(const struct ring_options *options, struct heap_header *ret)
{
    *ret = (struct heap_header){
        .magic = HEAP_ABI_MAGIC,
        .version = HEAP_ABI_VERSION,
        .ring_bytes = options->bytes,
        .interval_bytes = options->interval_bytes,
        .flags = options->block_client ? HEAP_BLOCK_CLIENT : 0,
        .block_timeout_us = options->block_timeout_us,
        .adaptive_free_bytes = options->adaptive_free_bytes,
        .adaptive_interval_bytes = options->adaptive_interval_bytes,
        .others_interval_bytes = options->others_interval_bytes,
        .n_wanted = options->n_wanted,
        .table_shift = table_shift(options),
        .owner = heap_owner_self(),
    };
    memcpy(ret->wanted, options->wanted, sizeof(ret->wanted));
    memcpy(ret->children_ask, options->children_ask, sizeof(ret->children_ask));
}

static int map_memory(struct ring_reader *ring, struct err *err)
{
    struct heap_header *header = last_will_map(ring->fd, ring->bytes, &ring->is_noted);
    if (header == MAP_FAILED)
        return err_errno(err, -errno, "shared memory");
    ring->header = header;
    ring->memory = (uint8_t *)header + HEAP_HEADER_BYTES;
    ring->table = (const table_slot *)(ring->memory + ring->bytes);
    ring->record = malloc(RECORD_MAX);
    return ring->record ? 0 : -ENOMEM;
}

int ring_reader_new(const struct ring_options *options, struct ring_reader *ret, struct err *err)
{
    struct heap_header header;
    ring_header_fill(options, &header);
    int fd = memfd_create(HEAP_RING_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)HEAP_MEMORY_BYTES(options->bytes)) < 0 ||
        pwrite(fd, &header, sizeof(header), 0) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        int r = err_errno(err, -errno, "shared memory");
        close_fd(fd);
        return r;
    }
    return ring_reader_over(fd, options, ret, err);
}

int ring_reader_over(int fd, const struct ring_options *options, struct ring_reader *ret,
                     struct err *err)
{
    struct stat st;
    struct ring_reader ring = {
        .fd = fd, .bytes = options->bytes, .table_shift = table_shift(options)};
    int r = 0;
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != HEAP_MEMORY_BYTES(options->bytes) ||
        !is_sealed(fd))
        r = err_set(err, -EPROTO, "its shared memory lacks a seal or has a wrong size");
    if (r == 0)
        r = map_memory(&ring, err);
    if (r < 0)
        ring_reader_done(&ring);
    else
        *ret = ring;
    return r;
}

void ring_reader_done(struct ring_reader *ring)
{
    if (ring->closed)
        free(ring->header);
    else if (ring->header)
        last_will_unmap(ring->header, ring->bytes, ring->is_noted);
    free(ring->record);
    if (ring->bytes)
        close_fd(ring->fd);
    *ring = (struct ring_reader){.fd = -1};
}

uint64_t ring_reader_used(const struct ring_reader *ring)
{
    uint64_t used =
        atomic_load_explicit(&ring->header->write_pos, memory_order_acquire) - ring->pos;
    return used < ring->bytes ? used : ring->bytes;
}

static void give_back(struct ring_reader *ring)
{
    if (ring->given_back != ring->pos)
        atomic_store_explicit(&ring->header->read_pos, ring->pos, memory_order_release);
    ring->given_back = ring->pos;
}

static void consume(struct ring_reader *ring, uint64_t size)
{
    memset(ring->memory + (ring->pos & (ring->bytes - 1)), 0, size);
    ring->pos += size;
    ring->busy_since = 0;
    if (ring->pos - ring->given_back >= ring->bytes / GIVEN_BACK)
        give_back(ring);
}

static bool give_up(struct ring_reader *ring)
{
    ring->corrupted = true;
    heap_set_stopped(ring->header);
    return false;
}

// Checks the copy, whose size is right. Returns false if the record is malformed.
static bool judge(const void *copy, size_t size, struct ring_record *ret)
{
    const struct heap_record *head = copy;
    *ret = (struct ring_record){.kind = head->kind, .heap = head->heap};
    if (head->heap >= HEAP_HEAPS_MAX)
        return false;
    switch (head->kind) {
    case HEAP_ALLOC: {
        const struct heap_alloc *alloc = copy;
        if (size < sizeof(*alloc) || head->n_frames > HEAP_FRAMES_MAX ||
            size != sizeof(*alloc) + head->n_frames * sizeof(alloc->frames[0]))
            return false;
        ret->address = alloc->address;
        ret->weight = alloc->weight;
        ret->frames = alloc->frames;
        ret->n_frames = head->n_frames;
        return true;
    }
    case HEAP_FREE:
        ret->address = ((const struct heap_free *)copy)->address;
        return size == sizeof(struct heap_free);
    case HEAP_OBJECT: {
        if (size < sizeof(ret->object))
            return false;
        memcpy(&ret->object, copy, sizeof(ret->object));
        ret->id = (const uint8_t *)copy + sizeof(ret->object);
        ret->path = (const char *)ret->id + ret->object.id_size;
        return ret->object.id_size <= HEAP_ID_MAX && ret->object.path_size <= HEAP_PATH_MAX &&
               size >= sizeof(ret->object) + ret->object.id_size + ret->object.path_size &&
               ret->object.start < ret->object.end;
    }
    case HEAP_ARENAS:
        ret->arenas = copy;
        return size >= sizeof(*ret->arenas) && ret->arenas->n_arenas <= HEAP_ARENAS_MAX &&
               size == HEAP_ARENAS_BYTES(ret->arenas->n_arenas);
    case HEAP_HEAP:
        ret->named = copy;
        return size == sizeof(*ret->named) && head->heap > 0 &&
               memchr(ret->named->name, 0, sizeof(ret->named->name));
    case HEAP_METHOD:
        ret->method = copy;
        ret->method_name = (const char *)copy + sizeof(*ret->method);
        return size >= sizeof(*ret->method) && ret->method->name_size <= HEAP_METHOD_MAX &&
               size >= sizeof(*ret->method) + ret->method->name_size;
    case HEAP_OBJECTS:
        return true;
    default:
        return false;
    }
}

// Returns true if the record must be skipped.
static bool is_stuck(struct ring_reader *ring, nsec_t now, bool is_last)
{
    if (!is_last && ring->busy_since == 0)
        ring->busy_since = now;
    return is_last || now - ring->busy_since >= BUSY_MAX;
}

static bool next_record(struct ring_reader *ring, nsec_t now, bool is_last, struct ring_record *ret)
{
    // A program that refills the ring as fast as it is read must not keep the reader busy.
    uint64_t begin = ring->pos;
    for (uint64_t used; !ring->corrupted && ring->pos - begin <= ring->bytes &&
                        (used = ring_reader_used(ring)) > 0;) {
        uint64_t at = ring->pos & (ring->bytes - 1);
        const uint8_t *place = ring->memory + at;
        uint32_t word =
            atomic_load_explicit(&((struct heap_record *)place)->word, memory_order_acquire);
        uint32_t size = word & ~HEAP_RECORD_DONE;
        if (word == 0) {
            // A record of unknown size: nothing after it can be found.
            if (is_stuck(ring, now, is_last)) {
                ring->n_skipped++;
                return is_last ? false : give_up(ring);
            }
            return false;
        }
        if (size < sizeof(struct heap_record) || size % HEAP_RECORD_ALIGN || size > used ||
            size > ring->bytes - at)
            return give_up(ring);
        bool is_done =
            word & HEAP_RECORD_DONE; // before the flag is set, the writer may still write the kind
        if (!is_done && !is_stuck(ring, now, is_last))
            return false;
        if (!is_done || ((const struct heap_record *)place)->kind == HEAP_PAD) {
            ring->n_skipped += !is_done;
            consume(ring, size);
            continue;
        }
        if (size > RECORD_MAX)
            return give_up(ring);
        memcpy(ring->record, place, size);
        consume(ring, size);
        if (!judge(ring->record, size, ret))
            return give_up(ring);
        return true;
    }
    return false;
}

bool ring_reader_next(struct ring_reader *ring, nsec_t now, bool is_last, struct ring_record *ret)
{
    bool is_there = next_record(ring, now, is_last, ret);
    if (!is_there)
        give_back(ring);
    return is_there;
}

void ring_reader_stop(struct ring_reader *ring)
{
    heap_set_stopped(ring->header);
}

void ring_reader_beat(struct ring_reader *ring)
{
    atomic_fetch_add_explicit(&ring->header->heartbeat, 1, memory_order_relaxed);
}

void ring_reader_ask(struct ring_reader *ring)
{
    if (ring_reader_is_answered(ring))
        atomic_fetch_add(&ring->header->ask, 1);
}

bool ring_reader_is_answered(const struct ring_reader *ring)
{
    return atomic_load(&ring->header->answered) == atomic_load(&ring->header->ask);
}

bool ring_reader_is_live(const struct ring_reader *ring, uint64_t address)
{
    return table_slots_have(ring->table, ring->table_shift, address);
}

void ring_reader_release(struct ring_reader *ring)
{
    fallocate(ring->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HEAP_HEADER_BYTES,
              (off_t)(ring->bytes + HEAP_TABLE_BYTES));
}

void ring_reader_close(struct ring_reader *ring)
{
    struct heap_header *copy =
        ring->closed ? NULL : aligned_alloc(_Alignof(struct heap_header), sizeof(*copy));
    if (!copy)
        return; // ring_reader_done() unmaps the memory
    memcpy(copy, ring->header, sizeof(*copy));
    last_will_unmap(ring->header, ring->bytes, ring->is_noted);
    ring->header = copy;
    ring->memory = NULL;
    ring->table = NULL;
    ring->fd = close_fd(ring->fd);
    ring->closed = true;
}
