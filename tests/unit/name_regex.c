// SPDX-License-Identifier: Apache-2.0
#include "producer/service/triggers/name_regex.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

static bool fits(const char *pattern, const char *name)
{
    struct err err = {0};
    if (name_regex_check(pattern, &err) < 0)
        fail_msg("%s: %s", pattern, err.text);
    return name_regex_matches(pattern, name);
}

static void whole_names_match(void **state)
{
    (void)state;
    assert_true(fits("perfetto[.].*", "perfetto.traced_probes"));
    assert_false(fits("perfetto", "perfetto.traced_probes"));
    assert_false(fits("traced_probes", "perfetto.traced_probes"));
    assert_true(fits("a|ab", "ab"));
    assert_true(fits("(a{2,3}b){1,2}", "aabaaab"));
    assert_true(fits("[]({]+[[:digit:]({)]", "]({1"));
    assert_true(fits("\\(\\{x", "({x"));
    assert_true(fits("a{1,255}", "aaa"));
}

static void refused(const char *pattern, const char *why)
{
    struct err err = {0};
    assert_int_equal(name_regex_check(pattern, &err), -EINVAL);
    assert_false(name_regex_matches(pattern, "a"));
    if (!strstr(err.text, why))
        fail_msg("%.40s: %s", pattern, err.text);
}

// With each of these patterns, regcomp() or regexec() would take seconds, gigabytes or the whole
// stack.
static void harmful_ones_are_refused(void **state)
{
    (void)state;
    static char deep[100001];
    memset(deep, '(', 100000);
    refused(deep, "longer than");
    memset(deep, '(', 17);
    snprintf(deep + 17, 100, "a)))))))))))))))))");
    refused(deep, "inside each other");
    memset(deep, '+', 41);
    deep[0] = 'a';
    deep[41] = '\0';
    refused(deep, "repetitions");
    refused("(((((((((((a+)+)+)+)+)+)+)+)+)+)+)+", "repetitions");
    refused("((a|b)*(a|b)?){200}", "repetitions");
    refused("(a{100}|b{100}|c{100})", "repetitions");
    refused("a{200,}b{56}", "repetitions");
    refused("((a{1,100}){1,100}){1,100}", "repetitions");
    refused("a{99999999999999999999999999}", "repetitions");
    refused("a{1,18446744073709551615}b{2}", "repetitions");
    refused("[[:alpha:]{]*(a{3,90}){3}", "repetitions");
    refused("(a*)*\\1*(a*)*\\2b", "back-references");
    refused("(a", "");
    refused("[a", "");
    refused("a\\", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_names_match),
        cmocka_unit_test(harmful_ones_are_refused),
    };
    return cmocka_run_group_tests_name("name_regex", tests, NULL, NULL);
}
