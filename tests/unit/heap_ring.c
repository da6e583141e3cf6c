// SPDX-License-Identifier: Apache-2.0
//
// Both ends of the ring, in one process.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/heap/heap_owner.h"
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

// The ring wraps around many times. The records have all lengths, so that the reader passes over
// gaps of all lengths.
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

static void room_is_reserved_for_records_that_must_not_be_lost(void **state)
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

static void an_unfinished_record_is_given_up_after_a_while(void **state)
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

static void records_of_an_ended_process_are_not_waited_for(void **state)
{
    (void)state;
    struct ring_record record;
    assert_non_null(ring_reserve(&writer, HEAP_FREE, sizeof(struct heap_free), 0));
    assert_true(write_free(2));
    assert_true(ring_reader_next(&reader, 1, true, &record));
    assert_int_equal(record.address, 2);
}

// The reader cannot pass over a record of unknown size: the profile ends, although the client
// lives.
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
    // HEAP_OBJECTS accepts any valid size; these sizes are invalid for every kind.
    check_nonsense(HEAP_RECORD_DONE | 0, HEAP_OBJECTS, 0);
    check_nonsense(HEAP_RECORD_DONE | 17, HEAP_OBJECTS, 0);
    check_nonsense(HEAP_RECORD_DONE | 4104, HEAP_OBJECTS, 0); // more than was written
}

// Puts the `size` bytes of a whole record into a new ring. Asserts that the reader reads the record
// if `is_good`, and ends the profile if not.
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
    check_object(8, 8, 8, false); // the path ends after the record
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

static void empty_lists_of_arenas_and_mappings_are_records(void **state)
{
    (void)state;
    const struct heap_arenas none = {.head = {.kind = HEAP_ARENAS}};
    const struct heap_record objects = {.kind = HEAP_OBJECTS};
    check_record(&none, sizeof(none), true);
    check_record(&none, sizeof(none) - 8, false);
    check_record(&objects, sizeof(objects), true);
}

// The patience with an unfinished record begins when the reader first sees the record.
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
    assert_int_equal(atomic_load(&reader.header->ask), 1);
    assert_false(ring_reader_is_answered(&reader));
    atomic_store(&reader.header->answered, atomic_load(&reader.header->ask));
    assert_true(ring_reader_is_answered(&reader));
}

static uint32_t shift_of(struct ring_options options)
{
    struct heap_header header;
    ring_header_fill(&options, &header);
    return header.table_shift;
}

// A step is a sixteenth of the shortest interval, or a 64th from 64 KiB on. Steps are between 2^4
// and 2^22.
static void the_table_has_steps_of_the_shortest_interval(void **state)
{
    (void)state;
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 4096}), 8);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 8191}), 8);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 8192}), 9);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 65535}), 11);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 65536}), 10);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 1}), 4);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 512}), 5);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = UINT64_MAX}), 22);
    assert_int_equal(shift_of((struct ring_options){0}), 22);
    assert_int_equal(shift_of((struct ring_options){.interval_bytes = 4096, .is_numbered = true}),
                     0);
    struct ring_options options = {.interval_bytes = 1 << 20, .others_interval_bytes = 4096};
    assert_int_equal(shift_of(options), 8);
    options.others_interval_bytes = 1 << 21;
    assert_int_equal(shift_of(options), 14);
    options.wanted[0].interval_bytes = 16384;
    assert_int_equal(shift_of(options), 14); // wanted[0] does not count while n_wanted is 0
    options.n_wanted = 1;
    options.wanted[1].interval_bytes = 1;
    assert_int_equal(shift_of(options), 10);
    options.n_wanted = HEAP_WANTED_MAX;
    options.wanted[1].interval_bytes = 0; // not sampled
    options.wanted[HEAP_WANTED_MAX - 1].interval_bytes = 4096;
    assert_int_equal(shift_of(options), 8);
    options.interval_bytes = 0;
    assert_int_equal(shift_of(options), 8);
    options.n_wanted++; // more than there can be
    assert_int_equal(shift_of(options), 8);
    options.n_wanted = 3; // the shortest is the first, and the last is not sampled
    options.wanted[0].interval_bytes = 4096;
    options.wanted[1].interval_bytes = 16384;
    assert_int_equal(shift_of(options), 8);
}

