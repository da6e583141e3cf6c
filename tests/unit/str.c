// SPDX-License-Identifier: Apache-2.0
#include "common/str.h"
#include "common/elements.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

static void strbuf_grows_and_stays_terminated(void **state)
{
    (void)state;
    struct strbuf buf = {0};
    strbuf_clear(&buf);
    for (int i = 0; i < 100; i++)
        strbuf_addf(&buf, "%d,", i);
    strbuf_add_str(&buf, "x");
    strbuf_add_char(&buf, 'y');
    strbuf_add(&buf, NULL, 0);
    assert_int_equal(buf.size, 10 * 2 + 90 * 3 + 2);
    assert_int_equal(strlen(buf.text), buf.size);
    assert_string_equal(buf.text + buf.size - 5, "99,xy");
    strbuf_clear(&buf);
    assert_string_equal(buf.text, "");
    strbuf_done(&buf);
}

static void strbuf_steal_gives_a_string_always(void **state)
{
    (void)state;
    struct strbuf buf = {0};
    char *text = strbuf_steal(&buf);
    assert_string_equal(text, "");
    free(text);
    strbuf_add_str(&buf, "a");
    text = strbuf_steal(&buf);
    assert_string_equal(text, "a");
    assert_null(buf.text);
    free(text);
}

static void a_failed_strbuf_stays_failed(void **state)
{
    (void)state;
    struct strbuf buf = {0};
    strbuf_add_str(&buf, "a");
    strbuf_add(&buf, "", SIZE_MAX / 2);
    assert_true(buf.failed);
    strbuf_add_str(&buf, "b");
    assert_int_equal(buf.size, 1);
    assert_null(strbuf_steal(&buf));
    assert_null(buf.text);
}

static void whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
        uint64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"007", 0, 7},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"99999999999999999999999", -ERANGE, 0},
        {"0xfF", 0, 255},
        {"0XffffffffffffffFF", 0, UINT64_MAX},
        {"0x10000000000000000", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"0x", -EINVAL, 0},
        {"0x0x5", -EINVAL, 0},
        {"0xg", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"10x", -EINVAL, 0},
        {"99999999999999999999999x", -EINVAL, 0},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        uint64_t value = 0;
        assert_int_equal(str_parse_u64(cases[i].text, &value), cases[i].r);
        assert_int_equal(value, cases[i].value);
    }
    uint32_t narrow = 1;
    assert_int_equal(str_parse_u32("4294967295", &narrow), 0);
    assert_int_equal(narrow, UINT32_MAX);
    assert_int_equal(str_parse_u32("4294967296", &narrow), -ERANGE);
}

static void signed_numbers(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_int_equal(str_parse_i64("-9223372036854775808", &value), 0);
    assert_int_equal(value, INT64_MIN);
    assert_int_equal(str_parse_i64("9223372036854775807", &value), 0);
    assert_int_equal(value, INT64_MAX);
    assert_int_equal(str_parse_i64("-0x10", &value), 0);
    assert_int_equal(value, -16);
    assert_int_equal(str_parse_i64("9223372036854775808", &value), -ERANGE);
    assert_int_equal(str_parse_i64("-9223372036854775809", &value), -ERANGE);
    assert_int_equal(str_parse_i64("--1", &value), -EINVAL);
    assert_int_equal(str_parse_i64("-", &value), -EINVAL);
    assert_int_equal(value, -16);
}

static void scanning_stops_after_the_digits(void **state)
{
    (void)state;
    const char text[] = " \t12 345x";
    const char *p = text, *end = text + strlen(text);
    uint64_t value;
    assert_true(str_scan_u64(&p, end, &value));
    assert_int_equal(value, 12);
    assert_true(str_scan_u64(&p, text + 7, &value)); // the end cuts 345 off after 34
    assert_int_equal(value, 34);
    assert_true(str_scan_u64(&p, end, &value));
    assert_int_equal(value, 5);
    assert_false(str_scan_u64(&p, end, &value));
    assert_ptr_equal(p, end - 1);
    const char huge[] = "18446744073709551616";
    p = huge;
    assert_false(str_scan_u64(&p, huge + strlen(huge), &value));
    assert_ptr_equal(p, huge);
}

