// SPDX-License-Identifier: Apache-2.0
#include "common/pbtext.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/pbtext_test.pb-c.h"
#include "tests/unit/unit.h"

static int parse_n(const char *text, size_t size, Pbtest__Everything **ret, struct err *err)
{
    return pbtext_parse(&pbtest__everything__descriptor, "t", text, size, (ProtobufCMessage **)ret,
                        err);
}

static Pbtest__Everything *parse(const char *text)
{
    Pbtest__Everything *message = NULL;
    struct err err = {0};
    if (parse_n(text, strlen(text), &message, &err) < 0)
        fail_msg("%s", err.text);
    return message;
}

static void release(Pbtest__Everything *message)
{
    pbtest__everything__free_unpacked(message, NULL);
}

// Parses `text`. Asserts that the message prints as `want`, and that `want` parses into the same
// bytes.
static void check_prints(const char *text, size_t size, const char *want)
{
    Pbtest__Everything *message = NULL;
    struct err err = {0};
    if (parse_n(text, size, &message, &err) < 0)
        fail_msg("%s", err.text);
    struct strbuf printed = {0};
    pbtext_print(&message->base, &printed);
    strbuf_add(&printed, "", 0);
    assert_string_equal(printed.text, want);

    Pbtest__Everything *again = parse(printed.text);
    uint8_t bytes[2][4096];
    assert_true(pbtest__everything__get_packed_size(message) <= sizeof(bytes[0]));
    size_t n = pbtest__everything__pack(message, bytes[0]);
    assert_int_equal(pbtest__everything__pack(again, bytes[1]), n);
    assert_memory_equal(bytes[0], bytes[1], n);
    strbuf_done(&printed);
    release(message);
    release(again);
}

#define PRINTS(text, want) check_prints(text, sizeof(text) - 1, want)

static void check_fails(const char *text, size_t size, const char *want)
{
    Pbtest__Everything *untouched = (Pbtest__Everything *)&untouched, *message = untouched;
    struct err err = {0};
    assert_int_equal(parse_n(text, size, &message, &err), -EINVAL);
    assert_ptr_equal(message, untouched);
    assert_string_equal(err.text, want);
    assert_int_equal(parse_n(text, size, &message, NULL), -EINVAL);
}

#define FAILS(text, want) check_fails(text, sizeof(text) - 1, want)

static void empty_text_is_an_empty_message(void **state)
{
    (void)state;
    PRINTS("", "");
    PRINTS(" \t\r\n\v\f# only a comment", "");
    PRINTS("\xef\xbb\xbf# after a byte order mark\ni32: 1", "i32: 1\n");
    Pbtest__Everything *message = NULL;
    assert_int_equal(parse_n(NULL, 0, &message, NULL), 0);
    release(message);
}

static void separators_and_blanks(void **state)
{
    (void)state;
    static const char want[] = "i32: 1\nu32: 2\ninner {\n  flag: true\n}\n";
    PRINTS("i32: 1 u32: 2 inner { flag: true }", want);
    PRINTS("i32:1,u32:2,inner{flag:true,},", want);
    PRINTS("i32:1;u32:2;inner:{flag:true;};", want);
    PRINTS("i32 : 1\n\nu32\n:\n2#c\ninner#c{\n< flag: true >", want);
    PRINTS("inner: < flag: true > i32: 1 u32: 2", want);
    FAILS("i32: 1,,", "t:1:8: expected the name of a field, found \",\"\n"
                      "    i32: 1,,\n"
                      "           ^");
    FAILS(", i32: 1", "t:1:1: expected the name of a field, found \",\"\n"
                      "    , i32: 1\n"
                      "    ^");
}

static void whole_numbers_in_every_notation(void **state)
{
    (void)state;
    PRINTS("i32: 017 u32: 0x1F u64: 0XffffFFFFffffFFFF s32: -0x10 s64: - 5",
           "i32: 15\nu32: 31\n"
           "u64: 18446744073709551615\ns32: -16\ns64: -5\n");
    PRINTS("i32: -2147483648 i64: -9223372036854775808 sf32: 2147483647 sf64: 9223372036854775807",
           "i32: -2147483648\ni64: -9223372036854775808\nsf32: 2147483647\n"
           "sf64: 9223372036854775807\n");
    PRINTS("f32: 4294967295 f64: 0 i32: -0", "i32: 0\nf32: 4294967295\nf64: 0\n");
}

