// SPDX-License-Identifier: Apache-2.0
//
// Both ends of the ring, in one process.
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "producer/heap/ring_writer.h"
#include "producer/sources/heap/ring_reader.h"
#include "tests/unit/unit.h"

#define RING_BYTES 8192

static struct ring_reader reader;
static struct ring_writer writer;

static int make_ring(void **state)
{
    (void)state;
    struct ring_options options = {.bytes = RING_BYTES, .interval_bytes = 4096};
    struct err err = {0};
    if (ring_reader_new(&options, &reader, &err) < 0)
        return -1;
    writer = (struct ring_writer){reader.header, reader.memory, RING_BYTES};
    return 0;
}

static int free_ring(void **state)
{
    (void)state;
    ring_reader_done(&reader);
    return 0;
}

static bool write_free(uint64_t address)
{
    struct heap_free *record = ring_reserve(&writer, HEAP_FREE, sizeof(*record), 0);
    if (!record)
        return false;
    record->address = address;
    ring_commit(record);
    return true;
}

static bool write_alloc(uint64_t address, size_t n_frames)
{
    struct heap_alloc *record =
        ring_reserve(&writer, HEAP_ALLOC, sizeof(*record) + n_frames * 8, 0);
    if (!record)
        return false;
    record->head.n_frames = (uint16_t)n_frames;
    record->address = address;
    record->weight = address * 2;
    for (size_t i = 0; i < n_frames; i++)
        record->frames[i] = address + i;
    ring_commit(record);
    return true;
}

static bool read_one(struct ring_record *ret)
{
    return ring_reader_next(&reader, 1, false, ret);
}

// Through many laps, with records of all lengths, so that gaps of all lengths are passed over.
static void records_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct ring_record record;
    for (uint64_t i = 1; i < 20000; i++) {
        size_t n = i * 7 % 60;
        assert_true(write_alloc(i, n));
        assert_true(write_free(i));
        assert_true(read_one(&record));
        assert_int_equal(record.kind, HEAP_ALLOC);
        assert_int_equal(record.address, i);
        assert_int_equal(record.weight, i * 2);
        assert_int_equal(record.n_frames, n);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(record.frames[k], i + k);
        assert_true(read_one(&record));
        assert_int_equal(record.kind, HEAP_FREE);
        assert_int_equal(record.address, i);
        assert_false(read_one(&record));
    }
    assert_false(reader.corrupted);
}

static void a_full_ring_refuses_and_recovers(void **state)
{
    (void)state;
    struct ring_record record;
    for (int lap = 0; lap < 50; lap++) {
        uint64_t n = 0, got = 0;
        while (write_alloc(n + 1, 20))
            n++;
        assert_in_range(n, RING_BYTES / 184 - 1, RING_BYTES / 184 + 1);
        while (write_free(n + 1))
            n++;
        while (read_one(&record))
            assert_int_equal(record.address, ++got);
        assert_int_equal(got, n);
        assert_int_equal(ring_free_bytes(&writer), RING_BYTES);
    }
}

static void room_is_kept_for_what_must_not_be_lost(void **state)
{
    (void)state;
    size_t n = 0;
    for (void *record; (record = ring_reserve(&writer, HEAP_PAD, 64, RING_BYTES / 8)); n++)
        ring_commit(record);
    assert_int_equal(n, RING_BYTES / 8 * 7 / 64);
    assert_true(write_free(1));
}

static void an_unfinished_record_is_waited_for(void **state)
{
    (void)state;
    struct ring_record record;
    struct heap_free *unfinished = ring_reserve(&writer, HEAP_FREE, sizeof(*unfinished), 0);
    assert_true(write_free(2));
    assert_false(ring_reader_next(&reader, NSEC_PER_SEC, false, &record));
    unfinished->address = 1;
    ring_commit(unfinished);
    assert_true(read_one(&record));
    assert_int_equal(record.address, 1);
    assert_true(read_one(&record));
    assert_int_equal(record.address, 2);
}

