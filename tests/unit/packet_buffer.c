// SPDX-License-Identifier: Apache-2.0
//
// The buffer is compared with a model that has no memory layout: a list of the unread packets of
// the ring, and a list of the packets that are kept beside the ring. The model does not know when a
// ring has to give up a packet. The model takes the number of given up packets from the buffer, and
// checks that the ring needed the room.
#include "producer/trace/packet_buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "producer/trace/retained_store.h"
#include "tests/unit/unit.h"

#define MODEL_MAX 8192
#define HEADER    16

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
    return next_random(seed) % n;
}

struct model_packet {
    uint32_t id;
    uint32_t size;
    struct packet_meta meta;
};

struct model_list {
    struct model_packet items[MODEL_MAX];
    size_t n;
};

struct model {
    struct model_list ring, kept;
    uint64_t n_overwritten;
    size_t asked_bytes[MODEL_MAX]; // by packet id, with header: the largest size of a filler
};

static void list_push(struct model_list *list, struct model_packet packet)
{
    assert_true(list->n < MODEL_MAX);
    list->items[list->n++] = packet;
}

static void list_pop_first(struct model_list *list)
{
    assert_true(list->n > 0);
    list->n--;
    memmove(list->items, list->items + 1, list->n * sizeof(list->items[0]));
}

static void list_forget(struct model_list *list, const struct packet_meta *meta)
{
    size_t to = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].meta.key != meta->key ||
            list->items[i].meta.sequence_id != meta->sequence_id)
            list->items[to++] = list->items[i];
    list->n = to;
}

static bool list_keep(struct model_list *kept, struct model_packet packet)
{
    if (packet.meta.retain == PACKET_RETAIN_REPLACE || packet.meta.retain == PACKET_RETAIN_FORGET)
        list_forget(kept, &packet.meta);
    bool keep =
        packet.meta.retain == PACKET_RETAIN_REPLACE || packet.meta.retain == PACKET_RETAIN_APPEND;
    if (keep)
        list_push(kept, packet);
    return keep;
}

static void model_pass_over(struct model *model)
{
    struct model_packet oldest = model->ring.items[0];
    list_pop_first(&model->ring);
    if (!list_keep(&model->kept, oldest))
        model->n_overwritten++;
}

static size_t record_bytes(size_t size)
{
    return (HEADER + size + 15) / 16 * 16;
}

static size_t model_ring_bytes(const struct model *model)
{
    size_t bytes = 0;
    for (size_t i = 0; i < model->ring.n; i++)
        bytes += record_bytes(model->ring.items[i].size);
    return bytes;
}

// Returns the largest size of a filler: the filler was made for a packet that is younger than the
// oldest packet in the ring.
static size_t model_filler_max(struct model *model, uint32_t id, size_t bytes)
{
    size_t most = model->asked_bytes[id] = bytes;
    for (uint32_t i = model->ring.n ? model->ring.items[0].id : id; i < id; i++)
        most = model->asked_bytes[i] > most ? model->asked_bytes[i] : most;
    return most;
}

static void fill_packet(uint8_t *data, uint32_t id, size_t size)
{
    memcpy(data, &id, sizeof(id));
    for (size_t i = sizeof(id); i < size; i++)
        data[i] = (uint8_t)(id * 31 + i);
}

static void assert_view(const struct packet_view *view, const struct model_packet *want)
{
    uint32_t id;
    assert_int_equal(view->size, want->size);
    assert_int_equal(view->sequence_id, want->meta.sequence_id);
    memcpy(&id, view->data, sizeof(id));
    assert_int_equal(id, want->id);
    for (size_t i = sizeof(id); i < view->size; i++)
        if (view->data[i] != (uint8_t)(id * 31 + i))
            fail_msg("packet %u has a wrong byte at %zu", id, i);
}

