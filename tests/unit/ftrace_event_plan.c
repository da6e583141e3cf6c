// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "common/elements.h"
#include "common/wire.h"
#include "producer/sources/ftrace/event_compile.h"
#include "producer/trace/quick_varint.h"
#include "tests/unit/unit.h"

#define COMMON                                                                                     \
    "format:\n"                                                                                    \
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                         \
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                         \
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                 \
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

struct fixture {
    struct pid_feed pids;
    struct kernel_symbols symbols;
    struct kernel_strings strings;
    struct event_context context;
    struct event_plan *plan;
    uint8_t out[4096];
    size_t out_size;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    f->context = (struct event_context){&f->pids, &f->symbols, &f->strings};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    event_plan_free(f->plan);
    kernel_symbols_done(&f->symbols);
    kernel_strings_done(&f->strings);
    test_free(f);
    return 0;
}

static void compile(struct fixture *f, const char *group, const char *text,
                    enum event_plan_style style)
{
    struct event_format format;
    struct err err = {0};
    f->plan = event_plan_free(f->plan);
    assert_int_equal(event_format_parse(text, strlen(text), &format, &err), 0);
    const struct ftrace_event_type *type = ftrace_event_type_by_kernel_name(group, format.name);
    assert_int_equal(event_plan_compile(&format, group, style, type, 8, &f->plan, &err), 0);
    event_format_done(&format);
}

// Encodes `size` bytes into f->out; false if the plan refuses.
static bool encode_at(struct fixture *f, const void *data, size_t size, uint64_t time)
{
    struct page_record record = {.data = data, .size = (uint32_t)size, .timestamp = time};
    assert_true(event_plan_room(f->plan, size) <= sizeof(f->out));
    uint8_t *end = event_plan_encode(f->plan, &f->context, &record, f->out);
    if (!end)
        return false;
    f->out_size = (size_t)(end - f->out);
    assert_true(f->out_size <= event_plan_room(f->plan, size));
    return true;
}

static bool encode(struct fixture *f, const void *data, size_t size)
{
    return encode_at(f, data, size, 300);
}

#define ASSERT_ENCODED(f, ...)                                                                     \
    do {                                                                                           \
        static const uint8_t want_[] = {__VA_ARGS__};                                              \
        assert_int_equal((f)->out_size, sizeof(want_));                                            \
        assert_memory_equal((f)->out, want_, sizeof(want_));                                       \
    } while (0)

// quick_put_varint() and wire_put_varint() write equal bytes, at every border of sizes and between.
static void quick_varints_are_varints(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (unsigned i = 0; i < 64 * 1000; i++) {
        uint8_t quick[2 * WIRE_VARINT_MAX], plain[WIRE_VARINT_MAX];
        uint64_t power = UINT64_C(1) << i % 64;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t value = i < 64 ? power : i < 128 ? power - 1 : random >> i % 64;
        size_t size = (size_t)(quick_put_varint(quick, value) - quick);
        assert_int_equal(size, wire_put_varint(plain, value) - plain);
        assert_memory_equal(quick, plain, size);
    }
}

// The plan keeps the encoded upper bits of a time from event to event, and notices each change.
static void times_are_whole(void **state)
{
    static const uint8_t record[] = {7, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0};
    static const uint64_t times[] = {
        0,
        1,
        (1u << 28) - 1,
        1u << 28,
        (1u << 28) + 127,
        (2u << 28) - 1,
        2u << 28,
        3,
        2786239413917,
        2786239413918,
        UINT64_C(1) << 55,
        (UINT64_C(1) << 56) + 5,
        UINT64_MAX,
        UINT64_MAX - 1,
        1u << 28,
    };
    struct fixture *f = *state;
    compile(f, "task",
            "name: task_newtask\nID: 7\n" COMMON
            "\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n",
            EVENT_PLAN_TYPED);
    for (size_t i = 0; i < ELEMENTS(times); i++) {
        struct wire_field event, field;
        assert_true(encode_at(f, record, sizeof(record), times[i]));
        struct wire_reader bundle = wire_reader_over(f->out, f->out_size);
        assert_true(wire_next(&bundle, &event));
        struct wire_reader fields = wire_sub(&event);
        assert_true(wire_next(&fields, &field));
        assert_int_equal(field.number, 1);
        assert_true(field.value == times[i]);
        assert_true(wire_next(&fields, &field));
        assert_int_equal(field.value, 42);
        assert_false(wire_next(&bundle, &event) || bundle.error);
    }
}