static void but_not_for_ever(void **state)
{
    (void)state;
    struct ring_record record;
    assert_non_null(ring_reserve(&writer, HEAP_FREE, sizeof(struct heap_free), 0));
    assert_true(write_free(2));
    assert_false(ring_reader_next(&reader, NSEC_PER_SEC, false, &record));
    assert_true(ring_reader_next(&reader, 10 * NSEC_PER_SEC, false, &record));
    assert_int_equal(record.address, 2);
    assert_int_equal(reader.n_skipped, 1);
}

static void nor_for_a_process_that_is_gone(void **state)
{
    (void)state;
    struct ring_record record;
    assert_non_null(ring_reserve(&writer, HEAP_FREE, sizeof(struct heap_free), 0));
    assert_true(write_free(2));
    assert_true(ring_reader_next(&reader, 1, true, &record));
    assert_int_equal(record.address, 2);
}

// A record whose size is not known ends the profile of a client that lives.
static void a_hole_cannot_be_passed(void **state)
{
    (void)state;
    struct ring_record record;
    atomic_store(&reader.header->write_pos, 64);
    assert_false(ring_reader_next(&reader, NSEC_PER_SEC, false, &record));
    assert_false(reader.corrupted);
    assert_false(ring_reader_next(&reader, 10 * NSEC_PER_SEC, false, &record));
    assert_true(reader.corrupted);
}

static void heaps_have_names(void **state)
{
    (void)state;
    struct ring_record record;
    struct heap_named *named = ring_reserve(&writer, HEAP_HEAP, sizeof(*named), 0);
    *named = (struct heap_named){.head = named->head, .interval_bytes = 7, .name = "pool"};
    named->head.heap = 5;
    ring_commit(named);
    assert_true(read_one(&record));
    assert_int_equal(record.kind, HEAP_HEAP);
    assert_int_equal(record.heap, 5);
    assert_int_equal(record.named->interval_bytes, 7);
    assert_string_equal(record.named->name, "pool");
    named = ring_reserve(&writer, HEAP_HEAP, sizeof(*named), 0);
    named->head.heap = 5;
    memset(named->name, 'a', sizeof(named->name));
    ring_commit(named);
    assert_false(read_one(&record));
    assert_true(reader.corrupted);
}

static void check_nonsense(uint32_t word, uint8_t kind, uint16_t n_frames)
{
    struct ring_record record;
    free_ring(NULL);
    assert_int_equal(make_ring(NULL), 0);
    struct heap_record *head = (struct heap_record *)reader.memory;
    *head = (struct heap_record){.word = word, .kind = kind, .n_frames = n_frames};
    atomic_store(&reader.header->write_pos, 4096);
    assert_false(read_one(&record));
    assert_true(reader.corrupted);
}

static void nonsense_is_seen(void **state)
{
    (void)state;
    check_nonsense(HEAP_RECORD_DONE | 4, HEAP_FREE, 0);
    check_nonsense(HEAP_RECORD_DONE | 17, HEAP_FREE, 0);
    check_nonsense(HEAP_RECORD_DONE | 8192, HEAP_ALLOC, 0);
    check_nonsense(HEAP_RECORD_DONE | 64, HEAP_FREE, 0);
    check_nonsense(HEAP_RECORD_DONE | 64, HEAP_ALLOC, 200);
    check_nonsense(HEAP_RECORD_DONE | 64, 77, 0);
    check_nonsense(HEAP_RECORD_DONE | 24, HEAP_OBJECT, 0);
    check_nonsense(HEAP_RECORD_DONE | 24, HEAP_HEAP, 0);
}

// A whole record of `size` bytes, as it stands in `bytes`, is read as a record of its kind, or ends
// the profile.
static void check_record(const void *bytes, size_t size, bool is_good)
{
    struct ring_record record;
    size_t room = (size + HEAP_RECORD_ALIGN - 1) / HEAP_RECORD_ALIGN * HEAP_RECORD_ALIGN;
    const struct heap_record *head = bytes;
    free_ring(NULL);
    assert_int_equal(make_ring(NULL), 0);
    memcpy(reader.memory, bytes, size);
    atomic_store(&((struct heap_record *)reader.memory)->word, (uint32_t)room | HEAP_RECORD_DONE);
    atomic_store(&reader.header->write_pos, room);
    assert_int_equal(read_one(&record), is_good);
    assert_int_equal(reader.corrupted, !is_good);
    if (is_good)
        assert_int_equal(record.kind, head->kind);
}

