// SPDX-License-Identifier: Apache-2.0
//
// The files of an armed folder: their names and places, snapshots, and how many stay.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/armed/armed_snapshot.h"
#include "tests/unit/armed_fixture.h"

static void test_output_path(void **state)
{
    struct fixture *f = *state;
    char config[512], path[160];
    snprintf(config, sizeof(config), CONFIG "output_path: \"%s/else/where.pftrace\"\n", f->root);
    put(f->configs, "one.cfg", config);
    put(f->configs, "two.cfg", CONFIG "output_path: \"below/\"\n");
    arm(f);
    record(1, "trace");
    record(2, "trace");
    tell(1, SERVICE_EVENT_ENDED, 0);
    tell(2, SERVICE_EVENT_ENDED, 0);
    snprintf(path, sizeof(path), "%s/else", f->root);
    assert_int_equal(count_files(path, "where-20010909T020320Z.pftrace"), 1);
    snprintf(path, sizeof(path), "%s/below", f->output);
    assert_int_equal(count_files(path, "two-20010909T020320Z.pftrace"), 1);
}

static void test_pruning(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    put(f->root, "x", "");
    arm(f); // makes the folder
    static const char *const theirs[] = {"one-2.pftrace", "one-20010909T020320Z.pftrace.txt",
                                         "other-20010909T020320Z.pftrace", "one.pftrace"};
    for (size_t i = 0; i < 4; i++)
        put(f->output, theirs[i], "");
    for (uint64_t id = 1; id <= 6; id++) { // all in one second
        record(id, "trace");
        tell(id, SERVICE_EVENT_ENDED, 0);
        f->now = armed_next_due(f->armed);
        if (id < 6)
            armed_run_due(f->armed);
    }
    assert_int_equal(count_files(f->output, NULL), 3 + 4);
    struct armed_folder folder = {.path = f->output, .stem = "one", .max_bytes = 11};
    armed_folder_prune(&folder, &f->log);
    assert_int_equal(count_files(f->output, NULL), 2 + 4);
    folder.max_bytes = 1;
    armed_folder_prune(&folder, &f->log);
    assert_int_equal(count_files(f->output, NULL), 1 + 4);
    put(f->output, "one-20010909T020320Z-7.pftrace", "");
    armed_folder_prune(&folder, &f->log);
    assert_int_equal(count_files(f->output, NULL), 1 + 4);
}

static void order_snapshot(uint64_t id)
{
    static const struct service_trigger_hit hit = {.name = "now", .producer_name = "me"};
    const struct service_consumer *consumer = fake.sessions[id - 1].consumer;
    consumer->notify(consumer->userdata, id, SERVICE_EVENT_CLONE_TRIGGERED, 0, "", &hit);
}

static void test_snapshots(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    order_snapshot(1);
    order_snapshot(1);
    assert_int_equal(n_live(), 3);
    // While files are written the daemon has nothing to do, and each file under its name is
    // complete.
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_int_equal(count_files(f->output, "one-now-20010909T020320Z.pftrace.part"), 1);
    record(2, "snapshot");
    armed_run_due(f->armed);
    assert_int_equal(count_files(f->output, NULL), 0);
    tell(2, SERVICE_EVENT_ENDED, 0);
    assert_true(armed_next_due(f->armed) <= f->now);
    armed_run_due(f->armed);
    assert_int_equal(count_files(f->output, NULL), 1);
    assert_int_equal(count_files(f->output, "one-now-20010909T020320Z.pftrace"), 1);
    assert_int_equal(n_live(), 2); // and recording goes on
    record(3, "half a sna");
    tell(3, SERVICE_EVENT_ENDED, -ENOSPC);
    armed_run_due(f->armed);
    assert_int_equal(count_files(f->output, NULL), 1);
    assert_int_equal(n_live(), 1);
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_string_equal(f->said.text, "armed/one.cfg: snapshot: it broke\n");
    strbuf_clear(&f->said);

    // A config that is dropped ends when its snapshot is written.
    fake.ends_at_once = true;
    order_snapshot(1);
    drop(f->configs, "one.cfg");
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
    record(4, "snapshot");
    tell(4, SERVICE_EVENT_ENDED, 0);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 0);
    assert_int_equal(count_files(f->output, NULL), 2);
}