static void the_header_has_the_options(void **state)
{
    (void)state;
    struct heap_header header;
    struct ring_options options = {.bytes = RING_BYTES, .block_client = true, .n_wanted = 1};
    strcpy(options.wanted[0].name, "pool");
    ring_header_fill(&options, &header);
    assert_int_equal(header.flags, HEAP_BLOCK_CLIENT);
    assert_int_equal(header.n_wanted, 1);
    assert_string_equal(header.wanted[0].name, "pool");
    options.block_client = false;
    ring_header_fill(&options, &header);
    assert_int_equal(header.flags, 0);
}

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int shared_memory(off_t size, int seals)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    if (seals)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void expect_over(int fd, int expected)
{
    const struct ring_options options = {.bytes = RING_BYTES, .interval_bytes = 4096};
    struct ring_reader over = {.fd = -1};
    struct err err = {0};
    assert_int_equal(ring_reader_over(fd, &options, &over, &err), expected);
    assert_int_equal(err.text[0] != 0, expected < 0);
    if (expected == 0) {
        assert_int_equal(over.table_shift, 8);
        assert_int_equal(ring_reader_used(&over), 0);
        ring_reader_done(&over);
    }
    assert_int_equal(over.fd, -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1); // closed in every case
}

static void memory_of_others_is_checked(void **state)
{
    (void)state;
    const off_t size = HEAP_MEMORY_BYTES(RING_BYTES);
    expect_over(shared_memory(size, ALL_SEALS), 0);
    expect_over(shared_memory(size, ALL_SEALS | F_SEAL_FUTURE_WRITE), -EPERM); // cannot be mapped
    expect_over(shared_memory(size + 1, ALL_SEALS), -EPROTO);
    expect_over(shared_memory(size - 1, ALL_SEALS), -EPROTO);
    expect_over(shared_memory(size, 0), -EPROTO);
    expect_over(shared_memory(size, F_SEAL_GROW | F_SEAL_SEAL), -EPROTO);
    expect_over(shared_memory(size, F_SEAL_SHRINK | F_SEAL_SEAL), -EPROTO);
    expect_over(shared_memory(size, F_SEAL_SHRINK | F_SEAL_GROW), -EPROTO);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), size), 0);
    expect_over(fcntl(fileno(file), F_DUPFD_CLOEXEC, 0), -EPROTO);
    fclose(file);
}

static void too_large_a_ring_is_an_error(void **state)
{
    (void)state;
    const struct ring_options options = {.bytes = UINT64_C(1) << 62};
    struct ring_reader large = {.fd = 42};
    struct err err = {0};
    assert_true(ring_reader_new(&options, &large, &err) < 0);
    assert_non_null(strstr(err.text, "shared memory"));
    assert_int_equal(large.fd, 42); // untouched
}

static void put_objects(size_t size)
{
    struct heap_record *record = ring_reserve(&writer, HEAP_OBJECTS, size, 0);
    assert_non_null(record);
    ring_commit(record);
}

// The reader gives room back in 32nds of the ring, and all room when the ring is empty.
static void room_is_given_back_in_parts(void **state)
{
    (void)state;
    enum { SIZE = RING_BYTES / 32 / 4 };
    struct ring_record record;
    for (int i = 0; i < 9; i++)
        put_objects(SIZE);
    for (unsigned i = 1; i <= 9; i++) {
        assert_true(read_one(&record));
        assert_int_equal(atomic_load(&reader.header->read_pos), i / 4 * 4 * SIZE);
    }
    assert_int_equal(ring_reader_used(&reader), 0);
    assert_false(read_one(&record));
    assert_int_equal(atomic_load(&reader.header->read_pos), 9 * SIZE);
}