static void allocations_are_judged_by_their_bounds(void **state)
{
    (void)state;
    static uint64_t bytes[(sizeof(struct heap_alloc) + (HEAP_FRAMES_MAX + 1) * 8) / 8];
    struct heap_alloc *alloc = (struct heap_alloc *)bytes;
    alloc->head = (struct heap_record){.kind = HEAP_ALLOC, .n_frames = HEAP_FRAMES_MAX};
    check_record(bytes, sizeof(bytes) - 8, true);
    alloc->head.n_frames = HEAP_FRAMES_MAX + 1;
    check_record(bytes, sizeof(bytes), false);
    alloc->head.n_frames = 0;
    alloc->head.heap = HEAP_HEAPS_MAX - 1;
    check_record(bytes, sizeof(*alloc), true);
    alloc->head.heap = HEAP_HEAPS_MAX;
    check_record(bytes, sizeof(*alloc), false);
}

static void check_object(uint32_t id_size, uint32_t path_size, uint32_t missing, bool is_good)
{
    static uint64_t bytes[(sizeof(struct heap_object) + HEAP_ID_MAX + HEAP_PATH_MAX + 64) / 8];
    struct heap_object *object = (struct heap_object *)bytes;
    *object = (struct heap_object){.head = {.kind = HEAP_OBJECT},
                                   .start = 1,
                                   .end = 2,
                                   .id_size = id_size,
                                   .path_size = path_size};
    check_record(bytes, sizeof(*object) + id_size + path_size - missing, is_good);
    object->end = 1;
    check_record(bytes, sizeof(*object) + id_size + path_size - missing, false);
}

static void mappings_are_judged_by_their_bounds(void **state)
{
    (void)state;
    check_object(0, 0, 0, true);
    check_object(HEAP_ID_MAX, HEAP_PATH_MAX, 0, true);
    check_object(HEAP_ID_MAX + 8, 0, 0, false);
    check_object(0, HEAP_PATH_MAX + 8, 0, false);
    check_object(8, 8, 0, true);
    check_object(8, 8, 8, false); // the path ends behind the record
    check_object(0, 0, 8, false);
}

static void check_method(uint32_t name_size, uint32_t missing, bool is_good)
{
    static uint64_t bytes[(sizeof(struct heap_method) + HEAP_METHOD_MAX + 64) / 8];
    struct heap_method *method = (struct heap_method *)bytes;
    *method = (struct heap_method){.head = {.kind = HEAP_METHOD}, .name_size = name_size};
    check_record(bytes, sizeof(*method) + name_size - missing, is_good);
}

static void methods_are_judged_by_their_bounds(void **state)
{
    (void)state;
    check_method(0, 0, true);
    check_method(HEAP_METHOD_MAX, 0, true);
    check_method(HEAP_METHOD_MAX + 8, 0, false);
    check_method(16, 8, false);
    check_method(0, 8, false);
}

static void no_arenas_and_no_mappings_are_records_too(void **state)
{
    (void)state;
    const struct heap_arenas none = {.head = {.kind = HEAP_ARENAS}};
    const struct heap_record objects = {.kind = HEAP_OBJECTS};
    check_record(&none, sizeof(none), true);
    check_record(&none, sizeof(none) - 8, false);
    check_record(&objects, sizeof(objects), true);
}

// The time is that of the first look at an unfinished record, not the time of the machine's clock.
static void patience_begins_with_the_first_look(void **state)
{
    (void)state;
    const nsec_t now = 1000 * NSEC_PER_SEC, patience = 2 * NSEC_PER_SEC;
    struct ring_record record;
    assert_non_null(ring_reserve(&writer, HEAP_FREE, sizeof(struct heap_free), 0));
    assert_true(write_free(2));
    assert_false(ring_reader_next(&reader, now, false, &record));
    assert_false(ring_reader_next(&reader, now + patience - 1, false, &record));
    assert_true(ring_reader_next(&reader, now + patience, false, &record));
    assert_int_equal(record.address, 2);
}