static uint32_t first_id_in_ring(const struct packet_buffer *buffer, size_t n_kept)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    uint32_t id = UINT32_MAX;
    for (size_t i = 0; i <= n_kept; i++)
        if (!packet_buffer_next(buffer, &cursor, &view))
            return UINT32_MAX;
    memcpy(&id, view.data, sizeof(id));
    return id;
}

// Lets the model give up the packets that the buffer gave up. Returns their number.
static size_t model_follow(struct model *model, const struct packet_buffer *buffer)
{
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(buffer, &stats);
    uint32_t first = first_id_in_ring(buffer, stats.retained_packets);
    size_t n = 0;
    for (; model->ring.n && model->ring.items[0].id != first; n++)
        model_pass_over(model);
    return n;
}

static void assert_same(const struct model *model, const struct packet_buffer *buffer)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    for (size_t i = 0; i < model->kept.n; i++) {
        assert_true(packet_buffer_next(buffer, &cursor, &view));
        assert_view(&view, &model->kept.items[i]);
    }
    for (size_t i = 0; i < model->ring.n; i++) {
        assert_true(packet_buffer_next(buffer, &cursor, &view));
        assert_view(&view, &model->ring.items[i]);
    }
    assert_false(packet_buffer_next(buffer, &cursor, &view));
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(buffer, &stats);
    assert_int_equal(stats.packets_overwritten, model->n_overwritten);
    assert_int_equal(stats.retained_packets, model->kept.n);
    assert_int_equal(stats.retained_dropped, 0);
}

// Asserts that a copy has exactly the packets of the model, in order.
static void assert_copy(const struct model *model, const struct packet_buffer *buffer)
{
    struct packet_buffer *copy;
    struct packet_view view;
    assert_int_equal(packet_buffer_copy(buffer, &copy, NULL), 0);
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(copy, &stats);
    assert_int_equal(stats.size_bytes, packet_buffer_copy_bytes(buffer));
    for (size_t i = 0; i < model->kept.n + model->ring.n; i++) {
        assert_true(packet_buffer_peek(copy, &view));
        assert_view(&view, i < model->kept.n ? &model->kept.items[i]
                                             : &model->ring.items[i - model->kept.n]);
        packet_buffer_consume(copy);
    }
    assert_false(packet_buffer_peek(copy, &view));
    packet_buffer_free(copy);
}

static struct packet_meta random_meta(uint64_t *seed)
{
    return (struct packet_meta){
        .sequence_id = 1 + random_below(seed, 3),
        .retain = random_below(seed, 2) ? PACKET_PLAIN : random_below(seed, 4),
        .key = random_below(seed, 12),
    };
}

static uint32_t random_size(uint64_t *seed, size_t capacity)
{
    uint32_t kind = random_below(seed, 40);
    if (kind == 0)
        return 4 + random_below(seed, (uint32_t)capacity + 100); // some are too large
    return 4 + random_below(seed, kind < 8 ? (uint32_t)capacity / 4 : 120);
}

static void write_random(struct model *model, struct packet_buffer *buffer, size_t capacity,
                         uint32_t id, uint64_t *seed)
{
    size_t min = random_size(seed, capacity), size;
    size_t want = min + (random_below(seed, 2) ? random_below(seed, 5000) : 0);
    size_t before = model_ring_bytes(model) + 2 * model_filler_max(model, id, record_bytes(min));
    uint8_t *data = packet_buffer_reserve(buffer, min, want, &size);
    if (!data) {
        assert_true(min > capacity - HEADER);
        return;
    }
    assert_true(size >= min && size <= want);
    size_t n_given_up = model_follow(model, buffer);
    size_t generous = record_bytes(want) < capacity / 16 ? record_bytes(want) : capacity / 16;
    size_t most = record_bytes(min) > generous ? record_bytes(min) : generous;
    if (n_given_up)
        assert_true(before + most > capacity);
    if (random_below(seed, 10) == 0) {
        packet_buffer_cancel(buffer);
        return;
    }
    struct model_packet packet = {
        .id = id,
        .size =
            (uint32_t)(random_below(seed, 2) ? min : 4 + random_below(seed, (uint32_t)size - 3)),
        .meta = random_meta(seed),
    };
    fill_packet(data, id, packet.size);
    packet_buffer_commit(buffer, packet.size, &packet.meta);
    list_push(&model->ring, packet);
}