static void numbers_keep_their_sign(void **state)
{
    struct fixture *f = *state;
    compile(f, "kmem",
            "name: rss_stat\nID: 646\n" COMMON
            "\tfield:unsigned int mm_id;\toffset:8;\tsize:4;\tsigned:0;\n"
            "\tfield:unsigned int curr;\toffset:12;\tsize:4;\tsigned:0;\n"
            "\tfield:int member;\toffset:16;\tsize:4;\tsigned:1;\n"
            "\tfield:long size;\toffset:24;\tsize:8;\tsigned:1;\n",
            EVENT_PLAN_TYPED);
    static const uint8_t record[] = {
        0x86, 0x02, 0,    0,                // id 646, flags, preempt count
        0x2a, 0,    0,    0,                // pid 42
        0xff, 0xff, 0xff, 0xff,             // mm_id, unsigned
        1,    0,    0,    0,                // curr
        0xff, 0xff, 0xff, 0xff,             // member -1
        0,    0,    0,    0,                // alignment
        0,    0x10, 0,    0,    0, 0, 0, 0, // size 4096
    };
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 30,                         // event, 30 bytes
                   0x08, 0xac, 0x02,                    // timestamp 300
                   0x10, 0x2a,                          // pid 42
                   0xca, 0x13, 22,                      // field 313, 22 bytes
                   0x08, 0xff, 0xff, 0xff, 0xff, 0xff,  // member -1
                   0xff, 0xff, 0xff, 0xff, 0x01,        //
                   0x10, 0x80, 0x20,                    // size 4096
                   0x18, 0x01,                          // curr 1
                   0x20, 0xff, 0xff, 0xff, 0xff, 0x0f); // mm_id 4294967295
    assert_false(encode(f, record, sizeof(record) - 1));
}

static void devices_and_texts_are_those_of_user_space(void **state)
{
    struct fixture *f = *state;
    compile(f, "block",
            "name: block_rq_issue\nID: 7\n" COMMON
            "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
            "\tfield:char rwbs[4];\toffset:12;\tsize:4;\tsigned:0;\n"
            "\tfield:__data_loc char[] cmd;\toffset:16;\tsize:4;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    uint8_t record[] = {
        7,   0,   0,    0,    // id 7
        1,   0,   0,    0,    // pid 1
        1,   0,   0x30, 0,    // dev: major 3 in the upper 12 bits, minor 1
        'R', 'A', 0,    'x',  // ends at the zero
        20,  0,   3,    0,    // 3 bytes at offset 20
        'h', 'i', 0,    0xff, //
    };
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 19,        // event
                   0x08, 0xac, 0x02,   // timestamp 300
                   0x10, 0x01,         // pid 1
                   0xea, 0x02, 11,     // field 45
                   0x08, 0x81, 0x06,   // dev 3:1 as makedev() has it: 0x301
                   0x2a, 2, 'R', 'A',  // rwbs
                   0x3a, 2, 'h', 'i'); // cmd

    record[16] = 22; // 3 bytes from 22 on: one too many
    assert_false(encode(f, record, sizeof(record)));
    record[16] = 0xff;
    record[17] = 0xff;
    assert_false(encode(f, record, sizeof(record)));
    record[18] = 0; // 0 bytes at any offset: an empty text
    assert_true(encode(f, record, sizeof(record)));
    assert_int_equal(f->out_size, 19);
}

static void texts_become_utf8(void **state)
{
    struct fixture *f = *state;
    compile(f, "task",
            "name: task_rename\nID: 7\n" COMMON
            "\tfield:char oldcomm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
            "\tfield:char newcomm[16];\toffset:24;\tsize:16;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    uint8_t record[40] = {7, 0, 0, 0, 1, 0, 0, 0};
    memcpy(record + 8, "a\xff\xc3\xa4\0\xff", 7);
    memcpy(record + 24, "0123456789abcd\xe2\x82", 16);
    assert_true(encode(f, record, sizeof(record)));
    const uint8_t *old = memmem(f->out, f->out_size, "a?\xc3\xa4", 4);
    const uint8_t *new = memmem(f->out, f->out_size, "0123456789abcd??", 16);
    assert_non_null(old);
    assert_int_equal(old[-1], 4);
    assert_non_null(new);
    assert_int_equal(new[-1], 16);

    compile(f, "ftrace",
            "name: print\nID: 7\n" COMMON
            "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
            "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    static const uint8_t print[] = "\7\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0marker \x80 of a thread\0";
    assert_true(encode(f, print, sizeof(print)));
    assert_non_null(memmem(f->out, f->out_size, "\x14marker ? of a thread", 21));
}

static void wide_values_are_left_out_where_they_do_not_fit(void **state)
{
    struct fixture *f = *state;
    compile(f, "vmscan",
            "name: mm_shrink_slab_start\nID: 7\n" COMMON
            "\tfield:unsigned long gfp_flags;\toffset:8;\tsize:8;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    uint8_t record[] = {
        7, 0, 0, 0, 1, 0, 0, 0, // id 7, pid 1
        5, 0, 0, 0, 0, 0, 0, 0, // gfp_flags, for which the schema has 32 bits
    };
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 10, 0x08, 0xac, 0x02, 0x10, 0x01, // event, timestamp, pid
                   0xda, 0x1b, 2,                             // field 443
                   0x18, 5);                                  // gfp_flags
    record[12] = 1;
    assert_true(encode(f, record, sizeof(record)));
    assert_int_equal(f->out[9], 0);
}

static void arrays_become_repeated_fields(void **state)
{
    struct fixture *f = *state;
    compile(f, "raw_syscalls",
            "name: sys_enter\nID: 7\n" COMMON "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
            "\tfield:unsigned long args[2];\toffset:16;\tsize:16;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    static const uint8_t record[] = {
        7, 0, 0, 0, 1, 0, 0, 0, // id 7, pid 1
        3, 0, 0, 0, 0, 0, 0, 0, // id 3
        1, 1, 0, 0, 0, 0, 0, 0, // 257
        2, 0, 0, 0, 0, 0, 0, 0, // 2
    };
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 15, 0x08, 0xac, 0x02, 0x10, 0x01, // event, timestamp, pid
                   0xca, 0x14, 7,                             // field 329
                   0x08, 3, 0x10, 0x81, 0x02, 0x10, 2);
}

