// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/heap/heap_book.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/failing_memory.h"
#include "tests/unit/unit.h"

static void add_alloc(struct heap_book *book, uint64_t address, uint64_t weight,
                      const uint64_t *frames, size_t n)
{
    struct ring_record record = {
        .kind = HEAP_ALLOC, .address = address, .weight = weight, .frames = frames, .n_frames = n};
    assert_int_equal(heap_book_add(book, &record), 0);
}

static void add_free(struct heap_book *book, uint64_t address)
{
    struct ring_record record = {.kind = HEAP_FREE, .address = address};
    assert_int_equal(heap_book_add(book, &record), 0);
}

static void add_object(struct heap_book *book, uint64_t start, uint64_t end, const char *path)
{
    struct ring_record record = {
        .kind = HEAP_OBJECT,
        .object = {.start = start,
                   .end = end,
                   .file_offset = 0x1000,
                   .load_bias = 0x200,
                   .id_size = 2,
                   .path_size = (uint32_t)strlen(path)},
        .id = (const uint8_t *)"\x12\x34",
        .path = path,
    };
    assert_int_equal(heap_book_add(book, &record), 0);
}

static const uint64_t stack_a[] = {0x5010, 0x5020, 0x5030};
static const uint64_t stack_b[] = {0x5011, 0x5020, 0x5030};

static void sites_count_what_comes_and_goes(void **state)
{
    (void)state;
    struct heap_book book = {0};
    add_alloc(&book, 1, 100, stack_a, 3);
    add_alloc(&book, 2, 30, stack_b, 3);
    add_alloc(&book, 3, 100, stack_a, 3);
    add_free(&book, 1);
    add_free(&book, 1); // has no entry any more
    add_free(&book, 77);
    assert_int_equal(book.sites.n, 5); // root, two in common, two leaves
    const struct book_site *a = &book.sites.items[3], *b = &book.sites.items[4];
    assert_int_equal(a->allocated, 200);
    assert_int_equal(a->freed, 100);
    assert_int_equal(a->n_allocs, 2);
    assert_int_equal(a->n_frees, 1);
    assert_int_equal(b->allocated, 30);
    assert_int_equal(b->parent, a->parent);
    assert_int_equal(book.total, 130);
    heap_book_done(&book);
}

// The free was not seen, but the address was given out again.
static void an_address_lives_once(void **state)
{
    (void)state;
    struct heap_book book = {0};
    add_alloc(&book, 1, 100, stack_a, 3);
    add_alloc(&book, 1, 30, stack_b, 3);
    assert_int_equal(book.total, 30);
    assert_int_equal(book.sites.items[3].freed, 100);
    add_free(&book, 1);
    assert_int_equal(book.total, 0);
    heap_book_done(&book);
}

static void the_peak_is_remembered(void **state)
{
    (void)state;
    struct heap_book book = {0};
    add_alloc(&book, 1, 100, stack_a, 3);
    add_alloc(&book, 2, 50, stack_b, 3); // 150: the peak
    add_free(&book, 1);
    add_alloc(&book, 3, 20, stack_b, 3);
    struct book_peak a = heap_book_at_peak(&book, &book.sites.items[3]);
    struct book_peak b = heap_book_at_peak(&book, &book.sites.items[4]);
    assert_int_equal(a.bytes, 100);
    assert_int_equal(a.n, 1);
    assert_int_equal(b.bytes, 50);
    add_alloc(&book, 4, 200, stack_b, 3); // a higher peak
    assert_int_equal(heap_book_at_peak(&book, &book.sites.items[3]).bytes, 0);
    assert_int_equal(heap_book_at_peak(&book, &book.sites.items[4]).bytes, 270);
    add_free(&book, 2);
    add_free(&book, 3);
    assert_int_equal(heap_book_at_peak(&book, &book.sites.items[4]).bytes, 270);
    assert_int_equal(book.peak_total, 270);
    heap_book_done(&book);
}