static void whole_numbers_out_of_range(void **state)
{
    (void)state;
    FAILS("i32: 2147483648",
          "t:1:6: 2147483648 is out of range: \"i32\" takes -2147483648 to 2147483647\n"
          "    i32: 2147483648\n"
          "         ^");
    FAILS("i32: -2147483649",
          "t:1:6: -2147483649 is out of range: \"i32\" takes -2147483648 to 2147483647\n"
          "    i32: -2147483649\n"
          "         ^");
    FAILS("u32: -1", "t:1:6: -1 is out of range: \"u32\" takes 0 to 4294967295\n"
                     "    u32: -1\n"
                     "         ^");
    FAILS("u64: -0", "t:1:6: -0 is out of range: \"u64\" takes 0 to 18446744073709551615\n"
                     "    u64: -0\n"
                     "         ^");
    FAILS("u64: 18446744073709551616",
          "t:1:6: 18446744073709551616 is out of range: \"u64\" takes 0 to 18446744073709551615\n"
          "    u64: 18446744073709551616\n"
          "         ^");
    FAILS("i64: 9223372036854775808",
          "t:1:6: 9223372036854775808 is out of range: \"i64\" takes -9223372036854775808 to "
          "9223372036854775807\n"
          "    i64: 9223372036854775808\n"
          "         ^");
}

static void values_that_are_not_whole_numbers(void **state)
{
    (void)state;
    FAILS("u32: 1.5", "t:1:6: \"u32\" takes a whole number, found \"1.5\"\n"
                      "    u32: 1.5\n"
                      "         ^");
    FAILS("u32: 08", "t:1:6: \"u32\" takes a whole number, found \"08\"\n"
                     "    u32: 08\n"
                     "         ^");
    FAILS("u32: 0x", "t:1:6: \"u32\" takes a whole number, found \"0x\"\n"
                     "    u32: 0x\n"
                     "         ^");
    FAILS("u32: 10kb", "t:1:6: \"u32\" takes a whole number, found \"10kb\"\n"
                       "    u32: 10kb\n"
                       "         ^");
    FAILS("u32: \"1\"", "t:1:6: \"u32\" takes a whole number, found \"1\"\n"
                        "    u32: \"1\"\n"
                        "         ^");
    FAILS("u32: ", "t:1:6: \"u32\" takes a whole number, found the end of the text\n"
                   "    u32: \n"
                   "         ^");
    FAILS("u32: --1", "t:1:7: \"u32\" takes a whole number, found \"-\"\n"
                      "    u32: --1\n"
                      "          ^");
}

static void real_numbers(void **state)
{
    (void)state;
    PRINTS("real: 1.5f precise: -.5", "real: 1.5\nprecise: -0.5\n");
    PRINTS("real: 1F precise: 1e+3", "real: 1\nprecise: 1000\n");
    PRINTS("real: inf precise: -Infinity", "real: inf\nprecise: -inf\n");
    PRINTS("real: 1e39 precise: 1e999", "real: inf\nprecise: inf\n");
    PRINTS("real: 3.4028235e38 precise: 1.", "real: 3.4028235e+38\nprecise: 1\n");
    PRINTS("real: 0.1 precise: 0.1", "real: 0.1\nprecise: 0.1\n");
    PRINTS("precises: [0.30000000000000004, 1e-320, -0, 5, 18446744073709551616]",
           "precises: 0.30000000000000004\nprecises: 9.99988867182683e-321\nprecises: -0\n"
           "precises: 5\nprecises: 1.8446744073709552e+19\n");
    Pbtest__Everything *message = parse("precise: NaN real: -nan");
    assert_true(message->precise != message->precise && message->real != message->real);
    release(message);
    FAILS("precise: 0x10", "t:1:10: \"precise\" takes a decimal number, found \"0x10\"\n"
                           "    precise: 0x10\n"
                           "             ^");
    FAILS("precise: 010", "t:1:10: \"precise\" takes a decimal number, found \"010\"\n"
                          "    precise: 010\n"
                          "             ^");
    FAILS("real: 1.2.3", "t:1:7: \"real\" takes a decimal number, found \"1.2.3\"\n"
                         "    real: 1.2.3\n"
                         "          ^");
    FAILS("real: infinite", "t:1:7: \"real\" takes a decimal number, found \"infinite\"\n"
                            "    real: infinite\n"
                            "          ^");
    FAILS("real: 1e", "t:1:7: \"real\" takes a decimal number, found \"1e\"\n"
                      "    real: 1e\n"
                      "          ^");
}