static void scanning_knows_hexadecimal(void **state)
{
    (void)state;
    const char text[] = "00ff-0ffffffffffffffffG";
    const char *p = text, *end = text + strlen(text);
    uint64_t value = 0;
    assert_true(str_scan_hex(&p, end, &value));
    assert_int_equal(value, 255);
    assert_false(str_scan_hex(&p, end, &value));
    assert_ptr_equal(p, text + 4);
    p++;
    assert_true(str_scan_hex(&p, end, &value));
    assert_true(value == UINT64_MAX);
    assert_ptr_equal(p, end - 1);
    assert_false(str_scan_hex(&p, end, &value)); // no capitals
    const char huge[] = "10000000000000000";
    p = huge;
    assert_false(str_scan_hex(&p, huge + strlen(huge), &value));
    assert_ptr_equal(p, huge);
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
        nsec_t value;
    } cases[] = {
        {"10", 0, 10 * NSEC_PER_SEC},
        {"10s", 0, 10 * NSEC_PER_SEC},
        {"500MS", 0, 500 * NSEC_PER_MSEC},
        {"2m", 0, 120 * NSEC_PER_SEC},
        {"1h", 0, 3600 * NSEC_PER_SEC},
        {"0", 0, 0},
        {"106752d", -ERANGE, 0},
        {"9223372036854775808ns", -ERANGE, 0},
        {"99999999999999999999s", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"-1s", -EINVAL, 0},
        {"1.5s", 0, 1500 * NSEC_PER_MSEC},
        {"0.001s", 0, NSEC_PER_MSEC},
        {"0.1h", 0, 360 * NSEC_PER_SEC},
        {"1.9ns", 0, 1},
        {"0.00000000000000000000000001s", 0, 0},
        {"1.s", -EINVAL, 0},
        {".5s", -EINVAL, 0},
        {"1.5.5s", -EINVAL, 0},
        {"106751.999d", -ERANGE, 0},
        {"1 s", -EINVAL, 0},
        {"1sec", -EINVAL, 0},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        nsec_t value = 0;
        assert_int_equal(str_parse_duration(cases[i].text, &value), cases[i].r);
        assert_int_equal(value, cases[i].value);
    }
}

static void lines_are_made_printable(void **state)
{
    (void)state;
    static const char *const lines[][3] = {
        {"plain \xc3\xa4\t", "plain \xc3\xa4\t", "plain \xc3\xa4\t"},
        {"a\nb\x1b[31m", "a?b?[31m", "a\nb?[31m"},
        {"\xc2\x85 \xff\xe2\x82", "? ???", "? ???"},
        {"", "", ""},
    };
    for (size_t i = 0; i < ELEMENTS(lines); i++) {
        for (int keep = 0; keep < 2; keep++) {
            char text[32];
            strcpy(text, lines[i][0]);
            str_make_printable(text, keep);
            assert_string_equal(text, lines[i][1 + keep]);
        }
    }
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
        uint64_t value;
    } cases[] = {
        {"4096", 0, 4096},
        {"32mb", 0, 32 << 20},
        {"512K", 0, 512 << 10},
        {"1GiB", 0, 1 << 30},
        {"17179869183g", 0, UINT64_C(17179869183) << 30},
        {"17179869184g", -ERANGE, 0},
        {"1t", -EINVAL, 0},
        {"mb", -EINVAL, 0},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        uint64_t value;
        assert_int_equal(str_parse_size(cases[i].text, &value), cases[i].r);
        if (cases[i].r == 0)
            assert_int_equal(value, cases[i].value);
    }
}

static void prefixes_and_suffixes(void **state)
{
    (void)state;
    assert_true(str_starts_with("abc", ""));
    assert_true(str_starts_with("abc", "ab"));
    assert_false(str_starts_with("a", "ab"));
    assert_true(str_ends_with("abc", "bc"));
    assert_true(str_ends_with("abc", ""));
    assert_false(str_ends_with("c", "bc"));
}