// Frames have return addresses. After other code was loaded at an address, the address makes
// another frame.
static void frames_belong_to_the_code_of_their_time(void **state)
{
    (void)state;
    struct heap_book book = {0};
    add_object(&book, 0x5000, 0x6000, "/lib/one.so");
    add_alloc(&book, 1, 10, stack_a, 1);
    struct ring_record gone = {.kind = HEAP_OBJECTS};
    assert_int_equal(heap_book_add(&book, &gone), 0);
    add_object(&book, 0x4000, 0x5800, "/lib/two.so");
    add_alloc(&book, 2, 10, stack_a, 1);
    assert_int_equal(heap_book_add(&book, &gone), 0);
    add_alloc(&book, 3, 10, stack_a, 1);
    add_object(&book, 0x5000, 0x6000, "/lib/one.so");
    add_alloc(&book, 4, 10, stack_a, 1);
    assert_int_equal(book.mappings.n, 2);
    assert_int_equal(book.frames.n, 3);
    assert_int_equal(book.frames.items[0].rel_pc, 0x500f - 0x5000 + 0x1000 + 0x200);
    assert_int_equal(book.frames.items[1].mapping, 1);
    assert_int_equal(book.frames.items[1].rel_pc, 0x500f - 0x4000 + 0x1000 + 0x200);
    assert_int_equal(book.frames.items[2].mapping, BOOK_NO_MAPPING);
    assert_int_equal(book.frames.items[2].rel_pc, 0x500f);
    assert_int_equal(book.sites.items[1].n_allocs, 2);
    heap_book_done(&book);
}

// After HEAP_OBJECTS, only objects that are reported again have code. A second report of an object
// changes nothing.
static void code_is_known_again(void **state)
{
    (void)state;
    struct heap_book book = {0}, copy = {0};
    struct ring_record gone = {.kind = HEAP_OBJECTS};
    for (uint64_t i = 0; i < 1000; i++)
        add_object(&book, 0x10000 * i, 0x10000 * i + 0x8000,
                   i % 2 ? "/lib/odd.so" : "/lib/even.so");
    assert_int_equal(heap_book_add(&book, &gone), 0);
    for (uint64_t i = 1000; i-- > 0;)
        if (i % 2)
            add_object(&book, 0x10000 * i, 0x10000 * i + 0x8000, "/lib/odd.so");
    add_object(&book, 0x10000, 0x18000, "/lib/odd.so");
    assert_int_equal(book.mappings.n, 1000);
    const uint64_t stack[] = {0x10000 * 7 + 1, 0x10000 * 8 + 1, 0x10000 * 7 + 0x8001};
    add_alloc(&book, 1, 10, stack, 3);
    static const uint32_t expected[] = {BOOK_NO_MAPPING, BOOK_NO_MAPPING, 7};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(book.frames.items[i].mapping, expected[i]);
    assert_int_equal(heap_book_copy_mappings(&copy, &book), 0);
    assert_int_equal(copy.mappings.n, 500);
    add_alloc(&copy, 1, 10, stack, 1);
    assert_int_equal(copy.mappings.items[copy.frames.items[0].mapping].start, 0x70000);
    heap_book_done(&book);
    heap_book_done(&copy);
}

static void an_empty_stack_is_the_root(void **state)
{
    (void)state;
    struct heap_book book = {0};
    add_alloc(&book, 1, 10, NULL, 0);
    assert_int_equal(book.sites.n, 1);
    assert_int_equal(book.sites.items[0].allocated, 10);
    heap_book_done(&book);
}

static bool is_even(void *userdata, uint64_t address)
{
    ++*(unsigned *)userdata;
    return address % 2 == 0;
}