static void addresses_of_functions_become_numbers(void **state)
{
    struct fixture *f = *state;
    compile(f, "vmscan",
            "name: mm_shrink_slab_start\nID: 7\n" COMMON
            "\tfield:void * shrink;\toffset:8;\tsize:8;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    uint8_t record[16] = {7, 0, 0, 0, 1, 0, 0, 0, 0x10, 0, 0, 0x81, 0xff, 0xff, 0xff, 0xff};
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 10, 0x08, 0xac, 0x02, 0x10, 0x01, 0xda, 0x1b, 2, 0x40, 1);
    record[8] = 0x20;
    assert_true(encode(f, record, sizeof(record)));
    assert_int_equal(f->out[11], 2);
    record[8] = 0x10;
    assert_true(encode(f, record, sizeof(record)));
    assert_int_equal(f->out[11], 1);
}

static void pointed_texts_are_looked_up(void **state)
{
    struct fixture *f = *state;
    static const char formats[] = "0xffffffff82000000 : \"rcu\"\nnonsense\n0x10 \"\n";
    assert_int_equal(kernel_strings_parse(&f->strings, formats, sizeof(formats) - 1), 0);
    compile(f, "none",
            "name: mine\nID: 7\n" COMMON
            "\tfield:const char * text;\toffset:8;\tsize:8;\tsigned:0;\n",
            EVENT_PLAN_DESCRIBED);
    uint8_t record[16] = {7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x82, 0xff, 0xff, 0xff, 0xff};
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 14, 0x08, 0xac, 0x02, 0x10, 0x01, // event, timestamp, pid
                   0xba, 0x80, 0x20, 5,                       // field 65536 + 7
                   0x0a, 3, 'r', 'c', 'u');
    memset(record + 11, 0, 5); // a pointer of user space: 0x1f
    record[8] = 0x1f;
    assert_true(encode(f, record, sizeof(record)));
    assert_memory_equal(f->out + 12,
                        "\x04"
                        "0x1f",
                        5);
}

static void unknown_events_describe_themselves(void **state)
{
    struct fixture *f = *state;
    compile(f, "grp",
            "name: mine\nID: 7\n" COMMON "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n"
            "\tfield:u8 mac[2];\toffset:12;\tsize:2;\tsigned:0;\n",
            EVENT_PLAN_DESCRIBED);
    static const uint8_t want[] = {
        0x08, 0x87, 0x80, 0x04,                                   // field_id 65543
        0x12, 30,                                                 // event_descriptor
        0x0a, 4,    'm',  'i',  'n', 'e',                         // name
        0x12, 9,    0x0a, 1,    'a', 0x18, 1,   0x20, 1, 0x28, 3, // a: 1, optional, int64
        0x12, 11,   0x0a, 3,    'm', 'a',  'c', 0x18, 2, 0x20, 1,
        0x28, 12,                    // mac: 2, optional, bytes
        0x1a, 3,    'g',  'r',  'p', // group_name
    };
    assert_int_equal(f->plan->descriptor_size, sizeof(want));
    assert_memory_equal(f->plan->descriptor, want, sizeof(want));
    static const uint8_t record[] = {7, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0xaa, 0xbb, 0, 0};
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 15, 0x08, 0xac, 0x02, 0x10, 0x01, // event, timestamp, pid
                   0xba, 0x80, 0x20, 6,                       // field 65536 + 7
                   0x08, 5, 0x12, 2, 0xaa, 0xbb);
}

