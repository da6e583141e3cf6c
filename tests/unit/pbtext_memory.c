// SPDX-License-Identifier: Apache-2.0
//
// Memory runs out at the first allocation of pbtext, in the next run at the second, and so on. Each
// time, the result is -ENOMEM or a complete message, never a part. The program is linked with
// --wrap, so that the test chooses the allocation that fails. The sanitizers notice leaks.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/pbtext.h"
#include "tests/unit/failing_memory.h"
#include "tests/unit/pbtext_test.pb-c.h"
#include "tests/unit/unit.h"

static const char text[] =
    "text: 'a' 'b' raw: 'c' hello: 'd' inner { inners: [{ text: 'e' }, {}] needy { number: 1 name: "
    "'f' } } "
    "i32s: [1, 2, 3, 4, 5] texts: ['g', 'h', 'i'] raws: 'j' choice_inner { choice_text: 'k' }";

static int parse(ProtobufCMessage **ret, struct err *err)
{
    return pbtext_parse(&pbtest__everything__descriptor, "t", text, sizeof(text) - 1, ret, err);
}

static void parsing_is_all_or_nothing(void **state)
{
    (void)state;
    for (size_t k = 0;; k++) {
        ProtobufCMessage *message = NULL;
        struct err err = {0};
        n_until_failure = k;
        int r = parse(&message, &err);
        bool was_enough = n_until_failure != SIZE_MAX;
        n_until_failure = SIZE_MAX;
        if (was_enough) {
            assert_int_equal(r, 0);
            protobuf_c_message_free_unpacked(message, NULL);
            assert_in_range(k, 20, 100);
            return;
        }
        assert_int_equal(r, -ENOMEM);
        assert_null(message);
        assert_string_equal(err.text, "t: not enough memory");
    }
}

static void printing_says_that_it_failed(void **state)
{
    (void)state;
    ProtobufCMessage *message = NULL;
    assert_int_equal(parse(&message, NULL), 0);
    size_t k = 0;
    for (bool was_enough = false; !was_enough; k++) {
        struct strbuf printed = {0};
        n_until_failure = k;
        pbtext_print(message, &printed);
        was_enough = n_until_failure != SIZE_MAX;
        n_until_failure = SIZE_MAX;
        assert_int_equal(printed.failed, !was_enough);
        strbuf_done(&printed);
    }
    assert_in_range(k, 3, 20);
    protobuf_c_message_free_unpacked(message, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsing_is_all_or_nothing),
        cmocka_unit_test(printing_says_that_it_failed),
    };
    return cmocka_run_group_tests_name("pbtext_memory", tests, NULL, NULL);
}