// The book has many entries, so that a removal moves other entries.
static void samples_that_died_unseen_are_freed(void **state)
{
    (void)state;
    struct heap_book book = {0};
    unsigned n = 0;
    for (uint64_t i = 1; i <= 10000; i++)
        add_alloc(&book, i, 10, stack_a, 3);
    assert_int_equal(heap_book_reconcile(&book, is_even, &n), 0);
    assert_int_equal(n, 10000);
    assert_int_equal(book.total, 50000);
    assert_int_equal(book.sites.items[3].n_frees, 5000);
    add_free(&book, 1); // the record of its free comes late
    add_free(&book, 2);
    assert_int_equal(book.total, 49990);
    n = 0;
    assert_int_equal(heap_book_reconcile(&book, is_even, &n), 0);
    assert_int_equal(n, 4999);
    assert_int_equal(book.total, 49990);
    heap_book_done(&book);
}

// A process with many heaps gets no more of the recorder's memory than a process with one heap.
static void heaps_share_what_there_is_room_for(void **state)
{
    (void)state;
    struct book_room room = {0};
    struct heap_book books[2] = {{.room = &room}, {.room = &room}};
    char path[4000];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    for (unsigned i = 0; i < 17500; i++) {
        memcpy(path, &(uint32_t){0x01010101u + (i / 200) * 256 + i % 200}, 4);
        add_object(&books[i % 2], 0x1000 + i * 0x1000, 0x2000 + i * 0x1000, path);
    }
    assert_true(room.text_bytes <= BOOK_TEXT_BYTES);
    assert_true(books[0].mappings.n + books[1].mappings.n < 17500);
    assert_int_equal(room.n_mappings, books[0].mappings.n + books[1].mappings.n);
    struct heap_book third = {.room = &room};
    assert_int_equal(heap_book_copy_mappings(&third, &books[0]), 0);
    assert_true(room.text_bytes <= BOOK_TEXT_BYTES);

    room.n_live = BOOK_LIVE_MAX - 1;
    add_alloc(&books[0], 1, 10, stack_a, 3);
    add_alloc(&books[1], 2, 10, stack_a, 3);
    assert_int_equal(books[1].n_dropped, 1);
    add_free(&books[0], 1);
    add_alloc(&books[1], 2, 10, stack_a, 3);
    assert_int_equal(books[1].total, 10);
    room.n_sites = BOOK_SITES_MAX;
    add_alloc(&books[1], 3, 10, stack_b, 3);
    assert_int_equal(books[1].n_dropped, 2);
    heap_book_done(&books[0]);
    heap_book_done(&books[1]);
    heap_book_done(&third);
}

// An allocation that fails leaves no number of a frame or site that does not exist.
static void a_refused_allocation_leaves_no_trace(void **state)
{
    (void)state;
    struct heap_book book = {0};
    size_t n_refused = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t stack[] = {0x5000 + i, 0x100000 + i * 7, 0x900000};
        struct ring_record record = {
            .kind = HEAP_ALLOC, .address = i + 1, .weight = 1, .frames = stack, .n_frames = 3};
        int r = -ENOMEM;
        for (size_t k = 0; r < 0; k++) {
            n_until_failure = k;
            r = heap_book_add(&book, &record);
            n_until_failure = SIZE_MAX;
            assert_true(r == 0 || r == -ENOMEM);
            n_refused += r < 0;
        }
    }
    assert_true(n_refused > 20);
    assert_true(book.frames.n > 6000);
    for (size_t i = 1; i < book.sites.n; i++) {
        assert_true(book.sites.items[i].frame < book.frames.n);
        assert_true(book.sites.items[i].parent < i);
    }
    assert_int_equal(book.total, 3000);
    heap_book_done(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_count_what_comes_and_goes),
        cmocka_unit_test(an_address_lives_once),
        cmocka_unit_test(the_peak_is_remembered),
        cmocka_unit_test(heaps_share_what_there_is_room_for),
        cmocka_unit_test(frames_belong_to_the_code_of_their_time),
        cmocka_unit_test(code_is_known_again),
        cmocka_unit_test(an_empty_stack_is_the_root),
        cmocka_unit_test(samples_that_died_unseen_are_freed),
        cmocka_unit_test(a_refused_allocation_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
