// SPDX-License-Identifier: Apache-2.0
#include "converter/profile/java_names.h"

#include <string.h>

#include "common/elements.h"
#include "tests/unit/unit.h"

static void types(void **state)
{
    static const char *const pairs[][2] = {
        {"I", "int"},
        {"[[J", "long[][]"},
        {"Ljava/lang/String;", "java.lang.String"},
        {"[La/B$C;", "a.B$C[]"},
        // No types.
        {"", ""},
        {"[", "["},
        {"Q", "Q"},
        {"La/B", "La/B"},
        {"II", "II"},
        {"int", "int"},
    };
    char text[64];
    (void)state;
    for (size_t i = 0; i < ELEMENTS(pairs); i++) {
        java_type_name(pairs[i][0], text, sizeof(text));
        assert_string_equal(text, pairs[i][1]);
    }
}

static void methods(void **state)
{
    static const char *const pairs[][2] = {
        {"Ljava/lang/Thread;::run()V", "java.lang.Thread.run()"},
        {"run()V", "run()"},
        {"La/B;::f(I[JLa/C;)[La/D;", "a.B.f(int, long[], a.C)"},
        {"La/B;::f(I)V (B.java:12)", "a.B.f(int) (B.java:12)"},
        {"La/B;::<init>()V", "a.B.<init>()"},
        // No methods.
        {"", ""},
        {"Interpreter", "Interpreter"},
        {"f(", "f("},
        {"f()", "f()"},
        {"f(Q)V", "f(Q)V"},
        {"f(La/B)V", "f(La/B)V"},
        {"La/B;::", "La/B;::"},
    };
    char text[64];
    (void)state;
    for (size_t i = 0; i < ELEMENTS(pairs); i++) {
        java_method_name(pairs[i][0], text, sizeof(text));
        assert_string_equal(text, pairs[i][1]);
    }
}

static void short_places(void **state)
{
    char text[32];
    (void)state;
    for (size_t size = 1; size < sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        java_method_name("La/B;::f(I[JLa/C;)V", text, size);
        assert_true(strlen(text) < size);
        assert_int_equal(text[size], 'x');
        java_type_name("[[[[Ljava/lang/String;", text, size);
        assert_true(strlen(text) < size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(methods),
        cmocka_unit_test(short_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