static void read_one(struct model *model, struct packet_buffer *buffer)
{
    struct model_list *list = model->kept.n ? &model->kept : &model->ring;
    struct packet_view view;
    if (!list->n) {
        assert_false(packet_buffer_peek(buffer, &view));
        return;
    }
    assert_true(packet_buffer_peek(buffer, &view));
    assert_view(&view, &list->items[0]);
    packet_buffer_consume(buffer);
    list_pop_first(list);
}

static void ring_equals_model(void **state)
{
    (void)state;
    struct model *model = malloc(sizeof(*model));
    for (uint64_t run = 1; run <= 40; run++) {
        uint64_t seed = run;
        size_t capacity = run % 2 ? 4096 : 4096 * (1 + run % 7);
        uint32_t read_share = random_below(&seed, 60);
        struct packet_buffer *buffer;
        assert_int_equal(packet_buffer_new(capacity, PACKET_BUFFER_RING, &buffer, NULL), 0);
        *model = (struct model){0};
        for (uint32_t id = 0; id < 1500; id++) {
            write_random(model, buffer, capacity, id, &seed);
            if (random_below(&seed, 4) == 0)
                packet_buffer_release_consumed(buffer);
            while (random_below(&seed, 100) < read_share)
                read_one(model, buffer);
            assert_same(model, buffer);
            assert_copy(model, buffer);
        }
        while (model->kept.n || model->ring.n)
            read_one(model, buffer);
        read_one(model, buffer);
        packet_buffer_free(buffer);
    }
    free(model);
}

static bool put(struct packet_buffer *buffer, uint32_t id, size_t size, enum packet_retain retain,
                uint64_t key)
{
    size_t room;
    uint8_t *data = packet_buffer_reserve(buffer, size, size, &room);
    if (!data)
        return false;
    assert_int_equal(room, size);
    fill_packet(data, id, size);
    packet_buffer_commit(buffer, size,
                         &(struct packet_meta){.sequence_id = 7, .retain = retain, .key = key});
    return true;
}

// Consumes packets, and asserts that their ids are `ids`, up to UINT32_MAX.
static void take_ids(struct packet_buffer *buffer, const uint32_t *ids)
{
    struct packet_view view;
    for (; *ids != UINT32_MAX; ids++) {
        uint32_t id;
        assert_true(packet_buffer_peek(buffer, &view));
        memcpy(&id, view.data, sizeof(id));
        assert_int_equal(id, *ids);
        packet_buffer_consume(buffer);
    }
    assert_false(packet_buffer_peek(buffer, &view));
}

#define TAKE_IDS(buffer, ...) take_ids((buffer), (const uint32_t[]){__VA_ARGS__, UINT32_MAX})

static void what_was_read_is_never_kept(void **state)
{
    (void)state;
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(4096, PACKET_BUFFER_RING, &buffer, NULL), 0);
    assert_true(put(buffer, 1, 1000, PACKET_RETAIN_REPLACE, 5));
    assert_true(put(buffer, 2, 1000, PACKET_RETAIN_REPLACE, 6));
    packet_buffer_consume(buffer);
    for (uint32_t id = 3; id < 8; id++)
        assert_true(put(buffer, id, 1000, PACKET_PLAIN, 0));
    TAKE_IDS(buffer, 2, 4, 5, 6, 7);
    packet_buffer_free(buffer);
}

static bool is_resident(const void *address)
{
    unsigned char resident;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)address / page * page;
    assert_int_equal(mincore((void *)start, page, &resident), 0);
    return resident & 1;
}