static void truth(void **state)
{
    (void)state;
    PRINTS("flags: [true, True, t, 1, 0x1, false, False, f, 0, 00]",
           "flags: true\nflags: true\nflags: true\nflags: true\nflags: true\n"
           "flags: false\nflags: false\nflags: false\nflags: false\nflags: false\n");
    FAILS("flag: yes", "t:1:7: \"flag\" takes true or false, found \"yes\"\n"
                       "    flag: yes\n"
                       "          ^");
    FAILS("flag: 2", "t:1:7: \"flag\" takes true or false, found \"2\"\n"
                     "    flag: 2\n"
                     "          ^");
    FAILS("flag: TRUE", "t:1:7: \"flag\" takes true or false, found \"TRUE\"\n"
                        "    flag: TRUE\n"
                        "          ^");
}

static void enums_by_name_and_number(void **state)
{
    (void)state;
    PRINTS("colors: [RED, 2, 0x3, COLD, -5, GREY]",
           "colors: RED\ncolors: GREEN\ncolors: VERDE\ncolors: COLD\ncolors: COLD\ncolors: GREY\n");
    FAILS("color: GREE", "t:1:8: unknown value \"GREE\" for \"color\", did you mean \"GREEN\"?\n"
                         "    color: GREE\n"
                         "           ^");
    FAILS("color: verde", "t:1:8: unknown value \"verde\" for \"color\", did you mean \"VERDE\"?\n"
                          "    color: verde\n"
                          "           ^");
    FAILS("color: turquoise",
          "t:1:8: unknown value \"turquoise\" for \"color\"; it is one of COLD, GREEN, GREY, RED, "
          "VERDE\n"
          "    color: turquoise\n"
          "           ^");
    FAILS("color: 9", "t:1:8: unknown value 9 for \"color\"\n"
                      "    color: 9\n"
                      "           ^");
    FAILS("color: \"RED\"", "t:1:8: \"color\" takes the name or number of a value, found \"RED\"\n"
                            "    color: \"RED\"\n"
                            "           ^");
    FAILS("color: 4294967297",
          "t:1:8: 4294967297 is out of range: \"color\" takes -2147483648 to 2147483647\n"
          "    color: 4294967297\n"
          "           ^");
}

static void strings_and_escapes(void **state)
{
    (void)state;
    PRINTS("text: 'it\\'s' raw: \"\\\"\"", "text: \"it's\"\nraw: \"\\\"\"\n");
    PRINTS("raw: '\\a\\b\\f\\n\\r\\t\\v\\?\\\\'", "raw: \"\\007\\010\\014\\n\\r\\t\\013?\\\\\"\n");
    PRINTS("raw: '\\0\\18\\377\\x4a\\XfF\\xag'", "raw: \"\\000\\0018\\377J\\377\\ng\"\n");
    PRINTS("text: '\\u00e9\\U0001F600\\ud83d\\ude00'",
           "text: \"\xc3\xa9\xf0\x9f\x98\x80\xf0\x9f\x98\x80\"\n");
    PRINTS("text: \"a\" 'b' # comment between\n \"c\\x64\" \"e\"", "text: \"abcde\"\n");
    PRINTS("text: '' raw: \"\"", "text: \"\"\nraw: \"\"\n");
    PRINTS("texts: ['a' 'b', 'c']", "texts: \"ab\"\ntexts: \"c\"\n");
    PRINTS("raw: '\xc3\xa9' text: '\xc3\xa9\xff\x1b\xc2\x9b'",
           "text: \"\xc3\xa9\\377\\033\\302\\233\"\nraw: \"\\303\\251\"\n");
    PRINTS("raw: 'a\0b'", "raw: \"a\\000b\"\n");
}

