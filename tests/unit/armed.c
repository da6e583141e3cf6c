// SPDX-License-Identifier: Apache-2.0
//
// The configs of an armed folder: they come, change, fail and go.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/armed_fixture.h"

static void test_armed_again_and_again(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    assert_int_equal(n_live(), 1);
    assert_string_equal(fake.sessions[0].consumer->name, "armed/one.cfg");
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_int_equal(count_files(f->output, NULL), 0);
    f->now += 20 * NSEC_PER_SEC; // a trigger
    tell(1, SERVICE_EVENT_STARTED, 0);
    f->now += 10 * NSEC_PER_SEC;
    record(1, "trace");
    tell(1, SERVICE_EVENT_ENDED, 0);
    // The name has the trigger's time: 1000001020 s after the epoch.
    assert_int_equal(count_files(f->output, "one-20010909T020340Z.pftrace"), 1);
    assert_int_equal(n_live(), 0);
    pass(f, 0);
    assert_int_equal(n_live(), 1);
    // Without data there is no file.
    f->now += 3600 * NSEC_PER_SEC;
    tell(2, SERVICE_EVENT_ENDED, 0);
    assert_int_equal(count_files(f->output, NULL), 1);
    pass(f, 0);
    assert_int_equal(n_live(), 1);
    assert_null(f->said.text);
}

// The line about a written trace says what the trace lacks. If a source does not count its events,
// the line counts the source's packets.
static void test_losses_are_reported(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    tell(1, SERVICE_EVENT_STARTED, 0);
    record(1, "trace");
    f->now += 20 * NSEC_PER_SEC;
    fake.events_lost = 62345;
    fake.packets_discarded = 7;
    tell(1, SERVICE_EVENT_ENDED, 0);
    assert_non_null(f->said.text);
    assert_non_null(strstr(f->said.text, ".pftrace without 62345 events"));
    pass(f, 0);
    tell(2, SERVICE_EVENT_STARTED, 0);
    record(2, "trace");
    f->now += 20 * NSEC_PER_SEC;
    fake.events_lost = 0;
    tell(2, SERVICE_EVENT_ENDED, 0);
    assert_non_null(strstr(f->said.text, ".pftrace without 7 events"));
}

static void test_back_off(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    nsec_t delay = ARMED_DELAY_MIN;
    for (uint64_t id = 1; id <= 12; id++) {
        f->now += NSEC_PER_SEC;
        tell(id, SERVICE_EVENT_ENDED, id % 2 ? -EIO : 0);
        pass(f, delay);
        delay = delay * 2 < ARMED_DELAY_MAX ? delay * 2 : ARMED_DELAY_MAX;
        assert_int_equal(n_live(), 1);
    }
    assert_int_equal(delay, ARMED_DELAY_MAX);
    // A session that lasted for ARMED_EARLY resets the delay.
    f->now += ARMED_EARLY;
    tell(13, SERVICE_EVENT_ENDED, 0);
    pass(f, 0);
    tell(14, SERVICE_EVENT_ENDED, 0);
    pass(f, ARMED_DELAY_MIN);
    // A reload resets the delay, too, and starts the session at once.
    tell(15, SERVICE_EVENT_ENDED, 0);
    assert_int_equal(n_live(), 0);
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
}

static void test_failures_are_reported_once(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    fake.enable_result = -EEXIST;
    arm(f);
    pass(f, ARMED_DELAY_MIN);
    pass(f, 2 * ARMED_DELAY_MIN);
    assert_string_equal(
        f->said.text,
        "armed/one.cfg: not armed yet, mmtrace tries again later: no more of these\n");
    fake.enable_result = 0;
    fake.start_result = -EIO;
    strbuf_clear(&f->said);
    pass(f, 4 * ARMED_DELAY_MIN);
    pass(f, 8 * ARMED_DELAY_MIN);
    assert_string_equal(
        f->said.text, "armed/one.cfg: not armed yet, mmtrace tries again later: will not start\n");
    assert_int_equal(n_live(), 0);
    fake.start_result = 0;
    pass(f, 16 * ARMED_DELAY_MIN);
    assert_int_equal(n_live(), 1);
    assert_int_equal(count_files(f->output, NULL), 0);
}

static void test_wrong_config_is_left_alone(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "bad.cfg", "buffers { size_kb: nothing }");
    put(f->configs, "good.cfg", CONFIG);
    put(f->configs, "notes.txt", "not a config");
    put(f->configs, ".cfg", "nor this");
    put(f->configs, "unknown.cfg",
        "buffers { size_kb: 64 } data_sources { config { name: \"x\" } }");
    char path[256];
    snprintf(path, sizeof(path), "%s/pipe.cfg", f->configs);
    assert_int_equal(mkfifo(path, 0600), 0);
    arm(f);
    struct armed_counts counts;
    armed_get_counts(f->armed, &counts);
    assert_int_equal(counts.configs, 4);
    assert_int_equal(counts.live, n_live());
    assert_non_null(strstr(f->said.text, "armed/bad.cfg: left alone until it changes: bad.cfg:1:"));
    assert_non_null(
        strstr(f->said.text, "armed/pipe.cfg: left alone until it changes: not a file"));
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    size_t live = n_live();
    put(f->configs, "bad.cfg", CONFIG);
    armed_reload(f->armed);
    pass(f, 0);
    assert_int_equal(n_live(), live + 1);
}

