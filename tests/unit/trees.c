// SPDX-License-Identifier: Apache-2.0
//
// The bytes of records, pages and trees, at the sizes where something changes, and failures of
// writing. table_pages.c checks whole files with SQLite.
#include "converter/tables/btree.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/elements.h"
#include "tests/unit/file_limit.h"
#include "tests/unit/unit.h"

#define LOCAL_MAX   4061 // bytes of a record that SQLite's format keeps in a leaf of 4096 bytes
#define CHAIN_BYTES 4092

static uint64_t type_of(struct cell cell)
{
    struct record record;
    record_measure(&record, &cell, 1);
    assert_int_equal(record.n_cells, 1);
    return record.types[0];
}

// Checks a record of one number: the size of the head, the type, and the value with its sign.
static void check_int(int64_t value, unsigned type, size_t size)
{
    struct cell cell = {.type = CELL_INT, .integer = value};
    struct record record;
    uint8_t bytes[32], alone[32];
    record_measure(&record, &cell, 1);
    assert_int_equal(record.types[0], type);
    assert_int_equal(record.n_head, 2);
    assert_int_equal(record.size, 2 + size);
    memset(bytes, 0xee, sizeof(bytes));
    record_write(&record, bytes);
    assert_int_equal(bytes[0], 2);
    assert_int_equal(bytes[1], type);
    assert_int_equal(bytes[2 + size], 0xee);
    int64_t found = type == 8 ? 0 : type == 9 ? 1 : (int8_t)bytes[2];
    for (size_t i = 1; i < size; i++)
        found = (int64_t)((uint64_t)found << 8 | bytes[2 + i]);
    assert_int_equal(found, value);
    assert_int_equal(record_write_number(value, alone), 3 + size);
    assert_int_equal(alone[0], 3);
    assert_int_equal(alone[1], 0);
    assert_memory_equal(alone + 2, bytes + 1, 1 + size);
}

static void integers_take_the_least_bytes(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 6};
    check_int(0, 8, 0);
    check_int(1, 9, 0);
    check_int(2, 1, 1);
    check_int(-1, 1, 1);
    for (unsigned i = 0; i < ELEMENTS(sizes); i++) {
        int64_t end = INT64_C(1) << (8 * sizes[i] - 1);
        size_t next = i < 4 ? (size_t)sizes[i + 1] : 8;
        check_int(end - 1, i + 1, (size_t)sizes[i]);
        check_int(-end, i + 1, (size_t)sizes[i]);
        check_int(end, i + 2, next);
        check_int(-end - 1, i + 2, next);
    }
    check_int(INT64_MAX, 6, 8);
    check_int(INT64_MIN, 6, 8);
}