static void values_that_are_not_strings(void **state)
{
    (void)state;
    FAILS("text: abc", "t:1:7: \"text\" takes a string in quotes, found \"abc\"\n"
                       "    text: abc\n"
                       "          ^");
    FAILS("text: 'abc\nx", "t:1:7: this string is not closed on its line\n"
                           "    text: 'abc\n"
                           "          ^");
    FAILS("text: 'abc\\\nx'", "t:1:7: this string is not closed on its line\n"
                              "    text: 'abc\\\n"
                              "          ^");
    FAILS("text: 'a\\q'", "t:1:9: no such escape in a string\n"
                          "    text: 'a\\q'\n"
                          "            ^");
    FAILS("text: '\\x' ", "t:1:8: no such escape in a string\n"
                          "    text: '\\x' \n"
                          "           ^");
    FAILS("raw: '\\400'", "t:1:7: no such escape in a string\n"
                          "    raw: '\\400'\n"
                          "          ^");
    FAILS("text: '\\u12'", "t:1:8: no such escape in a string\n"
                           "    text: '\\u12'\n"
                           "           ^");
    FAILS("text: '\\U00110000'", "t:1:8: no such escape in a string\n"
                                 "    text: '\\U00110000'\n"
                                 "           ^");
    FAILS("text: '\\ud83dx'", "t:1:8: no such escape in a string\n"
                              "    text: '\\ud83dx'\n"
                              "           ^");
    FAILS("text: '\\ude00'", "t:1:8: no such escape in a string\n"
                             "    text: '\\ude00'\n"
                             "           ^");
    FAILS("text: 'a' 'b\\000c'", "t:1:11: \"text\" cannot hold a NUL byte\n"
                                 "    text: 'a' 'b\\000c'\n"
                                 "              ^");
}

static void lists(void **state)
{
    (void)state;
    PRINTS("i32s: [] u64s: [1] i32s: [-1, 2] i32s: 3 i32s: [4]",
           "i32s: -1\ni32s: 2\ni32s: 3\ni32s: 4\nu64s: 1\n");
    PRINTS("inners: [{ i32: 1 }, < i32: 2 >, {}] inners { i32: 3 } inners [ {} ]",
           "inners {\n  i32: 1\n}\ninners {\n  i32: 2\n}\ninners {\n}\ninners {\n  i32: 3\n}\n"
           "inners {\n}\n");
    PRINTS("raws: ['a', 'b' 'c'], reals: [1, .5f]",
           "raws: \"a\"\nraws: \"bc\"\nreals: 1\nreals: 0.5\n");
    FAILS("i32s: [1,]", "t:1:10: \"i32s\" takes a whole number, found \"]\"\n"
                        "    i32s: [1,]\n"
                        "             ^");
    FAILS("i32s: [1 2]", "t:1:10: expected \",\" or \"]\", found \"2\"\n"
                         "    i32s: [1 2]\n"
                         "             ^");
    FAILS("i32s [1]", "t:1:6: expected \":\" after \"i32s\", found \"[\"\n"
                      "    i32s [1]\n"
                      "         ^");
    FAILS("i32: [1]", "t:1:6: \"i32\" takes one value, not a list, found \"[\"\n"
                      "    i32: [1]\n"
                      "         ^");
    FAILS("i32s: [[1]]", "t:1:8: \"i32s\" takes a whole number, found \"[\"\n"
                         "    i32s: [[1]]\n"
                         "           ^");
    FAILS("inners: [{ i32: 1 }", "t:1:20: expected \",\" or \"]\", found the end of the text\n"
                                 "    inners: [{ i32: 1 }\n"
                                 "                       ^");
}