// A ring that has wrapped several times is read for the last time. Memory of packets that were read
// is released. All other packets stay, also the newest packet, which lies before the oldest.
static void consumed_memory_is_released(void **state)
{
    (void)state;
    enum { SIZE = 3000, N = 12000 };
    const size_t capacity = (size_t)16 << 20, lag = (size_t)4 << 20;
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(capacity, PACKET_BUFFER_RING, &buffer, NULL), 0);
    for (uint32_t id = 0; id < N; id++)
        assert_true(put(buffer, id, SIZE, PACKET_PLAIN, 0));
    const uint8_t **places = calloc(N, sizeof(*places));
    struct packet_cursor cursor = {0};
    struct packet_view view;
    uint32_t first = N, id;
    while (packet_buffer_next(buffer, &cursor, &view)) {
        memcpy(&id, view.data, sizeof(id));
        first = id < first ? id : first;
        places[id] = view.data;
    }
    assert_true(N - first > capacity / (SIZE + HEADER + 16));
    packet_buffer_release_consumed(buffer);
    for (id = first; id < N; id++) {
        assert_true(packet_buffer_peek(buffer, &view));
        assert_view(&view, &(struct model_packet){.id = id, .size = SIZE, .meta.sequence_id = 7});
        packet_buffer_consume(buffer);
        uint32_t past = id > first + lag / SIZE ? id - (uint32_t)(lag / SIZE) : first;
        if (past > first + 2)
            assert_false(is_resident(places[past]));
    }
    assert_true(put(buffer, 1, SIZE, PACKET_PLAIN, 0));
    TAKE_IDS(buffer, 1);
    free(places);
    packet_buffer_free(buffer);
}

static void rules_of_keys(void **state)
{
    (void)state;
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(4096, PACKET_BUFFER_RING, &buffer, NULL), 0);
    put(buffer, 1, 100, PACKET_RETAIN_REPLACE, 1);
    put(buffer, 2, 100, PACKET_RETAIN_APPEND, 1);
    put(buffer, 3, 100, PACKET_RETAIN_REPLACE, 2);
    put(buffer, 4, 100, PACKET_RETAIN_APPEND, 3);
    put(buffer, 5, 100, PACKET_RETAIN_REPLACE, 2);
    put(buffer, 6, 100, PACKET_RETAIN_FORGET, 3);
    put(buffer, 7, 100, PACKET_RETAIN_APPEND, 3);
    put(buffer, 8, 4000, PACKET_PLAIN, 0);
    TAKE_IDS(buffer, 1, 2, 5, 7, 8);
    packet_buffer_free(buffer);
}

static void discard_keeps_the_beginning(void **state)
{
    (void)state;
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(4096, PACKET_BUFFER_DISCARD, &buffer, NULL), 0);
    for (uint32_t id = 0; id < 4; id++)
        assert_true(put(buffer, id, 1000, PACKET_PLAIN, 0));
    assert_false(put(buffer, 4, 1000, PACKET_PLAIN, 0));
    assert_false(put(buffer, 5, 4, PACKET_PLAIN, 0));
    struct packet_buffer_stats stats;
    packet_buffer_get_stats(buffer, &stats);
    assert_int_equal(stats.packets_discarded, 2);
    assert_true(stats.full);
    assert_int_equal(stats.packets_written, 4);
    TAKE_IDS(buffer, 0, 1, 2, 3);
    assert_false(put(buffer, 6, 4, PACKET_PLAIN, 0));
    packet_buffer_free(buffer);
}

static void drained_discard_goes_on(void **state)
{
    (void)state;
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(4096, PACKET_BUFFER_DISCARD, &buffer, NULL), 0);
    for (uint32_t id = 0; id < 100; id++) {
        assert_true(put(buffer, id, 1200, PACKET_RETAIN_REPLACE, 1));
        if (id)
            packet_buffer_consume(buffer);
    }
    TAKE_IDS(buffer, 99);
    packet_buffer_free(buffer);
}

