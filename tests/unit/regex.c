// SPDX-License-Identifier: Apache-2.0
#include "converter/functions/regex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "tests/unit/failing_memory.h"
#include "tests/unit/unit.h"

static struct regex *compiled(const char *pattern)
{
    struct regex *regex = NULL;
    const char *why = NULL;
    int r = regex_new(pattern, strlen(pattern), false, &regex, &why);
    if (r < 0)
        fail_msg("%s: %s", pattern, why ? why : "no reason");
    return regex;
}

// Asserts what the pattern matches: "whole", or "whole|group" if it has a group. `want` NULL: no
// match.
static void expect(const char *pattern, const char *text, const char *want)
{
    struct regex *regex = compiled(pattern);
    struct regex_span spans[2];
    char got[256] = "";
    bool found = regex_find(regex, text, strlen(text), 0, spans);
    assert_int_equal(regex_find(regex, text, strlen(text), 0, NULL), found);
    if (found)
        snprintf(got, sizeof(got), "%.*s", (int)(spans[0].end - spans[0].begin),
                 text + spans[0].begin);
    if (found && spans[1].begin != SIZE_MAX)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "|%.*s",
                 (int)(spans[1].end - spans[1].begin), text + spans[1].begin);
    regex_free(regex);
    if (found != (want != NULL) || (want && strcmp(got, want) != 0))
        fail_msg("%s on %s: %s instead of %s", pattern, text, found ? got : "nothing",
                 want ? want : "nothing");
}

