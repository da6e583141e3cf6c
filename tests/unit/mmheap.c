// SPDX-License-Identifier: Apache-2.0
//
// The table of heaps that programs link, without a reader of the table.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/agents/heap/api/mmheap_registry.h"
#include "tests/unit/unit.h"

extern struct mmheap_registry mmheap_registry_here;

static int forget_heaps(void **state)
{
    (void)state;
    memset(&mmheap_registry_here.heaps, 0, sizeof(mmheap_registry_here.heaps));
    mmheap_registry_here.n_heaps = 0;
    mmheap_registry_here.lock = 0;
    return 0;
}

static void a_name_is_one_heap(void **state)
{
    (void)state;
    struct mmheap *a = mmheap_register("a", NULL, NULL), *b = mmheap_register("b", NULL, NULL);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(mmheap_register("a", NULL, NULL), a);
    assert_int_equal(mmheap_interval(a), 0);
    char name[200];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = 0;
    struct mmheap *cut = mmheap_register(name, NULL, NULL);
    assert_int_equal(strlen(cut->name), MMHEAP_NAME_MAX - 1);
    assert_ptr_equal(mmheap_register(name, NULL, NULL), cut);
    assert_int_equal(mmheap_registry_here.n_heaps, 3);
}

static void there_is_always_one(void **state)
{
    (void)state;
    struct mmheap *nobodys = mmheap_register(NULL, NULL, NULL);
    assert_ptr_equal(mmheap_register("", NULL, NULL), nobodys);
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        struct mmheap *heap = mmheap_register(name, NULL, NULL);
        assert_true((heap == nobodys) == (i >= 63));
        mmheap_report_alloc(heap, name, 1);
        mmheap_report_free(heap, name);
        mmheap_report_free_range(heap, name, 1);
    }
    assert_int_equal(mmheap_registry_here.n_heaps, 63);
}

// A thread that holds the table's lock during a fork does not exist in the child.
static void a_child_does_not_wait_for_threads_of_its_parent(void **state)
{
    (void)state;
    int status;
    mmheap_registry_here.lock = (uint32_t)getpid();
    strcpy(mmheap_registry_here.heaps[0].name, "half of a name"); // NOLINT
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        struct mmheap *heap = mmheap_register("half", NULL, NULL);
        _exit(strcmp(heap->name, "half") == 0 && mmheap_registry_here.lock == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void *register_many(void *userdata)
{
    struct mmheap **found = userdata;
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "heap %d", i);
        found[i] = mmheap_register(name, NULL, NULL);
    }
    return NULL;
}

static void threads_register_at_the_same_time(void **state)
{
    (void)state;
    struct mmheap *found[4][40];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, register_many, found[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 4; i++)
        assert_memory_equal(found[i], found[0], sizeof(found[0]));
    assert_int_equal(mmheap_registry_here.n_heaps, 40);
}

#define TEST(name) cmocka_unit_test_setup(name, forget_heaps)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_name_is_one_heap),
        TEST(there_is_always_one),
        TEST(a_child_does_not_wait_for_threads_of_its_parent),
        TEST(threads_register_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