static void a_ring_is_filled_to_its_last_byte(void **state)
{
    (void)state;
    struct ring_record record;
    for (int lap = 0; lap < 2; lap++) {
        for (int i = 0; i < RING_BYTES / 64; i++)
            put_objects(64);
        assert_null(ring_reserve(&writer, HEAP_OBJECTS, 8, 0));
        for (int i = 0; i < RING_BYTES / 64; i++)
            assert_true(read_one(&record));
        assert_false(read_one(&record));
    }
}

static void an_empty_ring_is_not_waited_for(void **state)
{
    (void)state;
    struct ring_record record;
    for (int i = 1; i < 10; i++)
        assert_false(ring_reader_next(&reader, i * 10 * NSEC_PER_SEC, false, &record));
    assert_false(reader.corrupted);
    assert_false(heap_is_stopped(reader.header));
}

static void a_hole_at_the_end_is_one_lost_record(void **state)
{
    (void)state;
    struct ring_record record;
    atomic_store(&reader.header->write_pos, 64);
    assert_false(ring_reader_next(&reader, 1, true, &record));
    assert_false(reader.corrupted);
    assert_int_equal(reader.n_skipped, 1);
    assert_false(heap_is_stopped(reader.header));
}

// A position of the client beyond the ring counts as the end of the ring.
static void no_more_than_the_ring_is_used(void **state)
{
    (void)state;
    atomic_store(&reader.header->write_pos, RING_BYTES);
    assert_int_equal(ring_reader_used(&reader), RING_BYTES);
    atomic_store(&reader.header->write_pos, RING_BYTES + 1);
    assert_int_equal(ring_reader_used(&reader), RING_BYTES);
    assert_int_equal(ring_free_bytes(&writer), 0);
    assert_null(ring_reserve(&writer, HEAP_FREE, sizeof(struct heap_free), 0));
}

static void a_record_over_the_end_is_malformed(void **state)
{
    (void)state;
    struct ring_record record;
    for (size_t left = RING_BYTES - 16; left > 0; left -= left < 64 ? left : 64) {
        put_objects(left < 64 ? left : 64);
        assert_true(read_one(&record));
    }
    struct heap_record *head = (struct heap_record *)(reader.memory + RING_BYTES - 16);
    *head = (struct heap_record){.word = HEAP_RECORD_DONE | 24, .kind = HEAP_OBJECTS};
    atomic_store(&reader.header->write_pos, RING_BYTES + 1024);
    assert_false(read_one(&record));
    assert_true(reader.corrupted);
    assert_true(heap_is_stopped(reader.header)); // the client ends
    atomic_store(&head->word, HEAP_RECORD_DONE | 16);
    assert_false(read_one(&record)); // the reader reads nothing more
}

static void records_have_a_largest_size(void **state)
{
    (void)state;
    enum { LARGEST = sizeof(struct heap_object) + HEAP_ID_MAX + HEAP_PATH_MAX + 64 };
    static uint64_t bytes[LARGEST / 8 + 1];
    struct heap_record *head = (struct heap_record *)bytes;
    head->kind = HEAP_OBJECTS;
    check_record(bytes, LARGEST, true);
    check_record(bytes, LARGEST + 8, false);
}

static void heaps_and_arenas_have_bounds(void **state)
{
    (void)state;
    static uint64_t bytes[HEAP_ARENAS_BYTES(HEAP_ARENAS_MAX + 1) / 8];
    struct heap_arenas *arenas = (struct heap_arenas *)bytes;
    *arenas = (struct heap_arenas){.head = {.kind = HEAP_ARENAS}, .n_arenas = HEAP_ARENAS_MAX};
    check_record(bytes, HEAP_ARENAS_BYTES(HEAP_ARENAS_MAX), true);
    arenas->n_arenas++;
    check_record(bytes, HEAP_ARENAS_BYTES(HEAP_ARENAS_MAX + 1), false);
    struct heap_named named = {.head = {.kind = HEAP_HEAP, .heap = 1}, .name = "a"};
    check_record(&named, sizeof(named), true);
    check_record(&named, sizeof(named) - 8, false);
    named.head.heap = 0; // malloc's has its name already
    check_record(&named, sizeof(named), false);
}

