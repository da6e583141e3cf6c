// SPDX-License-Identifier: Apache-2.0
#include "converter/import/processes.h"
#include "tests/unit/unit.h"

static struct strset strings;
static struct failure failure;
static struct processes all;

static int setup(void **state)
{
    (void)state;
    failure = (struct failure){0};
    processes_init(&all, &strings, &failure);
    return failure.code;
}

static int teardown(void **state)
{
    (void)state;
    processes_done(&all);
    strset_done(&strings);
    return 0;
}

static uint32_t name(const char *text)
{
    return strset_add(&strings, text, strlen(text));
}

static const char *thread_name(int64_t utid)
{
    return strset_text(&strings, processes_thread_at(&all, utid)->name);
}

static const char *process_name(int64_t upid)
{
    return strset_text(&strings, processes_at(&all, upid)->name);
}

static void idle_is_zero(void **state)
{
    (void)state;
    assert_int_equal(processes_thread(&all, 0), 0);
    assert_int_equal(processes_process(&all, 0), 0);
    assert_string_equal(thread_name(0), "swapper");
    processes_rename(&all, 0, name("idle"), NAME_FTRACE);
    assert_string_equal(thread_name(0), "swapper");
}

static void a_thread_seen_before_its_process(void **state)
{
    (void)state;
    int64_t utid = processes_thread(&all, 12);
    assert_int_equal(processes_thread_at(&all, utid)->upid, UPID_NONE);
    assert_int_equal(processes_update_thread(&all, 12, 10), utid);
    int64_t upid = processes_process(&all, 10);
    assert_int_equal(processes_thread_at(&all, utid)->upid, upid);
    assert_false(processes_thread_at(&all, utid)->is_main);
    int64_t main_utid = processes_thread(&all, 10);
    assert_true(processes_thread_at(&all, main_utid)->is_main);
}

static void a_pid_used_again_is_a_new_process(void **state)
{
    (void)state;
    int64_t first = processes_process(&all, 100), worker = processes_update_thread(&all, 101, 100);
    int64_t second = processes_start(&all, 5, 100, name("fork"));
    assert_int_not_equal(first, second);
    assert_int_equal(processes_process(&all, 100), second);
    assert_int_equal(processes_at(&all, second)->start_ts, 5);
    assert_string_equal(process_name(second), "fork");
    assert_false(processes_is_alive(&all, worker)); // its process has ended
    assert_int_not_equal(processes_thread(&all, 101), worker);
}

static void a_main_thread_takes_its_process_along(void **state)
{
    (void)state;
    int64_t upid = processes_start(&all, 5, 200, name("a"));
    int64_t utid = processes_thread(&all, 200);
    int64_t worker = processes_start_thread(&all, 6, 201, name("w"), utid);
    processes_end_thread(&all, 8, 201);
    assert_true(processes_is_alive(&all, utid));
    assert_false(processes_is_alive(&all, worker));
    processes_end_thread(&all, 9, 200);
    assert_true(processes_at(&all, upid)->has_end);
    assert_int_equal(processes_at(&all, upid)->end_ts, 9);
    assert_int_not_equal(processes_process(&all, 200), upid);
    processes_end_thread(&all, 9, 999); // never seen: nothing is made for it
    assert_int_equal(processes_find_thread(&all, 999), UTID_NONE);
}

static void threads_wait_for_their_process(void **state)
{
    (void)state;
    // 30 makes 31, 31 makes 32, 32 forks 40; only then /proc shows the process of thread 31.
    int64_t a = processes_thread(&all, 30);
    int64_t b = processes_start_thread(&all, 1, 31, name("b"), a);
    int64_t c = processes_start_thread(&all, 2, 32, name("c"), b);
    int64_t child = processes_start(&all, 3, 40, name("child"));
    processes_set_parent_thread(&all, child, c);
    assert_int_equal(processes_at(&all, child)->parent_upid, UPID_NONE);
    processes_update_thread(&all, 31, 30);
    int64_t upid = processes_process(&all, 30);
    assert_int_equal(processes_thread_at(&all, a)->upid, upid);
    assert_int_equal(processes_thread_at(&all, c)->upid, upid);
    assert_int_equal(processes_at(&all, child)->parent_upid, upid);
}

static void a_long_chain_of_threads(void **state)
{
    (void)state;
    int64_t utid = processes_thread(&all, 1000);
    for (int64_t tid = 1001; tid < 200000; tid++)
        utid = processes_start_thread(&all, tid, tid, name("w"), utid);
    processes_update_thread(&all, 1000, 1000);
    assert_int_equal(processes_thread_at(&all, utid)->upid, processes_process(&all, 1000));
}

static void better_names_stay(void **state)
{
    (void)state;
    int64_t upid = processes_process(&all, 50), utid = processes_thread(&all, 50);
    processes_rename(&all, utid, name("comm"), NAME_FTRACE);
    assert_string_equal(thread_name(utid), "comm");
    assert_string_equal(process_name(upid), "comm");
    processes_name_thread(&all, utid, name("from proc"), NAME_PROCESS_TREE);
    processes_rename(&all, utid, name("later comm"), NAME_FTRACE);
    assert_string_equal(thread_name(utid), "from proc");
    assert_string_equal(process_name(upid), "later comm");
}

static void a_parent_is_not_replaced(void **state)
{
    (void)state;
    int64_t a = processes_process(&all, 60), b = processes_process(&all, 61);
    int64_t child = processes_process(&all, 62);
    assert_true(processes_set_parent(&all, child, a));
    assert_true(processes_set_parent(&all, child, a));
    assert_false(processes_set_parent(&all, child, b)); // reparented
    assert_int_equal(processes_at(&all, child)->parent_upid, a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(idle_is_zero),
        TEST(a_thread_seen_before_its_process),
        TEST(a_pid_used_again_is_a_new_process),
        TEST(a_main_thread_takes_its_process_along),
        TEST(threads_wait_for_their_process),
        TEST(a_long_chain_of_threads),
        TEST(better_names_stay),
        TEST(a_parent_is_not_replaced),
    };
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