static void whole_reals_are_stored_as_integers(void **state)
{
    (void)state;
    static const struct {
        double value;
        unsigned type;
    } rows[] = {
        {0.0, 8},
        {-0.0, 7},
        {1.0, 9},
        {-1.0, 1},
        {0.5, 7},
        {140737488355327.0, 5},
        {140737488355328.0, 7},
        {-140737488355327.0, 5},
        {-140737488355328.0, 7},
        {INFINITY, 7},
        {-INFINITY, 7},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        assert_int_equal(type_of((struct cell){.type = CELL_REAL, .real = rows[i].value}),
                         rows[i].type);
    assert_int_equal(type_of((struct cell){.type = CELL_REAL, .real = NAN}), 0);
    struct cell cell = {.type = CELL_REAL, .real = -2.0};
    struct record record;
    uint8_t bytes[3];
    record_measure(&record, &cell, 1);
    assert_int_equal(record.size, sizeof(bytes));
    record_write(&record, bytes);
    assert_int_equal(bytes[2], 0xfe);
}

static void texts_have_types_by_their_length(void **state)
{
    (void)state;
    static const char text[20000];
    static const size_t sizes[] = {0, 1, 57, 58, 8185, 8186, 20000};
    for (size_t i = 0; i < ELEMENTS(sizes); i++)
        for (unsigned blob = 0; blob < 2; blob++) {
            struct cell cell = {.type = blob ? CELL_BLOB : CELL_TEXT,
                                .bytes = sizes[i] ? text : NULL,
                                .size = (uint32_t)sizes[i]};
            struct record record;
            record_measure(&record, &cell, 1);
            uint64_t type = 13 - blob + 2 * sizes[i];
            assert_int_equal(record.types[0], type);
            assert_int_equal(record.n_head, type < 0x80 ? 2 : type < 0x4000 ? 3 : 4);
            assert_int_equal(record.size, record.n_head + sizes[i]);
            uint8_t *bytes = malloc(record.size); // a sanitizer notices a write beyond the record
            record_write(&record, bytes);
            assert_int_equal(bytes[0], record.n_head);
            free(bytes);
        }
}

static void nulls_at_the_end_are_left_out(void **state)
{
    (void)state;
    struct cell cells[3] = {{.type = CELL_INT, .integer = 5}};
    struct record record;
    record_measure(&record, cells, 3);
    assert_int_equal(record.n_cells, 1);
    record_measure(&record, cells + 1, 2);
    assert_int_equal(record.n_cells, 1);
    assert_int_equal(record.types[0], 0);
    cells[2] = cells[0];
    record_measure(&record, cells, 3);
    assert_int_equal(record.n_cells, 3);
    assert_int_equal(record.types[1], 0);
}

// The head begins with its own size, which takes a second byte from 127 columns on.
static void heads_of_many_columns_are_longer(void **state)
{
    (void)state;
    static struct cell cells[RECORD_CELLS_MAX];
    for (size_t i = 0; i < RECORD_CELLS_MAX; i++)
        cells[i] = (struct cell){.type = CELL_INT, .integer = 2};
    for (size_t n = 125; n <= RECORD_CELLS_MAX; n++) {
        struct record record;
        uint8_t bytes[2 * RECORD_CELLS_MAX + 8] = {0};
        record_measure(&record, cells, n);
        assert_int_equal(record.n_head, n < 127 ? n + 1 : n + 2);
        assert_int_equal(record.size, record.n_head + n);
        record_write(&record, bytes);
        assert_int_equal(n < 127 ? bytes[0] : (bytes[0] & 0x7f) << 7 | bytes[1], record.n_head);
        assert_int_equal(bytes[record.size - 1], 2);
        assert_int_equal(bytes[record.size], 0);
    }
}

// The first failure stays. A partial write goes on where it stopped.
static void a_failure_of_pages_stays(void **state)
{
    (void)state;
    static const uint8_t page[PAGE_BYTES];
    struct pages pages;
    assert_int_equal(pages_init(&pages, -1, 1), 0);
    for (uint32_t i = 1; i <= 64; i++) {
        assert_int_equal(pages.failure, 0);
        assert_int_equal(pages_add(&pages, page), i);
    }
    assert_int_equal(pages.failure, -EBADF);
    assert_int_equal(pages_add(&pages, page), 0);
    assert_int_equal(pages_finish(&pages, 0), -EBADF);
    assert_int_equal(pages_finish_grown(&pages), -EBADF);
    pages_done(&pages);

    enum { LIMIT = 64 * PAGE_BYTES - 100 };
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(pages_init(&pages, fileno(file), 1), 0);
    set_file_limit(LIMIT);
    for (uint32_t i = 1; i <= 64; i++)
        pages_add(&pages, page);
    no_file_limit(NULL);
    assert_int_equal(pages.failure, -EFBIG);
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), LIMIT);
    assert_int_equal(pages_finish(&pages, 0), -EFBIG);
    assert_int_equal(lseek(fileno(file), 0, SEEK_END), LIMIT);
    pages_done(&pages);
    fclose(file);
}

static void pages_are_counted_against_the_budget(void **state)
{
    (void)state;
    static const uint8_t page[PAGE_BYTES];
    struct budget budget = {.memory_max = UINT64_MAX,
                            .output_max = 4 * PAGE_BYTES, // a sixteenth is kept back
                            .statm = -1};
    struct pages pages;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(pages_init(&pages, fileno(file), 2), 0);
    pages.budget = &budget;
    for (uint32_t i = 2; i < 5; i++)
        assert_int_equal(pages_add(&pages, page), i);
    assert_int_equal(pages.failure, 0);
    pages_add(&pages, page);
    assert_int_equal(pages.failure, -EDQUOT);
    assert_int_equal(pages_add(&pages, page), 0);
    assert_int_equal(pages_finish(&pages, 0), -EDQUOT);
    pages_done(&pages);
    fclose(file);
}

// A file that grows has a header already, which counts changes and pages.
static void a_grown_file_needs_its_header(void **state)
{
    (void)state;
    static const uint8_t page[PAGE_BYTES];
    struct pages pages;
    uint8_t head[100];
    FILE *file = tmpfile();
    assert_non_null(file);
    for (int size = 0; size < 100; size += 99) {
        assert_int_equal(ftruncate(fileno(file), size), 0);
        assert_int_equal(pages_init(&pages, fileno(file), 2), 0);
        assert_int_equal(pages_finish_grown(&pages), -EIO);
        pages_done(&pages);
    }
    assert_int_equal(ftruncate(fileno(file), PAGE_BYTES), 0);
    for (uint32_t round = 1; round <= 2; round++) {
        assert_int_equal(pages_init(&pages, fileno(file), 1 + round), 0);
        assert_int_equal(pages_add(&pages, page), 1 + round);
        assert_int_equal(pages_finish_grown(&pages), 0);
        pages_done(&pages);
        assert_int_equal(pread(fileno(file), head, sizeof(head), 0), sizeof(head));
        assert_int_equal(get_u32(head + 24), round);     // changes
        assert_int_equal(get_u32(head + 28), 1 + round); // pages
        assert_int_equal(get_u32(head + 92), round);
    }
    fclose(file);
}

static uint8_t content[3 * PAGE_BYTES];