static void too_large_is_refused(void **state)
{
    (void)state;
    struct packet_buffer *buffer;
    size_t room;
    assert_int_equal(packet_buffer_new(4096, PACKET_BUFFER_RING, &buffer, NULL), 0);
    assert_true(put(buffer, 1, 4, PACKET_PLAIN, 0));
    assert_null(packet_buffer_reserve(buffer, 4096 - HEADER + 1, 1 << 20, &room));
    assert_null(packet_buffer_reserve(buffer, SIZE_MAX, SIZE_MAX, &room));
    TAKE_IDS(buffer, 1);
    assert_true(put(buffer, 2, 4096 - HEADER, PACKET_PLAIN, 0));
    assert_non_null(packet_buffer_reserve(buffer, 1, SIZE_MAX, &room));
    packet_buffer_cancel(buffer);
    packet_buffer_free(buffer);
    struct err err = {0};
    assert_int_equal(packet_buffer_new(100, PACKET_BUFFER_RING, &buffer, &err), -EINVAL);
    assert_non_null(strstr(err.text, "too small"));
}

// A ring is written to and read during a walk over it. The walk finds each packet of its start that
// is not consumed, exactly once and in order, also if the packet moved out of the ring.
static void walk_survives_writing(void **state)
{
    (void)state;
    for (uint64_t run = 1; run <= 50; run++) {
        uint64_t seed = run;
        struct packet_buffer *buffer;
        assert_int_equal(packet_buffer_new(8192, PACKET_BUFFER_RING, &buffer, NULL), 0);
        uint32_t n_there = 20 + random_below(&seed, 200), id = 0;
        for (; id < n_there; id++)
            put(buffer, id, 50 + random_below(&seed, 100), PACKET_RETAIN_APPEND, id % 3);
        uint32_t n_consumed = 0, next = 0;
        struct packet_cursor cursor = {0};
        struct packet_view view;
        bool done = false;
        while (!done) {
            for (uint32_t n = random_below(&seed, 4); n; n--)
                put(buffer, id++, 50 + random_below(&seed, 100), PACKET_RETAIN_APPEND, 9);
            for (uint32_t n = random_below(&seed, 20) ? 0 : random_below(&seed, 9); n; n--) {
                packet_buffer_consume(buffer);
                n_consumed++;
            }
            uint32_t seen;
            if (packet_buffer_next(buffer, &cursor, &view)) {
                memcpy(&seen, view.data, sizeof(seen));
                if (next == 0) // the walk begins with this call
                    n_there = id;
                next = next < n_consumed ? n_consumed : next;
                assert_int_equal(seen, next);
                next++;
            } else {
                done = true;
            }
        }
        assert_true(next >= n_there || n_consumed >= n_there);
        packet_buffer_free(buffer);
    }
}