static void unknown_events_can_carry_their_names(void **state)
{
    struct fixture *f = *state;
    compile(f, "grp",
            "name: mine\nID: 7\n" COMMON "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n"
            "\tfield:unsigned int b[2];\toffset:12;\tsize:8;\tsigned:0;\n"
            "\tfield:__data_loc char[] c;\toffset:20;\tsize:4;\tsigned:0;\n",
            EVENT_PLAN_GENERIC);
    static const uint8_t record[] = {
        7, 0, 0, 0, 1, 0, 0, 0, // id 7, pid 1
        5, 0, 0, 0,             // a
        6, 0, 0, 0, 7, 0, 0, 0, // b
        8, 0, 0, 0,             // c: no bytes
    };
    assert_true(encode(f, record, sizeof(record)));
    ASSERT_ENCODED(f, 0x12, 42, 0x08, 0xac, 0x02, 0x10, 0x01, // event, timestamp, pid
                   0xba, 0x14, 34,                            // generic
                   0x0a, 4, 'm', 'i', 'n', 'e',               // event_name
                   0x12, 5, 0x0a, 1, 'a', 0x20, 5,            // a: int_value
                   0x12, 5, 0x0a, 1, 'b', 0x28, 6,            // b, twice: uint_value
                   0x12, 5, 0x0a, 1, 'b', 0x28, 7,            //
                   0x12, 5, 0x0a, 1, 'c', 0x1a, 0);           // c: str_value
}

static void long_texts_take_longer_lengths(void **state)
{
    struct fixture *f = *state;
    compile(f, "ftrace",
            "name: print\nID: 5\n" COMMON
            "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
            "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n",
            EVENT_PLAN_TYPED);
    uint8_t record[16 + 200] = {5, 0, 0, 0, 1, 0, 0, 0, 9};
    memset(record + 16, 'x', 200);
    assert_true(encode(f, record, sizeof(record)));
    static const uint8_t start[] = {
        0x12, 0xd5, 0x01,             // event, 213 bytes
        0x08, 0xac, 0x02, 0x10, 0x01, // timestamp, pid
        0x1a, 0xcd, 0x01,             // print, 205 bytes
        0x08, 9,                      // ip
        0x12, 0xc8, 0x01,             // buf, 200 bytes
        'x',
    };
    assert_memory_equal(f->out, start, sizeof(start));
    assert_int_equal(f->out_size, sizeof(start) - 1 + 200);
}

static void pids_are_published_and_forgotten(void **state)
{
    struct fixture *f = *state;
    compile(f, "task",
            "name: task_rename\nID: 7\n" COMMON
            "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n",
            EVENT_PLAN_TYPED);
    static const uint8_t record[] = {7, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0};
    assert_true(encode(f, record, sizeof(record)));
    assert_int_equal(f->pids.recent[9], 9);
    assert_int_equal(f->pids.recent[8], 8);
    assert_int_equal(f->plan->pid_changes, 8);
}

static void broken_formats_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "name: x\n",
        "ID: 3\n",
        "name: x\nID: 70000\n",
        "name: x\nID: 3\n\tfield:int a;\toffset:8;\n",
        "name: x\nID: 3\n\tfield:int a;\toffset:65535;\tsize:4;\tsigned:0;\n",
        "name: x\nID: 3\n\tfield:;\toffset:0;\tsize:4;\tsigned:0;\n",
        "name: x\nID: 3\n\tfield:int ];\toffset:0;\tsize:4;\tsigned:0;\n",
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct event_format format;
        struct err err = {0};
        assert_int_equal(event_format_parse(bad[i], strlen(bad[i]), &format, &err), -EINVAL);
        assert_int_not_equal(err.text[0], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        cmocka_unit_test(quick_varints_are_varints),
        TEST(times_are_whole),
        TEST(numbers_keep_their_sign),
        TEST(devices_and_texts_are_those_of_user_space),
        TEST(texts_become_utf8),
        TEST(wide_values_are_left_out_where_they_do_not_fit),
        TEST(arrays_become_repeated_fields),
        TEST(addresses_of_functions_become_numbers),
        TEST(pointed_texts_are_looked_up),
        TEST(unknown_events_describe_themselves),
        TEST(unknown_events_can_carry_their_names),
        TEST(long_texts_take_longer_lengths),
        TEST(pids_are_published_and_forgotten),
        TEST(broken_formats_are_refused),
    };
    return cmocka_run_group_tests_name("ftrace_event_plan", tests, NULL, NULL);
}