static void braces_must_match(void **state)
{
    (void)state;
    FAILS("inner {\n  i32: 1\n", "t:1:7: this \"{\" is never closed\n"
                                 "    inner {\n"
                                 "          ^");
    FAILS("inner < i32: 1 }", "t:1:16: expected the name of a field, found \"}\"\n"
                              "    inner < i32: 1 }\n"
                              "                   ^");
    FAILS("i32: 1 }", "t:1:8: expected the name of a field, found \"}\"\n"
                      "    i32: 1 }\n"
                      "           ^");
    FAILS("inner: 5", "t:1:8: \"inner\" takes a message in braces, found \"5\"\n"
                      "    inner: 5\n"
                      "           ^");
    FAILS("inner", "t:1:6: \"inner\" takes a message in braces, found the end of the text\n"
                   "    inner\n"
                   "         ^");
}

static void unknown_fields(void **state)
{
    (void)state;
    FAILS("\n  u23: 1", "t:2:3: unknown field \"u23\" in Everything, did you mean \"u32\"?\n"
                        "      u23: 1\n"
                        "      ^");
    FAILS("Flag: 1", "t:1:1: unknown field \"Flag\" in Everything, did you mean \"flag\"?\n"
                     "    Flag: 1\n"
                     "    ^");
    FAILS("name: 'x'",
          "t:1:1: unknown field \"name\" in Everything, did you mean \"needy { name }\"?\n"
          "    name: 'x'\n"
          "    ^");
    FAILS("nothing_like_it: 1", "t:1:1: unknown field \"nothing_like_it\" in Everything\n"
                                "    nothing_like_it: 1\n"
                                "    ^");
    FAILS("needy { nam: 1 }", "t:1:9: unknown field \"nam\" in Needy, did you mean \"name\"?\n"
                              "    needy { nam: 1 }\n"
                              "            ^");
    FAILS("needy {\n  number: 1\ninners {}",
          "t:3:1: unknown field \"inners\" in Needy, did you mean \"below { inners }\"?\n"
          "    inners {}\n"
          "    ^");
    FAILS("color { }", "t:1:7: expected \":\" after \"color\", found \"{\"\n"
                       "    color { }\n"
                       "          ^");
    FAILS("1: 5", "t:1:1: expected the name of a field, found \"1\"\n"
                  "    1: 5\n"
                  "    ^");
    FAILS("i32 = 5", "t:1:5: expected \":\" after \"i32\", found \"=\"\n"
                     "    i32 = 5\n"
                     "        ^");
    FAILS("[pkg.ext]: 5", "t:1:1: extensions ([package.name]) are not supported\n"
                          "    [pkg.ext]: 5\n"
                          "    ^");
    FAILS("inner { [type.googleapis.com/a.B] { } }",
          "t:1:9: messages of any type ([url/type]) are not supported\n"
          "    inner { [type.googleapis.com/a.B] { } }\n"
          "            ^");
}

static void one_value_only(void **state)
{
    (void)state;
    FAILS("i32: 1\ni32: 1", "t:2:1: \"i32\" is given twice, first on line 1\n"
                            "    i32: 1\n"
                            "    ^");
    FAILS("inner {}\ninner {}", "t:2:1: \"inner\" is given twice, first on line 1\n"
                                "    inner {}\n"
                                "    ^");
    FAILS("hello: 'hello' hello: 'x'", "t:1:16: \"hello\" is given twice, first on line 1\n"
                                       "    hello: 'hello' hello: 'x'\n"
                                       "                   ^");
    PRINTS("choice_number: 5", "choice_number: 5\n");
    PRINTS("choice_text: ''", "choice_text: \"\"\n");
    PRINTS("choice_raw: 'x'", "choice_raw: \"x\"\n");
    PRINTS("choice_inner {}", "choice_inner {\n}\n");
    PRINTS("choice_flag: false", "choice_flag: false\n");
    FAILS("choice_text: 'x'\n\nchoice_inner {}",
          "t:3:1: \"choice_inner\" and \"choice_text\" (line 1) exclude each other\n"
          "    choice_inner {}\n"
          "    ^");
    FAILS("choice_number: 1 choice_number: 1",
          "t:1:18: \"choice_number\" is given twice, first on line 1\n"
          "    choice_number: 1 choice_number: 1\n"
          "                     ^");
}