static void matches_are_those_of_perl(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text, *want;
    } cases[] = {
        {"abc", "xabcy", "abc"},
        {"abc", "ab", NULL},
        {"", "a", ""},
        {"foo|foobar", "foobar", "foo"},
        {"(?:foo|foobar)$", "foobar", "foobar"},
        {"a*", "aaa", "aaa"},
        {"a*?", "aaa", ""},
        {"a+?b", "aab", "aab"},
        {"x.*y", "1x2y3y", "x2y3y"},
        {"x.*?y", "1x2y3y", "x2y"},
        {"a{2,3}", "aaaa", "aaa"},
        {"a{2,3}?", "aaaa", "aa"},
        {"a{2}b", "aaab", "aab"},
        {"a{2,}", "aaaa", "aaaa"},
        {"ba{0}c", "bc", "bc"},
        {"a{,2}", "a{,2}", "a{,2}"},
        {"a{x", "a{x", "a{x"},
        {"a(b)?c", "ac", "ac"},
        {"a(b)?c", "abc", "abc|b"},
        {"(a|ab)(c|bcd)", "abcd", "abcd|a"},
        {"(a*)(b)", "aab", "aab|aa"},
        {"(?:|a)*", "aa", ""},
        {"(?P<name>b)c", "abc", "bc|b"},
        {"(?<name>b)c", "abc", "bc|b"},
        {"^b", "ab", NULL},
        {"(?m)^b", "a\nb", "b"},
        {"a$", "a\nb", NULL},
        {"(?m)a$", "a\nb", "a"},
        {"a.b", "a\nb", NULL},
        {"(?s)a.b", "a\nb", "a\nb"},
        {"\\Aa\\z", "a", "a"},
        {"\\bfoo\\b", "a foo b", "foo"},
        {"\\bfoo\\b", "afoo", NULL},
        {"\\Boo", "foo", "oo"},
        {"(?i)ABC", "xabc", "abc"},
        {"(?i:A)B", "aB", "aB"},
        {"(?i:A)B", "ab", NULL},
        {"(?i)[a-c]+", "ABCD", "ABC"},
        {"(?i)a(?-i)b", "AB", NULL},
        {"\\d+\\.\\w+", "v12.ab_3-", "12.ab_3"},
        {"[\\d.]+", "v1.2x", "1.2"},
        {"[^\\s]+", " ab c", "ab"},
        {"\\D\\S\\W", "1a2 3", "a2 "},
        {"[[:alpha:]_]+", "12ab_c3", "ab_c"},
        {"[[:^digit:]]+", "12ab3", "ab"},
        {"[]a]+", "x]a", "]a"},
        {"[^]a]+", "]ax]", "x"},
        {"[a-]+", "b-a", "-a"},
        {"\\x41\\x{42}", "AB", "AB"},
        {"\\Qa.b\\E.", "a.bc", "a.bc"},
        {"\\t\\n", "\t\n", "\t\n"},
        {"\\.\\*\\[", ".*[", ".*["},
        {"a.c",
         "a\xc3\xa4"
         "c",
         "a\xc3\xa4"
         "c"},
        {"[\xc3\xa4-\xc3\xbc]+", "x\xc3\xb6y", "\xc3\xb6"},
        {"[^a]", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {".", "\xff", "\xff"},
        {"(?:a?){30}a{30}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"(?:(?:a|b)|c)+d", "xabcabd", "abcabd"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        expect(cases[i].pattern, cases[i].text, cases[i].want);
}

static void wrong_patterns_have_a_reason(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "[b-a]",
        "*a",
        "a**",
        "a{2,1}",
        "a{2000}",
        "\\",
        "\\y",
        "\\1",
        "(?=a)",
        "(?<a",
        "(?z)",
        "[\\y]",
        "\\x4",
        "\\x{}",
        "\\x{110000}",
        "[[:nothing:]]",
        "(?:a{1000}){1000}",
        "|*",
        "(?i",
    };
    for (size_t i = 0; i < ELEMENTS(patterns); i++) {
        struct regex *regex = NULL;
        const char *why = NULL;
        if (regex_new(patterns[i], strlen(patterns[i]), false, &regex, &why) != -EINVAL || !why)
            fail_msg("%s is taken", patterns[i]);
        assert_null(regex);
    }
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    char pattern[4096];
    struct regex *regex = NULL;
    const char *why = NULL;
    memset(pattern, '(', sizeof(pattern));
    assert_int_equal(regex_new(pattern, sizeof(pattern), false, &regex, &why), -EINVAL);
    memset(pattern, '(', 100);
    memset(pattern + 100, ')', 100);
    assert_int_equal(regex_new(pattern, 200, false, &regex, &why), 0);
    assert_int_equal(regex_n_groups(regex), 100);
    regex_free(regex);
}

static void a_search_begins_anywhere(void **state)
{
    (void)state;
    struct regex *regex = compiled("a|^b");
    struct regex_span spans[2];
    assert_true(regex_find(regex, "baba", 4, 0, spans));
    assert_int_equal(spans[0].begin, 0);
    assert_true(regex_find(regex, "baba", 4, 2, spans));
    assert_int_equal(spans[0].begin, 3);
    assert_false(regex_find(regex, "baba", 4, 4, spans));
    regex_free(regex);
    regex = compiled("b\\z|(?:ab)+");
    assert_true(regex_find(regex, "a\0abab", 6, 0, spans)); // a zero byte is a character
    assert_int_equal(spans[0].begin, 2);
    assert_int_equal(spans[0].end, 6);
    regex_free(regex);
}

// A backtracking program would take practically for ever for each of these patterns.
static void time_is_limited_by_the_text(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(?:a*)*b", "(?:a|a)*b", "(?:a?){50}a{50}b",
                                           "(?:.*)(?:.*)(?:.*)(?:.*)b", "(?:a+)+$b"};
    size_t size = 20000;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'a', size);
    for (size_t i = 0; i < ELEMENTS(patterns); i++) {
        struct regex *regex = compiled(patterns[i]);
        // Each place may begin a match, so the search must go over the text once, not once for each
        // place.
        assert_false(regex_find(regex, text, size, 0, NULL));
        regex_free(regex);
    }
    free(text);
}

static void a_lack_of_memory_is_reported(void **state)
{
    (void)state;
    static const char pattern[] = "(a|[b-d\xc3\xa4-\xc3\xbc])+x{2,5}(?:y|z)";
    int failures = 0;
    for (size_t n = 0;; n++) {
        struct regex *regex = NULL;
        const char *why = NULL;
        n_until_failure = n;
        int r = regex_new(pattern, strlen(pattern), true, &regex, &why);
        n_until_failure = SIZE_MAX;
        if (r == 0) {
            assert_true(regex_find(regex, "CxxxY", 5, 0, NULL));
            regex_free(regex);
            break;
        }
        assert_int_equal(r, -ENOMEM);
        assert_null(regex);
        failures++;
    }
    assert_true(failures > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_are_those_of_perl),
        cmocka_unit_test(wrong_patterns_have_a_reason),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(a_search_begins_anywhere),
        cmocka_unit_test(time_is_limited_by_the_text),
        cmocka_unit_test(a_lack_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