// Packets of one key replace each other for a long time, beside packets that stay. The store has
// the packets of the model. The store loses only the oldest packets, and only when it is full.
static void store_equals_model(void **state)
{
    (void)state;
    const size_t limit = 16384;
    struct model_list *list = malloc(sizeof(*list));
    for (uint64_t run = 1; run <= 30; run++) {
        uint64_t seed = run, n_dropped = 0;
        uint32_t n_keys = 1 + random_below(&seed, 200);
        struct retained_store *store;
        assert_int_equal(retained_store_new(limit, &store, NULL), 0);
        list->n = 0;
        for (uint32_t id = 0; id < 4000; id++) {
            struct model_packet packet = {.id = id, .size = 4 + random_below(&seed, 300)};
            packet.meta = random_meta(&seed);
            packet.meta.key = random_below(&seed, n_keys);
            if (random_below(&seed, 500) == 0)
                packet.size = 13000; // more than the store takes
            uint8_t data[16384];
            fill_packet(data, id, packet.size);
            bool kept =
                retained_store_take(store, &packet.meta, (uint64_t)id * 512, data, packet.size);
            bool wanted = list_keep(list, packet);
            size_t bytes = 0;
            for (size_t i = 0; i < list->n; i++)
                bytes += 32 + (list->items[i].size + 15) / 16 * 16;
            if (wanted && !kept) {
                assert_true(packet.size > limit / 2);
                list->n--;
                n_dropped++;
            }
            assert_true(wanted || !kept);
            for (; n_dropped < retained_store_get_stats(store).dropped; n_dropped++) {
                assert_true(bytes > limit / 4 * 3);
                list_pop_first(list);
            }
            if (random_below(&seed, 50) == 0 && list->n) {
                retained_store_drop_first(store);
                list_pop_first(list);
            }
            assert_int_equal(retained_store_get_stats(store).packets, list->n);
            struct packet_cursor cursor = {.end = UINT64_MAX};
            struct packet_view view;
            for (size_t i = 0; i < list->n; i++) {
                assert_true(retained_store_next(store, &cursor, &view));
                assert_view(&view, &list->items[i]);
            }
            assert_false(retained_store_next(store, &cursor, &view));
        }
        retained_store_free(store);
    }
    free(list);
}

static void take(struct retained_store *store, uint32_t id, uint64_t key, size_t size)
{
    uint8_t data[1024];
    struct packet_meta meta = {.sequence_id = 1, .retain = PACKET_RETAIN_REPLACE, .key = key};
    fill_packet(data, id, size);
    assert_true(retained_store_take(store, &meta, id, data, size));
}

static void walk_survives_compaction(void **state)
{
    (void)state;
    struct retained_store *store;
    assert_int_equal(retained_store_new(16384, &store, NULL), 0);
    struct packet_cursor cursor = {.end = 40};
    struct packet_view view;
    uint32_t id = 0;
    for (; id < 40; id++)
        take(store, id, id, 20);
    for (uint32_t next = 0; next < 40; next += 2) {
        uint32_t seen;
        assert_true(retained_store_next(store, &cursor, &view));
        memcpy(&seen, view.data, sizeof(seen));
        assert_int_equal(seen, next);
        take(store, id++, next + 1, 20); // leaves the walk: becomes younger than its end
        for (int i = 0; i < 20; i++)
            take(store, id++, 100, 600);
    }
    assert_false(retained_store_next(store, &cursor, &view));
    retained_store_free(store);
}

static size_t resident_pages(void)
{
    unsigned long size, resident;
    FILE *stream = fopen("/proc/self/statm", "re");
    assert_non_null(stream);
    assert_int_equal(fscanf(stream, "%lu %lu", &size, &resident), 2);
    fclose(stream);
    return resident;
}

// Packets that replace each other take no more memory than the packets that the store has at a
// time.
static void store_with_little_stays_little(void **state)
{
    (void)state;
    struct retained_store *store;
    assert_int_equal(retained_store_new(64 << 20, &store, NULL), 0);
    size_t before = resident_pages();
    for (uint32_t id = 0; id < 60000; id++)
        take(store, id, id % 3, 1000);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_true((resident_pages() - before) * page < 16 << 20);
    assert_int_equal(retained_store_get_stats(store).bytes, 3000);
    assert_int_equal(retained_store_get_stats(store).dropped, 0);
    retained_store_free(store);
}

static uint32_t id_of(const struct packet_view *view)
{
    uint32_t id;
    assert_true(view->size >= sizeof(id));
    memcpy(&id, view->data, sizeof(id));
    return id;
}

static void put_numbered(struct packet_buffer *buffer, uint32_t id, size_t size,
                         struct packet_meta meta)
{
    size_t room;
    uint8_t *to = packet_buffer_reserve(buffer, size, 4 * size, &room);
    assert_non_null(to);
    memset(to, 0, size);
    memcpy(to, &id, sizeof(id));
    packet_buffer_commit(buffer, size, &meta);
}

