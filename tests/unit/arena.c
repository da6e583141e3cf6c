// SPDX-License-Identifier: Apache-2.0
#include "common/arena.h"

#include <stdalign.h>
#include <string.h>

#include "tests/unit/unit.h"

// The sizes are those around the limits of a block. Each piece is zeroed and aligned. The test
// fills each piece with another byte, so that an overlap shows.
static void pieces_do_not_overlap(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,     1,     15,    16,    17,    4096,
                                   16384, 16385, 65535, 65536, 65537, 200000};
    enum { N = 300 };
    struct arena arena = {0};
    unsigned char *pieces[N];
    size_t total = 0;
    for (size_t i = 0; i < N; i++) {
        size_t size = sizes[i % 12];
        pieces[i] = arena_alloc(&arena, size);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(pieces[i][k], 0);
        memset(pieces[i], (int)(i % 255 + 1), size);
        total += size;
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i % 12]; k++)
            assert_int_equal(pieces[i][k], i % 255 + 1);
    assert_in_range(arena.n_bytes, total, total + N * alignof(max_align_t));
    arena_done(&arena);
    assert_null(arena.blocks);
    assert_int_equal(arena.n_bytes, 0);
    arena_done(&arena);
}

static void copies_are_terminated(void **state)
{
    (void)state;
    struct arena arena = {0};
    assert_string_equal(arena_strndup(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(&arena, "", 0), "");
    assert_memory_equal(arena_strndup(&arena, "a\0b", 3), "a\0b", 4);
    arena_done(&arena);
}

static void absurd_sizes_fail(void **state)
{
    (void)state;
    struct arena arena = {0};
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX / 2 + 1));
    assert_null(arena_strndup(&arena, "", SIZE_MAX));
    assert_int_equal(arena.n_bytes, 0);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_overlap),
        cmocka_unit_test(copies_are_terminated),
        cmocka_unit_test(absurd_sizes_fail),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