static void a_client_is_stopped_by_its_memory(void **state)
{
    (void)state;
    heap_owner_stop(reader.fd);
    assert_true(heap_is_stopped(reader.header));
}

// Runs as a process of its own: makes three rings, gives back the middle one, sends the numbers of
// all three descriptors, and waits to be killed.
static void be_a_recorder(int pipe_fd)
{
    struct ring_options options = {.bytes = RING_BYTES, .interval_bytes = 4096};
    struct ring_reader rings[3];
    int fds[3];
    for (int i = 0; i < 3; i++) {
        if (ring_reader_new(&options, &rings[i], NULL) < 0 || !rings[i].is_noted)
            _exit(1);
        fds[i] = dup(rings[i].fd);
    }
    ring_reader_done(&rings[1]);
    if (write(pipe_fd, fds, sizeof(fds)) != sizeof(fds))
        _exit(1);
    for (;;)
        pause();
}

static struct heap_header *map_of(pid_t pid, int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    int here = open(path, O_RDWR | O_CLOEXEC);
    assert_true(here >= 0);
    void *header = mmap(NULL, HEAP_HEADER_BYTES, PROT_READ, MAP_SHARED, here, 0);
    assert_ptr_not_equal(header, MAP_FAILED);
    close(here);
    return header;
}

static void the_kernel_stops_the_client_of_a_recorder_that_is_killed(void **state)
{
    (void)state;
    int ends[2], fds[3], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        be_a_recorder(ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], fds, sizeof(fds)), sizeof(fds));
    close(ends[0]);
    struct heap_header *headers[3];
    for (int i = 0; i < 3; i++)
        headers[i] = map_of(pid, fds[i]);
    assert_int_equal(atomic_load(&headers[0]->recorder), (unsigned)pid);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(heap_is_stopped(headers[0]));
    assert_false(heap_is_stopped(headers[1])); // given back: no entry is left
    assert_true(heap_is_stopped(headers[2]));
    for (int i = 0; i < 3; i++)
        munmap(headers[i], HEAP_HEADER_BYTES);
    assert_false(heap_is_stopped(reader.header)); // this process's ring goes on
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
        TEST(room_is_reserved_for_records_that_must_not_be_lost),
        TEST(an_unfinished_record_is_waited_for),
        TEST(an_unfinished_record_is_given_up_after_a_while),
        TEST(records_of_an_ended_process_are_not_waited_for),
        TEST(a_hole_cannot_be_passed),
        TEST(heaps_have_names),
        TEST(nonsense_is_seen),
        TEST(allocations_are_judged_by_their_bounds),
        TEST(mappings_are_judged_by_their_bounds),
        TEST(methods_are_judged_by_their_bounds),
        TEST(empty_lists_of_arenas_and_mappings_are_records),
        TEST(patience_begins_with_the_first_look),
        TEST(arenas_are_judged_by_their_number),
        TEST(a_question_stands_until_it_is_answered),
        TEST(the_table_has_steps_of_the_shortest_interval),
        TEST(the_header_has_the_options),
        TEST(memory_of_others_is_checked),
        TEST(too_large_a_ring_is_an_error),
        TEST(room_is_given_back_in_parts),
        TEST(a_ring_is_filled_to_its_last_byte),
        TEST(an_empty_ring_is_not_waited_for),
        TEST(a_hole_at_the_end_is_one_lost_record),
        TEST(no_more_than_the_ring_is_used),
        TEST(a_record_over_the_end_is_malformed),
        TEST(records_have_a_largest_size),
        TEST(heaps_and_arenas_have_bounds),
        TEST(a_client_is_stopped_by_its_memory),
        TEST(the_kernel_stops_the_client_of_a_recorder_that_is_killed),
        TEST(threads_keep_their_order),
        TEST(what_the_header_says_stays_when_the_memory_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
