// SPDX-License-Identifier: Apache-2.0
//
// Classic BPF on the data of a system call, as the kernel runs a seccomp filter.
#include "producer/agents/heap/attach/jail.h"

#include <errno.h>
#include <linux/audit.h>
#include <string.h>

#include "common/elements.h"
#include "tests/unit/unit.h"

#define OP(code, k)           BPF_STMT(code, k)
#define JUMP(code, k, jt, jf) BPF_JUMP(code, k, jt, jf)

static uint32_t run(const struct sock_filter *program, size_t n)
{
    const struct seccomp_data data = {
        .nr = 7,
        .arch = AUDIT_ARCH_X86_64,
        .instruction_pointer = UINT64_C(0x1122334455667788),
        .args = {UINT64_C(0xaabbccdd00000001), 2},
    };
    return jail_filter_run(program, n, &data);
}

#define RUN(...)                                                                                   \
    run((const struct sock_filter[]){__VA_ARGS__},                                                 \
        sizeof((const struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))

static void words_of_the_data(void **state)
{
    (void)state;
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_ABS, 0), OP(BPF_RET | BPF_A, 0)), 7);
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_ABS, 4), OP(BPF_RET | BPF_A, 0)),
                     AUDIT_ARCH_X86_64);
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_ABS, 16), OP(BPF_RET | BPF_A, 0)), 1);
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_ABS, 20), OP(BPF_RET | BPF_A, 0)), 0xaabbccdd);
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_LEN, 0), OP(BPF_RET | BPF_A, 0)), 64);
}

static void arithmetic(void **state)
{
    (void)state;
    static const struct {
        uint16_t operation;
        uint32_t a, k, result;
    } rows[] = {
        {BPF_ADD, 5, 3, 8},          {BPF_SUB, 5, 7, 0xfffffffe}, {BPF_MUL, 5, 3, 15},
        {BPF_DIV, 17, 5, 3},         {BPF_AND, 12, 10, 8},        {BPF_OR, 12, 10, 14},
        {BPF_XOR, 12, 10, 6},        {BPF_LSH, 1, 31, 1u << 31},  {BPF_RSH, 1u << 31, 31, 1},
        {BPF_NEG, 1, 0, 0xffffffff}, {BPF_DIV, 17, 0, 0},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++) {
        assert_int_equal(RUN(OP(BPF_LD | BPF_IMM, rows[i].a),
                             OP(BPF_ALU | BPF_K | rows[i].operation, rows[i].k),
                             OP(BPF_RET | BPF_A, 0)),
                         rows[i].result);
        assert_int_equal(RUN(OP(BPF_LDX | BPF_IMM, rows[i].k), OP(BPF_LD | BPF_IMM, rows[i].a),
                             OP(BPF_ALU | BPF_X | rows[i].operation, 0), OP(BPF_RET | BPF_A, 0)),
                         rows[i].result);
    }
}

static void jumps(void **state)
{
    (void)state;
    static const struct {
        uint16_t operation;
        uint32_t a, k;
        bool is_taken;
    } rows[] = {
        {BPF_JEQ, 4, 4, true},  {BPF_JEQ, 4, 5, false},  {BPF_JGT, 5, 4, true},
        {BPF_JGT, 4, 4, false}, {BPF_JGE, 4, 4, true},   {BPF_JGE, 3, 4, false},
        {BPF_JSET, 6, 2, true}, {BPF_JSET, 4, 2, false},
    };
    for (size_t i = 0; i < ELEMENTS(rows); i++)
        assert_int_equal(RUN(OP(BPF_LD | BPF_IMM, rows[i].a),
                             JUMP(BPF_JMP | BPF_K | rows[i].operation, rows[i].k, 1, 0),
                             OP(BPF_RET | BPF_K, 1), OP(BPF_RET | BPF_K, 2)),
                         rows[i].is_taken ? 2 : 1);
    assert_int_equal(
        RUN(JUMP(BPF_JMP | BPF_JA, 1, 0, 0), OP(BPF_RET | BPF_K, 1), OP(BPF_RET | BPF_K, 2)), 2);
}

static void memory_and_registers(void **state)
{
    (void)state;
    assert_int_equal(RUN(OP(BPF_LD | BPF_IMM, 9), OP(BPF_ST, 15), OP(BPF_LD | BPF_IMM, 1),
                         OP(BPF_LD | BPF_MEM, 15), OP(BPF_RET | BPF_A, 0)),
                     9);
    assert_int_equal(RUN(OP(BPF_LDX | BPF_IMM, 8), OP(BPF_STX, 3), OP(BPF_LDX | BPF_MEM, 3),
                         OP(BPF_MISC | BPF_TXA, 0), OP(BPF_RET | BPF_A, 0)),
                     8);
    assert_int_equal(RUN(OP(BPF_LD | BPF_IMM, 3), OP(BPF_MISC | BPF_TAX, 0),
                         OP(BPF_LD | BPF_IMM, 0), OP(BPF_MISC | BPF_TXA, 0),
                         OP(BPF_RET | BPF_A, 0)),
                     3);
}

static void malformed_programs_end_with_the_strictest_action(void **state)
{
    (void)state;
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_ABS, 64), OP(BPF_RET | BPF_K, 1)),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(OP(BPF_LD | BPF_W | BPF_ABS, 2), OP(BPF_RET | BPF_K, 1)),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(OP(BPF_ST, 16), OP(BPF_RET | BPF_K, 1)), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(OP(BPF_LD | BPF_IND, 0), OP(BPF_RET | BPF_K, 1)),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(JUMP(BPF_JMP | BPF_JA, 0xffffffff, 0, 0), OP(BPF_RET | BPF_K, 1)),
                     SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(OP(BPF_LD | BPF_IMM, 1)), SECCOMP_RET_KILL_PROCESS);
}

static void a_thread_that_is_not_stopped_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(jail_judge(1, &err), -EPERM);
    assert_non_null(strstr(err.text, "seccomp jail"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_the_data),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(jumps),
        cmocka_unit_test(memory_and_registers),
        cmocka_unit_test(malformed_programs_end_with_the_strictest_action),
        cmocka_unit_test(a_thread_that_is_not_stopped_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