// Writes a tree of rows of `size` bytes each. Returns the number of its pages.
static uint32_t count_pages(size_t n_rows, int64_t first_id, size_t size)
{
    struct btree tree = {0};
    struct pages pages;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(pages_init(&pages, fileno(file), 2), 0);
    struct record record = {.ready = content, .size = size};
    for (size_t i = 0; i < n_rows; i++)
        assert_int_equal(btree_add(&tree, &pages, first_id + (int64_t)i, &record), 0);
    uint32_t root = btree_finish(&tree, &pages);
    assert_int_equal(root, pages.next - 1); // the last page
    assert_int_equal(pages_finish(&pages, 0), 0);
    uint32_t n = pages.next - 2;
    pages_done(&pages);
    btree_done(&tree);
    fclose(file);
    return n;
}

static uint32_t count_number_pages(size_t n_rows, int64_t first_id)
{
    int64_t *numbers = calloc(n_rows, sizeof(*numbers));
    struct btree tree = {0};
    struct pages pages;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(pages_init(&pages, fileno(file), 2), 0);
    assert_int_equal(btree_add_numbers(&tree, &pages, first_id, numbers, n_rows), 0);
    assert_true(btree_finish(&tree, &pages) > 0);
    assert_int_equal(pages_finish(&pages, 0), 0);
    uint32_t n = pages.next - 2;
    pages_done(&pages);
    btree_done(&tree);
    fclose(file);
    free(numbers);
    return n;
}

// Cells of 1020 bytes and their pointers: four fill a leaf to its last byte.
static void leaves_are_filled_to_the_last_byte(void **state)
{
    (void)state;
    assert_int_equal(count_pages(0, 1, 1017), 1);
    assert_int_equal(count_pages(4, 1, 1017), 1);
    assert_int_equal(count_pages(4, 1, 1018), 3); // two leaves and the page above
    assert_int_equal(count_pages(5, 1, 1017), 3);
    assert_int_equal(count_number_pages(511, 200), 1); // 8 bytes each, with the pointer
    assert_int_equal(count_number_pages(512, 200), 3);
}

static void large_records_have_a_chain(void **state)
{
    (void)state;
    assert_int_equal(count_pages(1, 1, LOCAL_MAX), 1);
    assert_int_equal(count_pages(1, 1, LOCAL_MAX + 1), 2);
    assert_int_equal(count_pages(1, 1, LOCAL_MAX + CHAIN_BYTES), 2);
    assert_int_equal(count_pages(1, 1, LOCAL_MAX + CHAIN_BYTES + 1), 3);
}

static void entries_have_a_largest_size(void **state)
{
    (void)state;
    struct btree tree = {.is_index = true};
    struct pages pages;
    enum { RECORD_MAX = BTREE_ENTRY_MAX - 2 };
    const uint8_t entry[BTREE_ENTRY_MAX + 1] = {0x80 | RECORD_MAX >> 7, RECORD_MAX & 0x7f};
    assert_int_equal(pages_init(&pages, -1, 2), 0);
    assert_int_equal(btree_add_entry(&tree, &pages, entry, BTREE_ENTRY_MAX + 1), -EINVAL);
    assert_int_equal(btree_add_entry(&tree, &pages, entry, BTREE_ENTRY_MAX), 0);
    assert_int_equal(btree_add_entry(&tree, &pages, entry, BTREE_ENTRY_MAX), 0);
    assert_true(btree_finish(&tree, &pages) > 0);
    btree_done(&tree);
    pages_done(&pages);
}

static void a_tree_that_cannot_be_written_has_no_root(void **state)
{
    (void)state;
    struct btree tree = {0};
    struct pages pages;
    struct record record = {.ready = content, .size = 10};
    assert_int_equal(pages_init(&pages, -1, 2), 0);
    assert_int_equal(btree_add(&tree, &pages, 1, &record), 0);
    assert_int_equal(btree_finish_at(&tree, &pages, 7), -EBADF);
    btree_done(&tree);
    assert_int_equal(btree_add(&tree, &pages, 1, &record), 0);
    assert_int_equal(btree_finish(&tree, &pages), 0);
    btree_done(&tree);
    pages_done(&pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_take_the_least_bytes),
        cmocka_unit_test(whole_reals_are_stored_as_integers),
        cmocka_unit_test(texts_have_types_by_their_length),
        cmocka_unit_test(nulls_at_the_end_are_left_out),
        cmocka_unit_test(heads_of_many_columns_are_longer),
        cmocka_unit_test_teardown(a_failure_of_pages_stays, no_file_limit),
        cmocka_unit_test(pages_are_counted_against_the_budget),
        cmocka_unit_test(a_grown_file_needs_its_header),
        cmocka_unit_test(leaves_are_filled_to_the_last_byte),
        cmocka_unit_test(large_records_have_a_chain),
        cmocka_unit_test(entries_have_a_largest_size),
        cmocka_unit_test(a_tree_that_cannot_be_written_has_no_root),
    };
    return cmocka_run_group_tests_name("trees", tests, NULL, NULL);
}
