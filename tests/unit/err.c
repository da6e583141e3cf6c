// SPDX-License-Identifier: Apache-2.0
#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"

static void each_returns_its_code(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, -EINVAL, "a %d", 1), -EINVAL);
    assert_string_equal(err.text, "a 1");
    assert_int_equal(err_prefix(&err, -EIO, "b"), -EIO);
    assert_string_equal(err.text, "b: a 1");
    assert_int_equal(err_hint(&err, -EIO, "do %s", "this"), -EIO);
    assert_string_equal(err.hint, "do this");
    assert_int_equal(err_errno(&err, -ENOENT, "%s", "/x"), -ENOENT);
    assert_string_equal(err.text, "/x: No such file or directory");
    assert_string_equal(err.hint, ""); // a new text drops the old hint
}

static void no_err_is_fine(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, -1, "x"), -1);
    assert_int_equal(err_errno(NULL, -2, "x"), -2);
    assert_int_equal(err_prefix(NULL, -3, "x"), -3);
    assert_int_equal(err_hint(NULL, -4, "x"), -4);
}

static void long_texts_are_cut_and_terminated(void **state)
{
    (void)state;
    struct err err;
    char text[2 * ERR_TEXT_MAX];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memset(&err, 0xff, sizeof(err));
    err_set(&err, -1, "%s", text);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    err_errno(&err, -ENOENT, "%s", text);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    const char *end = strstr(err.text, "x: No such file or directory"); // the reason is kept
    assert_non_null(end);
    err_hint(&err, -1, "%s", text);
    assert_int_equal(strlen(err.hint), ERR_HINT_MAX - 1);
    err_prefix(&err, -1, "what");
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
    assert_memory_equal(err.text, "what: xxx", 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_returns_its_code),
        cmocka_unit_test(no_err_is_fine),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