static void test_configs_change_and_go(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    put(f->configs, "two.cfg", CONFIG);
    arm(f);
    assert_int_equal(n_live(), 2);
    // The old session writes its data before it ends. The new session waits for this end.
    put(f->configs, "one.cfg", CONFIG "unique_session_name: \"x\"\n");
    armed_reload(f->armed);
    assert_int_equal(fake.n, 2);
    uint64_t one = str_eq(fake.sessions[0].consumer->name, "armed/one.cfg") ? 1 : 2;
    record(one, "trace");
    tell(one, SERVICE_EVENT_ENDED, 0);
    pass(f, 0); // read again
    assert_int_equal(fake.n, 2);
    pass(f, 0); // and armed
    assert_int_equal(fake.n, 3);
    assert_int_equal(count_files(f->output, NULL), 1);
    fake.ends_at_once = true;
    drop(f->configs, "two.cfg");
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
    struct armed_counts counts;
    armed_get_counts(f->armed, &counts);
    assert_int_equal(counts.configs, 1);
    assert_int_equal(counts.files, 1);
}

static void note_done(void *userdata)
{
    ++*(unsigned *)userdata;
}

static void test_end(void **state)
{
    struct fixture *f = *state;
    unsigned n_done = 0;
    put(f->configs, "one.cfg", CONFIG);
    put(f->configs, "two.cfg", CONFIG);
    put(f->configs, "bad.cfg", "nonsense");
    arm(f);
    armed_end(f->armed, note_done, &n_done);
    assert_int_equal(n_done, 0);
    tell(1, SERVICE_EVENT_ENDED, 0);
    pass(f, 0);
    assert_int_equal(n_done, 0);
    record(2, "last words");
    tell(2, SERVICE_EVENT_ENDED, 0);
    pass(f, 0);
    assert_int_equal(n_done, 1);
    assert_int_equal(fake.n, 2);
    assert_int_equal(count_files(f->output, NULL), 1);
}

static void test_places(void **state)
{
    struct fixture *f = *state;
    char vendor[128], file[160], nowhere[128];
    snprintf(vendor, sizeof(vendor), "%s/vendor", f->root);
    snprintf(file, sizeof(file), "%s/one.cfg", vendor);
    snprintf(nowhere, sizeof(nowhere), "%s/nowhere", f->root);
    assert_int_equal(mkdir(vendor, 0700), 0);
    f->places[0] = (struct armed_place){.path = file, .optional = true};
    f->places[1] = (struct armed_place){.path = nowhere, .optional = true};
    f->places[2] = (struct armed_place){.path = f->configs};
    f->n_places = 3;
    put(f->configs, "one.cfg", CONFIG);
    put(vendor, "two.cfg", CONFIG); // places[0] names one.cfg only
    arm(f);
    fake.ends_at_once = true;
    assert_int_equal(n_live(), 1);
    strbuf_clear(&f->said);
    // A config of the vendor replaces our config of the same name. Our config returns when the
    // vendor's goes.
    put(vendor, "one.cfg", "not a config");
    armed_reload(f->armed);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 0);
    assert_non_null(strstr(f->said.text, "armed/one.cfg: left alone"));
    drop(vendor, "one.cfg");
    armed_reload(f->armed);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 1);
    // An error names a missing place that is not optional.
    drop(f->configs, "one.cfg");
    rmdir(f->configs);
    strbuf_clear(&f->said);
    armed_reload(f->armed);
    assert_non_null(strstr(f->said.text, "/nowhere, "));
    assert_non_null(strstr(f->said.text, "cannot be read: No such file"));
}

// Takes all descriptors but `n_left`; give_back() releases them.
static int hoard[1024];
static size_t n_hoarded;

static void take_descriptors(size_t n_left)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        assert_true(n_hoarded < 1024);
        hoard[n_hoarded++] = fd;
    }
    assert_int_equal(errno, EMFILE);
    while (n_left-- > 0)
        close(hoard[--n_hoarded]);
}

static void give_back(void)
{
    while (n_hoarded > 0)
        close(hoard[--n_hoarded]);
}

static void test_shortage_loses_no_config(void **state)
{
    struct fixture *f = *state;
    struct rlimit limit, before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    assert_int_equal(n_live(), 1);
    // The folder cannot be read.
    put(f->configs, "two.cfg", CONFIG);
    take_descriptors(0);
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
    assert_non_null(strstr(f->said.text, "cannot be read: "));
    // The folder can be read, but not the config in it.
    give_back();
    take_descriptors(1);
    pass(f, 60 * NSEC_PER_SEC);
    assert_int_equal(n_live(), 1);
    assert_non_null(
        strstr(f->said.text, "armed/two.cfg: not armed yet, mmtrace tries again later: config"));
    // The config can be read now, but there is nothing left for its file.
    pass(f, NSEC_PER_SEC);
    pass(f, 0);
    assert_int_equal(n_live(), 1);
    give_back();
    pass(f, NSEC_PER_SEC);
    assert_int_equal(n_live(), 2);
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_folder_goes_and_comes(void **state)
{
    struct fixture *f = *state;
    fake.ends_at_once = true;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    drop(f->configs, "one.cfg");
    assert_int_equal(rmdir(f->configs), 0);
    armed_reload(f->armed);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 0);
    assert_int_equal(mkdir(f->configs, 0700), 0);
    put(f->configs, "one.cfg", CONFIG);
    pass(f, 60 * NSEC_PER_SEC);
    assert_int_equal(n_live(), 1);
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_armed_again_and_again),
        TEST(test_losses_are_reported),
        TEST(test_back_off),
        TEST(test_failures_are_reported_once),
        TEST(test_wrong_config_is_left_alone),
        TEST(test_configs_change_and_go),
        TEST(test_end),
        TEST(test_places),
        TEST(test_shortage_loses_no_config),
        TEST(test_folder_goes_and_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