// Reads all packets, and returns the number of their numbers in `ret`. Asserts that a walk, a copy
// and reading find the same packets.
static size_t read_numbers(struct packet_buffer *buffer, uint32_t *ret, size_t n_max)
{
    struct packet_buffer *copy;
    struct packet_cursor cursor = {0};
    struct packet_view walked, copied, read;
    size_t n = 0;
    assert_int_equal(packet_buffer_copy(buffer, &copy, NULL), 0);
    while (n < n_max && packet_buffer_next(buffer, &cursor, &walked)) {
        assert_true(packet_buffer_peek(copy, &copied));
        assert_int_equal(id_of(&copied), id_of(&walked));
        packet_buffer_consume(copy);
        ret[n++] = id_of(&walked);
    }
    assert_false(packet_buffer_peek(copy, &copied));
    packet_buffer_free(copy);
    for (size_t i = 0; i < n; i++) {
        assert_true(packet_buffer_peek(buffer, &read));
        assert_int_equal(id_of(&read), ret[i]);
        packet_buffer_consume(buffer);
    }
    assert_false(packet_buffer_peek(buffer, &read));
    return n;
}

// A flood leaves its beginning and its end, both without a hole. The buffer counts the packets
// between them, and the events of these packets. The name among these packets stays, too.
static void both_ends_are_kept(void **state)
{
    (void)state;
    enum { N = 5000, NAME = 3000, EVENTS = 7 };
    static uint32_t ids[N];
    struct packet_buffer *buffer;
    struct packet_buffer_stats stats;
    assert_int_equal(packet_buffer_new_both_ends(65536, 16384, &buffer, NULL), 0);
    for (int round = 0; round < 3; round++) {
        packet_buffer_get_stats(buffer, &stats);
        uint64_t lost_before = stats.packets_lost, events_before = stats.events_lost;
        assert_int_equal(stats.size_bytes, 65536);
        for (uint32_t id = 0; id < N; id++)
            put_numbered(buffer, id, 60,
                         id == NAME
                             ? (struct packet_meta){.retain = PACKET_RETAIN_REPLACE, .key = 1}
                             : (struct packet_meta){.n_events = EVENTS});
        size_t n = read_numbers(buffer, ids, N), i = 1;
        assert_int_equal(ids[0], 0);
        while (ids[i] == ids[i - 1] + 1)
            i++;
        assert_in_range(i, 16384 / 80 - 5, 16384 / 80);
        assert_int_equal(ids[i++], NAME);
        size_t n_last = n - i;
        for (i++; i < n; i++)
            assert_int_equal(ids[i], ids[i - 1] + 1);
        assert_int_equal(ids[n - 1], N - 1);
        assert_in_range(n_last, 49152 / 80 - 5, 49152 / 80);
        packet_buffer_get_stats(buffer, &stats);
        assert_int_equal(stats.packets_lost - lost_before, N - n);
        assert_int_equal(stats.events_lost - events_before, (N - n) * EVENTS);
        assert_int_equal(stats.packets_overwritten, stats.packets_lost);
        assert_int_equal(stats.packets_discarded, 0);
        assert_int_equal(stats.packets_written, (round + 1) * N);
        assert_int_equal(stats.packets_read + stats.packets_lost, stats.packets_written);
    }
    packet_buffer_free(buffer);
}