static void utf8_is_decoded_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size, want;
        uint32_t code_point;
    } cases[] = {
        {"a", 1, 1, 'a'},
        {"\0", 1, 1, 0},
        {"\xc3\xa9", 2, 2, 0xe9},
        {"\xe2\x82\xac", 3, 3, 0x20ac},
        {"\xf0\x9f\x98\x80", 4, 4, 0x1f600},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
        {"", 0, 0, 0},
        {"\x80", 1, 0, 0},             // no first byte
        {"\xc3", 1, 0, 0},             // cut off
        {"\xc3(", 2, 0, 0},            // no second byte
        {"\xc0\x80", 2, 0, 0},         // longer than needed
        {"\xe0\x80\xaf", 3, 0, 0},     // longer than needed
        {"\xed\xa0\x80", 3, 0, 0},     // a surrogate
        {"\xf4\x90\x80\x80", 4, 0, 0}, // above 10ffff
        {"\xf8\x88\x80\x80", 4, 0, 0},
        {"\xff", 1, 0, 0},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        uint32_t c = 0;
        const char *text = cases[i].text;
        assert_int_equal(str_utf8_decode(text, text + cases[i].size, &c), cases[i].want);
        assert_int_equal(c, cases[i].code_point);
        if (cases[i].want) {
            struct strbuf buf = {0};
            strbuf_add_utf8(&buf, c);
            assert_int_equal(buf.size, cases[i].size);
            assert_memory_equal(buf.text, text, buf.size);
            strbuf_done(&buf);
        }
    }
}

static void printable_text_is_safe_and_cut(void **state)
{
    (void)state;
    char text[12];
    assert_string_equal(str_printable(text, 12, "abc", 3), "abc");
    assert_string_equal(str_printable(text, 12, "a\n\x1b[\x7f\xff\xc2\x85z", 9), "a??[???z");
    assert_string_equal(str_printable(text, 12, "0123456789a", 11), "0123456789a");
    assert_string_equal(str_printable(text, 12, "0123456789ab", 12), "01234567...");
    // A character is never cut in two.
    assert_string_equal(str_printable(text, 12, "0123456\xe2\x82\xac\xe2\x82\xac", 13),
                        "0123456...");
    assert_string_equal(str_printable(text, 12, "", 0), "");
}

static void nearest_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {"linux.ftrace", "linux.sys_stats", "linux.process_stats"};
    assert_string_equal(str_nearest("linux.ftrcae", names, 3), "linux.ftrace");
    assert_string_equal(str_nearest("linux.sysstat", names, 3), "linux.sys_stats");
    assert_null(str_nearest("android.log", names, 3));
    assert_null(str_nearest("", names, 3));
    assert_null(str_nearest("linux.ftrace", names, 0));
    char longer[200];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_null(str_nearest(longer, names, 3));
}

static void cuts_keep_whole_characters(void **state)
{
    (void)state;
    assert_int_equal(str_cut("abc", 3, 5), 3);
    assert_int_equal(str_cut("abc", 3, 3), 3);
    assert_int_equal(str_cut("abc", 3, 2), 2);
    assert_int_equal(str_cut("a\xe2\x82\xac", 4, 3), 1); // the euro sign has three bytes
    assert_int_equal(str_cut("a\xe2\x82\xac", 4, 4), 4);
    assert_int_equal(str_cut("\x82\x82\x82", 3, 2), 0);
    assert_int_equal(str_cut(NULL, 3, 2), 0);
}

static void lower_case_is_of_ascii_alone(void **state)
{
    (void)state;
    char *lower = str_lower("AZ_az[`{\xc3\x84");
    assert_string_equal(lower, "az_az[`{\xc3\x84");
    free(lower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lower_case_is_of_ascii_alone),
        cmocka_unit_test(strbuf_grows_and_stays_terminated),
        cmocka_unit_test(strbuf_steal_gives_a_string_always),
        cmocka_unit_test(a_failed_strbuf_stays_failed),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(scanning_stops_after_the_digits),
        cmocka_unit_test(scanning_knows_hexadecimal),
        cmocka_unit_test(durations),
        cmocka_unit_test(lines_are_made_printable),
        cmocka_unit_test(sizes),
        cmocka_unit_test(prefixes_and_suffixes),
        cmocka_unit_test(utf8_is_decoded_strictly),
        cmocka_unit_test(printable_text_is_safe_and_cut),
        cmocka_unit_test(nearest_is_near),
        cmocka_unit_test(cuts_keep_whole_characters),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
