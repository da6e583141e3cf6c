// SPDX-License-Identifier: Apache-2.0
//
// Files that the Perfetto UI reads are served, also if mmsql does not read them. Only files that
// are certainly no trace are refused.
#include "converter/input/ui_kinds.h"

#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "common/text.h"
#include "tests/unit/unit.h"

static void assert_judged(struct text bytes, enum ui_answer wanted, const char *kind_name)
{
    const struct kind *kind = NULL;
    enum ui_answer answer = ui_judge((const uint8_t *)bytes.at, bytes.size, &kind);
    if (answer != wanted || (kind_name && !str_eq(kind->name, kind_name)))
        fail_msg("\"%.40s\" (%s): %d, wanted %d", bytes.at, kind->name, (int)answer, (int)wanted);
}

static void the_ui_reads(void **state)
{
    static const struct text files[] = {
        TEXT("\x0a\x02\x40\x01\x0a\x02\x40\x02"), // packets
        TEXT("\x1f\x8b\x08\x00rest"),
        TEXT("\x28\xb5\x2f\xfdrest"),
        TEXT("PK\3\4.............................."),
        TEXT("PERFILE2rest"),
        TEXT("SIMPLEPERF\1"),
        TEXT("JAVA PROFILE 1.0.3"),
        TEXT("\x10\x00\x04\x46\x78\x54\x16\x00"),
        TEXT("{\"traceEvents\": []}"),
        TEXT("{\"meta\": {\"interval\": 1}}"), // of Firefox
        TEXT("[{\"ph\": \"X\"}]"),
        TEXT("# tracer: nop\n#\n"),
        TEXT("TRACE:\n\x78\x9c"),
        TEXT("# ninja log v5\n"),
        TEXT("*version\n3\n"),
        TEXT("SLOW\3"),
        TEXT("--------- beginning of main\n"),
        TEXT("<?xml version=\"1.0\"?>\n<trace-query-result>"),
        TEXT("          <idle>-0     [001] d..2 10.000001: cpu_idle: state=1 cpu_id=1\n"),
        TEXT("prog 12 [000] 10.000001: 1 cycles:\n\tffffffff81 f+0x1 ([kernel])\n\n"),
    };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(files); i++)
        assert_judged(files[i], UI_READS, NULL);
}

static void the_ui_may_read(void **state)
{
    static const struct text files[] = {
        TEXT("main;work;malloc 12\nmain;idle 3\n"),
        TEXT("01-02 03:04:05.678  100  101 I tag: text\n"),
        TEXT("1700000000.123456 openat(AT_FDCWD, \"x\") = 3\n"),
        TEXT("text of a log\nwith a time 12.345678 s in it\n"),
        TEXT("packet { timestamp: 1 }\n"),
        TEXT("<!doctype html><title>x</title>"),
        TEXT("\xfd\x37zXZ\0rest"),
        TEXT("\x80\x01\x02\x03"),
    };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(files); i++)
        assert_judged(files[i], UI_MAY_READ, NULL);
}

static void the_ui_reads_none_of(void **state)
{
    static const struct {
        struct text bytes;
        const char *name;
    } files[] = {
        {TEXT("SQLite format 3\0...."), "a SQLite database"},
        {TEXT("Dear reader,\nthis is a letter.\n"), "text of an unknown form"},
        {TEXT("a"), "text of an unknown form"},
        {TEXT(" \n \n"), "text of an unknown form"},
        {TEXT("# only a comment 1"), "text of an unknown form"},
        {TEXT("\0\0\0\0\0\0\0\0"), "zeros"},
        {TEXT("\x7f"
              "ELF...."),
         "an ELF file"},
        {TEXT("\x89PNG\r\n\x1a\n"), "a PNG picture"},
        {TEXT("%PDF-1.7"), "a PDF document"},
    };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(files); i++)
        assert_judged(files[i].bytes, UI_REFUSES, files[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ui_reads),
        cmocka_unit_test(the_ui_may_read),
        cmocka_unit_test(the_ui_reads_none_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