// Without a flood nothing is lost, and packets come in the order of writing, also if reading and
// writing alternate.
static void both_ends_without_a_flood(void **state)
{
    (void)state;
    static uint32_t ids[1000];
    struct packet_buffer *buffer;
    struct packet_buffer_stats stats;
    uint32_t next = 0, expected = 0;
    assert_int_equal(packet_buffer_new_both_ends(65536, 16384, &buffer, NULL), 0);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 100 + round * 15; i++)
            put_numbered(buffer, next++, 60, (struct packet_meta){.n_events = 1});
        size_t n = read_numbers(buffer, ids, 1000);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(ids[i], expected++);
    }
    packet_buffer_get_stats(buffer, &stats);
    assert_int_equal(stats.packets_lost, 0);
    assert_int_equal(stats.packets_read, next);
    packet_buffer_free(buffer);
    assert_int_equal(packet_buffer_new_both_ends(8192, 8192, &buffer, NULL), -EINVAL);
    assert_int_equal(packet_buffer_new_both_ends(8192, 100, &buffer, NULL), -EINVAL);
}

// packet_buffer_touch() makes memory of the buffer resident, once.
static void touched_memory_is_there(void **state)
{
    (void)state;
    struct packet_buffer *buffer;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(packet_buffer_new_both_ends(4 << 20, 1 << 20, &buffer, NULL), 0);
    size_t before = resident_pages();
    size_t touched = packet_buffer_touch(buffer, 3 << 20);
    if (touched) { // 0: not possible with this kernel
        assert_int_equal(touched, 3 << 20);
        assert_in_range(resident_pages() - before, (3 << 20) / page - 16, (3 << 20) / page + 64);
    }
    assert_int_equal(packet_buffer_touch(buffer, 0), 0);
    packet_buffer_free(buffer);
}

// Returns the resident bytes of all buffers: children inherit no other memory of this process
// ("dc"). Memory of a sanitizer is left out.
static size_t resident_of_buffers(void)
{
    char line[512];
    size_t rss_kb = 0, sum_kb = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        sscanf(line, "Rss: %zu kB", &rss_kb);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc"))
            sum_kb += rss_kb;
    }
    fclose(file);
    return sum_kb * 1024;
}

// A large buffer takes memory as it fills, somewhat ahead of the packets.
static void large_buffers_take_memory_in_steps(void **state)
{
    (void)state;
    enum { SIZE = 30000, STRIDE = 16 };
    const size_t capacity = (size_t)32 << 20, ahead = (size_t)2 << 20;
    struct packet_buffer *buffer;
    size_t before = resident_of_buffers();
    assert_int_equal(packet_buffer_new(capacity, PACKET_BUFFER_RING, &buffer, NULL), 0);
    assert_in_range(resident_of_buffers() - before, 0, ahead);
    for (uint32_t id = 0; id < 3 * capacity / SIZE; id++) {
        size_t written = (size_t)(id + 1) * (SIZE + HEADER);
        assert_true(put(buffer, id, SIZE, PACKET_PLAIN, 0));
        if (id % STRIDE)
            continue;
        size_t taken = resident_of_buffers() - before;
        if (written < capacity)
            assert_in_range(taken, written, written + ahead);
        else
            assert_in_range(taken, capacity - ahead, capacity);
    }
    packet_buffer_free(buffer);
    assert_int_equal(resident_of_buffers(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_buffers_take_memory_in_steps),
        cmocka_unit_test(ring_equals_model),
        cmocka_unit_test(what_was_read_is_never_kept),
        cmocka_unit_test(consumed_memory_is_released),
        cmocka_unit_test(rules_of_keys),
        cmocka_unit_test(discard_keeps_the_beginning),
        cmocka_unit_test(drained_discard_goes_on),
        cmocka_unit_test(too_large_is_refused),
        cmocka_unit_test(walk_survives_writing),
        cmocka_unit_test(store_equals_model),
        cmocka_unit_test(walk_survives_compaction),
        cmocka_unit_test(store_with_little_stays_little),
        cmocka_unit_test(both_ends_are_kept),
        cmocka_unit_test(both_ends_without_a_flood),
        cmocka_unit_test(touched_memory_is_there),
    };
    return cmocka_run_group_tests_name("packet_buffer", tests, NULL, NULL);
}