static void defaults_are_kept_and_replaced(void **state)
{
    (void)state;
    Pbtest__Everything *message = parse("");
    assert_int_equal(message->seven, 7);
    assert_false(message->has_seven);
    assert_string_equal(message->hello, "hello");
    assert_int_equal(message->magic.len, 2);
    assert_int_equal(message->red, PBTEST__COLOR__RED);
    release(message);
    PRINTS("seven: 7 hello: 'hello' magic: '' red: RED",
           "seven: 7\nhello: \"hello\"\nmagic: \"\"\nred: RED\n");
    message = parse("hello: '' magic: 'x'");
    assert_string_equal(message->hello, "");
    assert_int_equal(message->magic.len, 1);
    release(message);
}

static void required_fields(void **state)
{
    (void)state;
    PRINTS("needy { name: '' number: 0 }", "needy {\n  number: 0\n  name: \"\"\n}\n");
    FAILS("needy { number: 1 }", "t:1:19: Needy needs \"name\"\n"
                                 "    needy { number: 1 }\n"
                                 "                      ^");
    ProtobufCMessage *message = NULL;
    struct err err;
    assert_int_equal(pbtext_parse(&pbtest__needy__descriptor, "n", "name: 'x'", 9, &message, &err),
                     -EINVAL);
    assert_null(message);
    assert_string_equal(err.text, "n:1:10: Needy needs \"number\"\n"
                                  "    name: 'x'\n"
                                  "             ^");
}

static void nesting_ends_at_64(void **state)
{
    (void)state;
    for (size_t depth = 64; depth <= 65; depth++) {
        struct strbuf text = {0};
        for (size_t i = 0; i < depth; i++)
            strbuf_add_str(&text, i % 2 ? "inner{" : "inners{");
        for (size_t i = 0; i < depth; i++)
            strbuf_add_char(&text, '}');
        Pbtest__Everything *message = NULL;
        struct err err = {0};
        int r = parse_n(text.text, text.size, &message, &err);
        if (depth == 64) {
            assert_int_equal(r, 0);
            struct strbuf printed = {0};
            pbtext_print(&message->base, &printed);
            Pbtest__Everything *again = parse(printed.text);
            release(again);
            strbuf_done(&printed);
        } else {
            assert_int_equal(r, -E2BIG);
            assert_null(message);
            assert_non_null(strstr(err.text, ": messages nest deeper than 64 levels\n"));
        }
        release(message);
        strbuf_done(&text);
    }
}

static void the_caret_lines_up(void **state)
{
    (void)state;
    // Tabs stay, a character of several bytes is one column, a byte that cannot be printed is one
    // `?`.
    FAILS("\ti32: 1\tx: 1", "t:1:9: unknown field \"x\" in Everything\n"
                            "    \ti32: 1\tx: 1\n"
                            "    \t      \t^");
    FAILS("text: '\xc3\xa9\xe2\x82\xac' xyzxyz: 1",
          "t:1:12: unknown field \"xyzxyz\" in Everything\n"
          "    text: '\xc3\xa9\xe2\x82\xac' xyzxyz: 1\n"
          "               ^");
    FAILS("raw: '\x1b[1m\xff' xyzxyz: 1\r\ni32: 1",
          "t:1:14: unknown field \"xyzxyz\" in Everything\n"
          "    raw: '?[1m?' xyzxyz: 1\n"
          "                 ^");
    FAILS("i32: 1 \x01", "t:1:8: a byte 0x01 outside of a string\n"
                         "    i32: 1 ?\n"
                         "           ^");
    FAILS("i32: \xc3\xa9", "t:1:6: a byte 0xc3 outside of a string\n"
                           "    i32: \xc3\xa9\n"
                           "         ^");
    FAILS("i32: 1\0", "t:1:7: a byte 0x00 outside of a string\n"
                      "    i32: 1?\n"
                      "          ^");
}