static void test_names_of_snapshots(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"oom_kill", "one-oom_kill"},
        {"com.app/../x y", "one-com.app_.._x_y"},
        {"", "one-"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        CLEANUP(freep) char *stem = armed_snapshot_stem("one", cases[i][0]);
        assert_string_equal(stem, cases[i][1]);
    }
    char name[200];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CLEANUP(freep) char *stem = armed_snapshot_stem("one", name);
    assert_int_equal(strlen(stem), 4 + 64);
    assert_false(armed_file_is_ours("one-oom_kill-20010909T020320Z.pftrace", "one"));
    assert_true(armed_snapshot_is_ours("one-oom_kill-20010909T020320Z.pftrace", "one"));
    assert_true(armed_snapshot_is_ours("one-a-b-20010909T020320Z-2.pftrace", "one"));
    assert_false(armed_snapshot_is_ours("one-20010909T020320Z.pftrace", "one"));
    assert_false(armed_snapshot_is_ours("one-notes.pftrace", "one"));
    assert_false(armed_snapshot_is_ours("two-oom_kill-20010909T020320Z.pftrace", "one"));
    assert_true(armed_file_is_ours("one-oom_kill-20010909T020320Z.pftrace", "one-oom_kill"));
}

// Twenty snapshots of one trigger do not remove the snapshots of another trigger.
static void test_bounds_of_snapshots(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg",
        CONFIG " trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 "
               "triggers { name: 'often' } triggers { name: 'rare' } }");
    assert_int_equal(folder_make(f->output, 0700, NULL), 0);
    put(f->output, "one-rare-20010909T020320Z.pftrace", "rare");
    for (int i = 10; i < 30; i++) {
        char name[64];
        snprintf(name, sizeof(name), "one-often-20010909T0203%dZ.pftrace", i);
        put(f->output, name, "often");
    }
    arm(f);
    assert_int_equal(count_files(f->output, NULL), 3 + 1);
}

static void test_snapshot_that_fails(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    fake.clone_result = -ENOSPC;
    order_snapshot(1);
    assert_string_equal(f->said.text, "armed/one.cfg: snapshot: no copies\n");
    assert_int_equal(count_files(f->output, NULL), 0);
    assert_int_equal(n_live(), 1);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(armed_file_is_ours("a-20261121T031500Z.pftrace", "a"));
    assert_true(armed_file_is_ours("a-20261121T031500Z-12.pftrace", "a"));
    assert_true(armed_file_is_ours("a-b-20261121T031500Z.pftrace", "a-b"));
    static const char *const others[] = {"a-b-20261121T031500Z.pftrace",
                                         "a-20261121T031500Z",
                                         "a-20261121T031500Z-.pftrace",
                                         "a-20261121T03150Z.pftrace",
                                         "a-20261121T031500Z-1x.pftrace",
                                         "a",
                                         "a-",
                                         ""};
    for (size_t i = 0; i < ELEMENTS(others); i++)
        assert_false(armed_file_is_ours(others[i], "a"));
}

static void test_same_second(void **state)
{
    struct fixture *f = *state;
    struct armed_folder folder = {.path = f->output, .stem = "s"};
    for (unsigned i = 0; i < 3; i++) {
        struct armed_file file;
        assert_int_equal(armed_file_open(&folder, 0, &file, NULL), 0);
        assert_true(armed_file_is_empty(&file));
        assert_int_equal(write(file.fd, "x", 1), 1);
        assert_int_equal(armed_file_publish(&file, &folder, 0, NULL), 0);
        assert_int_equal(armed_file_complete(&file), 0);
        armed_file_close(&file);
    }
    assert_int_equal(count_files(f->output, "s-19700101T000000Z.pftrace"), 1);
    assert_int_equal(count_files(f->output, "s-19700101T000000Z-2.pftrace"), 1);
    assert_int_equal(count_files(f->output, "s-19700101T000000Z-3.pftrace"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_output_path),         TEST(test_pruning),
        TEST(test_same_second),         TEST(test_snapshots),
        TEST(test_names_of_snapshots),  TEST(test_bounds_of_snapshots),
        TEST(test_snapshot_that_fails), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