static void *write_many(void *thread)
{
    uint64_t base = (uint64_t)(uintptr_t)thread << 32;
    for (uint64_t i = 0; i < 20000; i++)
        while (!write_alloc(base + i, i % 30))
            sched_yield();
    return NULL;
}

static void threads_keep_their_order(void **state)
{
    (void)state;
    pthread_t threads[3];
    uint64_t next[3] = {0};
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)(uintptr_t)i), 0);
    for (size_t n = 0; n < 60000;) {
        struct ring_record record;
        if (!read_one(&record)) {
            assert_false(reader.corrupted);
            sched_yield();
            continue;
        }
        assert_int_equal(record.address & UINT32_MAX, next[record.address >> 32]++);
        n++;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void write_arenas(uint32_t n_told, uint32_t n_there)
{
    struct heap_arenas *record = ring_reserve(&writer, HEAP_ARENAS, HEAP_ARENAS_BYTES(n_there), 0);
    assert_non_null(record);
    record->n_arenas = n_told;
    record->mapped_bytes = 7;
    for (uint32_t i = 0; i < n_there; i++)
        record->arenas[i] = (struct heap_arena){.index = i, .free_bytes = 100 + i};
    ring_commit(record);
}

static void arenas_are_judged_by_their_number(void **state)
{
    (void)state;
    struct ring_record record;
    write_arenas(HEAP_ARENAS_MAX, HEAP_ARENAS_MAX);
    assert_true(read_one(&record));
    assert_int_equal(record.kind, HEAP_ARENAS);
    assert_int_equal(record.arenas->n_arenas, HEAP_ARENAS_MAX);
    assert_int_equal(record.arenas->arenas[HEAP_ARENAS_MAX - 1].free_bytes, 163);
    write_arenas(3, 2);
    assert_false(read_one(&record));
    assert_true(reader.corrupted);
}

static void a_question_stands_until_it_is_answered(void **state)
{
    (void)state;
    assert_true(ring_reader_is_answered(&reader));
    ring_reader_ask(&reader);
    ring_reader_ask(&reader);
    assert_false(ring_reader_is_answered(&reader));
    atomic_store(&reader.header->answered, atomic_load(&reader.header->ask));
    assert_true(ring_reader_is_answered(&reader));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_ring, free_ring)

static void what_the_header_says_stays_when_the_memory_goes(void **state)
{
    (void)state;
    int fd = reader.fd;
    atomic_store(&reader.header->n_lost_allocs, 7);
    ring_reader_release(&reader);
    ring_reader_close(&reader);
    ring_reader_close(&reader);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(reader.fd, -1);
    assert_int_equal((uintptr_t)reader.header % _Alignof(struct heap_header), 0);
    assert_int_equal(atomic_load(&reader.header->n_lost_allocs), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_come_out_as_they_went_in),
        TEST(a_full_ring_refuses_and_recovers),
        TEST(room_is_kept_for_what_must_not_be_lost),
        TEST(an_unfinished_record_is_waited_for),
        TEST(but_not_for_ever),
        TEST(nor_for_a_process_that_is_gone),
        TEST(a_hole_cannot_be_passed),
        TEST(heaps_have_names),
        TEST(nonsense_is_seen),
        TEST(allocations_are_judged_by_their_bounds),
        TEST(mappings_are_judged_by_their_bounds),
        TEST(methods_are_judged_by_their_bounds),
        TEST(no_arenas_and_no_mappings_are_records_too),
        TEST(patience_begins_with_the_first_look),
        TEST(arenas_are_judged_by_their_number),
        TEST(a_question_stands_until_it_is_answered),
        TEST(threads_keep_their_order),
        TEST(what_the_header_says_stays_when_the_memory_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