static void long_lines_are_cut_around_the_caret(void **state)
{
    (void)state;
    struct strbuf text = {0};
    for (int i = 0; i < 100; i++)
        strbuf_add_str(&text, "i32s: 1 ");
    strbuf_add_str(&text, "i33s: 1");
    for (int i = 0; i < 100; i++)
        strbuf_add_str(&text, " i32s: 1");
    check_fails(text.text, text.size,
                "t:1:801: unknown field \"i33s\" in Everything, did you mean \"i32s\"?\n"
                "    ...: 1 i32s: 1 i32s: 1 i32s: 1 i32s: 1 i32s: 1 i33s: 1 i32s: 1 i32s: 1 ...\n"
                "                                                   ^");
    strbuf_done(&text);
}

static void everything_that_is_long_still_fits(void **state)
{
    (void)state;
    char name[5000];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct strbuf text = {0};
    for (int i = 0; i < 3000; i++)
        strbuf_add_str(&text, "\xf0\x9f\x98\x80");
    struct strbuf whole = {0};
    strbuf_addf(&whole, "text: '%s' %s: '%s'", text.text, name, text.text);
    ProtobufCMessage *message = NULL;
    struct err err;
    assert_int_equal(
        pbtext_parse(&pbtest__everything__descriptor, name, whole.text, whole.size, &message, &err),
        -EINVAL);
    size_t size = strlen(err.text);
    assert_true(size < ERR_TEXT_MAX - 1);
    assert_int_equal(err.text[size - 1], '^');
    assert_memory_equal(err.text, "...nnn", 6);
    assert_non_null(strstr(err.text, "unknown field \"nnnn"));
    strbuf_done(&text);
    strbuf_done(&whole);
}

// Each beginning of a text that has all forms is either parsed in full or refused. The sanitizers
// notice leaks and wrong reads.
static void every_beginning_of_a_text(void **state)
{
    (void)state;
    static const char text[] =
        "i32: -1 text: 'a' \"\\x41\\u00e9\" raw: '\\0' inner { color: RED needy < number: 1 name: "
        "'x' "
        "> } inners: [ { choice_text: 'q' }, { hello: 'y' magic: 'z' } ] texts: ['a', 'b'] "
        "choice_inner: { reals: [1.5f, -inf] flag: t }; # end\n";
    size_t n_parsed = 0;
    for (size_t size = 0; size < sizeof(text); size++) {
        Pbtest__Everything *message = NULL;
        struct err err = {0};
        char *copy = malloc(size + 1);
        memcpy(copy, text, size);
        int r = parse_n(copy, size, &message, &err);
        assert_int_equal(r == 0, message != NULL);
        assert_int_equal(r == 0, err.text[0] == '\0');
        n_parsed += r == 0;
        release(message);
        free(copy);
    }
    assert_in_range(n_parsed, 10, sizeof(text) - 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_text_is_an_empty_message),
        cmocka_unit_test(separators_and_blanks),
        cmocka_unit_test(whole_numbers_in_every_notation),
        cmocka_unit_test(whole_numbers_out_of_range),
        cmocka_unit_test(values_that_are_not_whole_numbers),
        cmocka_unit_test(real_numbers),
        cmocka_unit_test(truth),
        cmocka_unit_test(enums_by_name_and_number),
        cmocka_unit_test(strings_and_escapes),
        cmocka_unit_test(values_that_are_not_strings),
        cmocka_unit_test(lists),
        cmocka_unit_test(braces_must_match),
        cmocka_unit_test(unknown_fields),
        cmocka_unit_test(one_value_only),
        cmocka_unit_test(defaults_are_kept_and_replaced),
        cmocka_unit_test(required_fields),
        cmocka_unit_test(nesting_ends_at_64),
        cmocka_unit_test(the_caret_lines_up),
        cmocka_unit_test(long_lines_are_cut_around_the_caret),
        cmocka_unit_test(everything_that_is_long_still_fits),
        cmocka_unit_test(every_beginning_of_a_text),
    };
    return cmocka_run_group_tests_name("pbtext", tests, NULL, NULL);
}
