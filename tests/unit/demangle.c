// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/mangled.h"
#include "common/str.h"
#include "tests/unit/unit.h"

static void reads(const char *name, const char *expected)
{
    char *readable = mangled_read(name);
    if (expected) {
        assert_non_null(readable);
        assert_string_equal(readable, expected);
    } else {
        assert_null(readable);
    }
    free(readable);
}

static void skip_without_libiberty(void)
{
    char *readable = mangled_read("_Z1fv");
    if (!readable)
        skip_because("built without libiberty");
    free(readable);
}

static void names_of_cxx_are_readable(void **state)
{
    (void)state;
    skip_without_libiberty();
    reads("_ZN3app5Cache4growEi", "app::Cache::grow(int)");
    reads("_ZNSt6vectorIiSaIiEE9push_backERKi",
          "std::vector<int, std::allocator<int> >::push_back(int const&)");
    reads("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"); // Rust
}

static void names_of_rust_are_readable(void **state)
{
    (void)state;
    skip_without_libiberty();
    reads("_RNvC6_123foo3bar", "123foo::bar");
    reads("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>");
    reads("_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop"
          "17h0123456789abcdefE",
          "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop");
}

static void other_names_are_not(void **state)
{
    (void)state;
    static const char *const names[] = {"",      "_",   "main", "_Z",    "_R",
                                        "_Zfoo", "_ZN", "Z1fv", "_start"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        reads(names[i], NULL);
}

// Each type is a pair of the type before, so the readable name doubles with each type.
static void readable_names_are_bounded(void **state)
{
    (void)state;
    skip_without_libiberty();
    for (int n = 1; n < 36; n++) {
        struct strbuf name = {0};
        strbuf_add_str(&name, "_Z1f1AIiiE");
        for (int i = 0; i < n; i++) {
            char digit = (char)(i < 10 ? '0' + i : 'A' + i - 10);
            strbuf_addf(&name, "S_IS%c_S%c_E", digit, digit);
        }
        char *readable = mangled_read(name.text);
        assert_int_equal(readable != NULL, n <= 10);
        free(readable);
        strbuf_done(&name);
    }
}

// A name of Rust whose parts are not ASCII, and together exceed the limit. LeakSanitizer
// finds memory that the demangler leaves behind.
static void nothing_is_left_behind(void **state)
{
    (void)state;
    enum { N = 4000 };
    static char letters[N + 1];
    struct strbuf name = {0};
    skip_without_libiberty();
    memset(letters, 'a', N);
    strbuf_addf(&name, "_RIC1cNtC1cu%d%s_5qa", N + 4, letters);
    for (int i = 0; i < 40; i++)
        strbuf_add_str(&name, "B3_");
    strbuf_add_str(&name, "E");
    reads(name.text, NULL);
    strbuf_done(&name);
}

// A pack of nested types of functions, each of which has the type before twice.
static void time_is_bounded(void **state)
{
    (void)state;
    skip_without_libiberty();
    for (int n = 1; n < 30; n++) {
        struct strbuf name = {0};
        strbuf_add_str(&name, "_Z1fDp");
        for (int i = 0; i < n; i++)
            strbuf_add_char(&name, 'F');
        strbuf_add_str(&name, "PiS_E");
        for (int i = 1; i < n; i++)
            strbuf_addf(&name, "S%c_E", i <= 10 ? '0' + i - 1 : 'A' + i - 11);
        char *readable = mangled_read(name.text);
        assert_true(n <= 18 || !readable);
        free(readable);
        strbuf_done(&name);
    }
    reads("_Z1fIJidEEvDpT_", "void f<int, double>(int, double)");
}

// Adds a reference to the part of a Rust name that begins `place` bytes after "_R".
static void back_reference(struct strbuf *name, size_t place)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    place--;
    strbuf_add_char(name, 'B');
    if (place >= 62)
        strbuf_add_char(name, digits[place / 62]);
    strbuf_add_char(name, digits[place % 62]);
    strbuf_add_char(name, '_');
}

// Each type is a tuple that has the tuple before twice.
static void readable_names_of_rust_are_bounded(void **state)
{
    (void)state;
    skip_without_libiberty();
    for (int n = 1; n < 60; n++) {
        struct strbuf name = {0};
        size_t last = 0;
        strbuf_add_str(&name, "_RINvC1a1b");
        for (int i = 0; i < n; i++) {
            size_t place = name.size - strlen("_R");
            strbuf_add_char(&name, 'T');
            for (int k = 0; k < 2; k++)
                if (i == 0)
                    strbuf_add_char(&name, 'l');
                else
                    back_reference(&name, last);
            strbuf_add_char(&name, 'E');
            last = place;
        }
        strbuf_add_str(&name, "E");
        char *readable = mangled_read(name.text);
        if (n < 3)
            assert_string_equal(readable, n == 1 ? "a::b::<(i32, i32)>"
                                                 : "a::b::<(i32, i32), ((i32, i32), (i32, i32))>");
        assert_true(n > 8 || readable);
        assert_true(n < 20 || !readable);
        free(readable);
        strbuf_done(&name);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_cxx_are_readable),
        cmocka_unit_test(names_of_rust_are_readable),
        cmocka_unit_test(other_names_are_not),
        cmocka_unit_test(readable_names_are_bounded),
        cmocka_unit_test(readable_names_of_rust_are_bounded),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(time_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
