// SPDX-License-Identifier: Apache-2.0
//
// Records as a VM makes them, and the parts of code that they mean.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jvmti.h>
#include <jvmticmlr.h>

#include "producer/agents/jvm/inlined_code.h"

#define CODE ((uintptr_t)0x1000)

static jmethodID method(uintptr_t number)
{
    return (jmethodID)number;
}

static void put(void *userdata, const struct inlined_part *part)
{
    char *text = userdata;
    text += strlen(text);
    text += sprintf(text, "%zx-%zx", (size_t)(part->from - CODE), (size_t)(part->to - CODE));
    for (size_t i = 0; i < part->n_methods; i++)
        text += sprintf(text, " %d", (int)(uintptr_t)part->methods[i]);
    strcpy(text, ";");
}

static const char *parts(char *text, const void *info)
{
    text[0] = 0;
    inlined_code_each(info, (const void *)CODE, 0x100, put, text);
    return text;
}

static void neighbours_are_one_part(void **state)
{
    jmethodID outer[] = {method(1)}, inner[] = {method(2), method(1)},
              deep[] = {method(3), method(2), method(1)};
    PCStackInfo places[] = {
        {(void *)(CODE + 0x10), 1, outer, NULL}, {(void *)(CODE + 0x20), 2, inner, NULL},
        {(void *)(CODE + 0x28), 2, inner, NULL}, {(void *)(CODE + 0x40), 3, deep, NULL},
        {(void *)(CODE + 0x50), 1, outer, NULL}, {(void *)(CODE + 0x60), 2, inner, NULL},
    };
    jvmtiCompiledMethodLoadInlineRecord record = {{JVMTI_CMLR_INLINE_INFO, 1, 0, NULL}, 6, places};
    jvmtiCompiledMethodLoadRecordHeader other = {JVMTI_CMLR_DUMMY, 1, 0, &record.header};
    char text[256];
    (void)state;
    assert_string_equal(parts(text, &other), "10-28 2 1;28-40 3 2 1;50-60 2 1;");
}

static void what_makes_no_sense_is_passed_over(void **state)
{
    jmethodID inner[] = {method(2), method(1)};
    PCStackInfo places[] = {
        {(void *)(CODE - 8), 2, inner, NULL},     {(void *)CODE, 2, inner, NULL},
        {(void *)(CODE + 0x20), 0, inner, NULL},  {(void *)(CODE + 0x30), 2, inner, NULL},
        {(void *)(CODE + 0x10), 2, inner, NULL},  {(void *)(CODE + 0x101), 2, inner, NULL},
        {(void *)(CODE + 0x100), 2, inner, NULL},
    };
    jvmtiCompiledMethodLoadInlineRecord record = {{JVMTI_CMLR_INLINE_INFO, 1, 0, NULL}, 7, places};
    jvmtiCompiledMethodLoadRecordHeader loop = {JVMTI_CMLR_DUMMY, 1, 0, &loop};
    char text[256];
    (void)state;
    assert_string_equal(parts(text, &record), "0-100 2 1;");
    assert_string_equal(parts(text, &loop), "");
    assert_string_equal(parts(text, NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_one_part),
        cmocka_unit_test(what_makes_no_sense_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
