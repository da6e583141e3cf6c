// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/heap/heap_settings.h"

#include <stdio.h>
#include <string.h>

#include "common/elements.h"
#include "common/pbtext.h"
#include "producer/service/config/config.h"
#include "tests/unit/unit.h"

static struct config config;

static int read_settings(const char *text, struct heap_settings *ret, struct err *err)
{
    char whole[1024];
    snprintf(whole, sizeof(whole),
             "data_sources { config { name: \"android.heapprofd\" heapprofd_config { %s } } }",
             text);
    config_done(&config);
    config = (struct config){0};
    assert_int_equal(config_load("test", whole, strlen(whole), CONFIG_FORMAT_TEXT, &config, err),
                     0);
    return heap_settings_read(config.trace->data_sources[0]->config, ret, err);
}

static void fields_are_taken(void **state)
{
    (void)state;
    struct heap_settings s;
    struct err err = {0};
    assert_int_equal(
        read_settings("sampling_interval_bytes: 512 pid: 7 shmem_size_bytes: 16384 "
                      "block_client: true block_client_timeout_us: 9 "
                      "continuous_dump_config { dump_phase_ms: 5 dump_interval_ms: 20 } "
                      "no_running: true",
                      &s, &err),
        0);
    assert_int_equal(s.ring.interval_bytes, 512);
    assert_int_equal(s.ring.bytes, 16384);
    assert_true(s.ring.block_client);
    assert_int_equal(s.ring.block_timeout_us, 9);
    assert_int_equal(s.dump_phase, 5 * NSEC_PER_MSEC);
    assert_int_equal(s.dump_interval, 20 * NSEC_PER_MSEC);
    assert_true(s.startup);
    assert_false(s.running);
    assert_true(s.children);
    assert_int_equal(read_settings("heaps: \"libc.malloc\" heap_sampling_intervals: 77 all: true "
                                   "no_children: true",
                                   &s, &err),
                     0);
    assert_false(s.children);
    assert_int_equal(s.ring.interval_bytes, 77);
    assert_int_equal(s.ring.bytes, HEAP_RING_BYTES_DEFAULT);
}

static void heaps_are_chosen(void **state)
{
    (void)state;
    struct heap_settings s;
    struct err err = {0};
    assert_int_equal(read_settings("sampling_interval_bytes: 9 all: true", &s, &err), 0);
    assert_int_equal(s.ring.interval_bytes, 9);
    assert_int_equal(s.ring.others_interval_bytes, 0);
    assert_int_equal(s.ring.n_wanted, 0);
    assert_int_equal(read_settings("heaps: \"a\" heaps: \"b\" heap_sampling_intervals: 5 "
                                   "heap_sampling_intervals: 6 all: true",
                                   &s, &err),
                     0);
    assert_int_equal(s.ring.interval_bytes, 0);
    assert_int_equal(s.ring.others_interval_bytes, 0);
    assert_int_equal(s.ring.n_wanted, 2);
    assert_string_equal(s.ring.wanted[1].name, "b");
    assert_int_equal(s.ring.wanted[1].interval_bytes, 6);
    assert_int_equal(read_settings("sampling_interval_bytes: 9 all_heaps: true all: true "
                                   "exclude_heaps: \"a\" exclude_heaps: \"libc.malloc\"",
                                   &s, &err),
                     0);
    assert_int_equal(s.ring.interval_bytes, 0);
    assert_int_equal(s.ring.others_interval_bytes, 9);
    assert_int_equal(s.ring.n_wanted, 1);
    assert_int_equal(s.ring.wanted[0].interval_bytes, 0);
}

static void only_vms_have_the_java_heap(void **state)
{
    (void)state;
    struct heap_settings s;
    struct err err = {0};
    assert_int_equal(read_settings("sampling_interval_bytes: 9 all: true", &s, &err), 0);
    assert_true(s.native && !s.java_named);
    assert_int_equal(s.java_interval_bytes, 0);
    assert_int_equal(
        read_settings("heaps: \"com.android.art\" heap_sampling_intervals: 5 all: true", &s, &err),
        0);
    assert_true(!s.native && s.java_named);
    assert_int_equal(s.java_interval_bytes, 5);
    assert_int_equal(s.ring.n_wanted, 0);
    assert_int_equal(
        read_settings("sampling_interval_bytes: 9 all: true heaps: \"com.android.art\" "
                      "heaps: \"a\"",
                      &s, &err),
        0);
    assert_true(s.native && s.java_named);
    assert_int_equal(s.ring.n_wanted, 1);
    assert_string_equal(s.ring.wanted[0].name, "a");
    // all_heaps includes the Java heap of VMs that ask for a profile themselves, but does not make
    // the recorder attach to running VMs.
    assert_int_equal(
        read_settings("sampling_interval_bytes: 9 all_heaps: true all: true", &s, &err), 0);
    assert_true(s.native && !s.java_named);
    assert_int_equal(s.java_interval_bytes, 9);
    assert_int_equal(read_settings("sampling_interval_bytes: 9 all_heaps: true all: true "
                                   "exclude_heaps: \"com.android.art\"",
                                   &s, &err),
                     0);
    assert_int_equal(s.java_interval_bytes, 0);
}

static void settings_without_effect_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "all: true",
        "sampling_interval_bytes: 1",
        "sampling_interval_bytes: 1 all: true stream_allocations: true",
        "sampling_interval_bytes: 1 all: true target_installed_by: \"@system\"",
        "sampling_interval_bytes: 1 all: true heaps: \"\"",
        "sampling_interval_bytes: 1 all: true heaps: "
        "\"a-name-that-is-longer-than-those-of-heaps-may"
        "-be-which-is-63-characters\"",
        "heaps: \"a\" heap_sampling_intervals: 0 all: true",
        "heaps: \"a\" heap_sampling_intervals: 1 all_heaps: true all: true",
        "sampling_interval_bytes: 1 all: true heaps: \"libc.malloc\" heap_sampling_intervals: 1 "
        "heap_sampling_intervals: 2",
        "sampling_interval_bytes: 1 all: true shmem_size_bytes: 12345",
        "sampling_interval_bytes: 1 all: true shmem_size_bytes: 4096",
        "sampling_interval_bytes: 1 all: true block_client_timeout_us: 4",
        "sampling_interval_bytes: 1 all: true no_startup: true no_running: true",
        "sampling_interval_bytes: 1 all: true dump_at_max: true "
        "continuous_dump_config { dump_interval_ms: 20 }",
        "sampling_interval_bytes: 1 process_cmdline: \"\"",
    };
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct heap_settings s;
        struct err err = {0};
        assert_true(read_settings(texts[i], &s, &err) < 0);
        assert_true(strlen(err.text) > 10);
    }
}

static void programs_are_matched(void **state)
{
    (void)state;
    struct heap_settings s;
    struct err err = {0};
    const char *text = "sampling_interval_bytes: 1 pid: 42 process_cmdline: \"/usr/bin/git\" "
                       "process_cmdline: \"py*\" process_cmdline: \"/opt/*/server\" "
                       "process_cmdline: \"hal@1.0\" skip_symbol_prefix: \"/usr/lib/\"";
    assert_int_equal(read_settings(text, &s, &err), 0);
    assert_true(heap_settings_match(&s, 42, "anything"));
    assert_true(heap_settings_match(&s, 1, "git"));
    assert_true(heap_settings_match(&s, 1, "/bin/git"));
    assert_false(heap_settings_match(&s, 1, "git-remote"));
    assert_true(heap_settings_match(&s, 1, "/usr/bin/python3"));
    assert_false(heap_settings_match(&s, 1, "ipython"));
    assert_true(heap_settings_match(&s, 1, "/opt/x/y/server"));
    assert_false(heap_settings_match(&s, 1, "/srv/x/server"));
    assert_true(heap_settings_match(&s, 1, "/vendor/hal@2.0-service"));
    assert_false(heap_settings_match(&s, 1, ""));
    assert_true(heap_settings_skip_names(&s, "/usr/lib/libc.so"));
    assert_false(heap_settings_skip_names(&s, "/lib/libc.so"));
}

static int done(void **state)
{
    (void)state;
    config_done(&config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_taken),
        cmocka_unit_test(heaps_are_chosen),
        cmocka_unit_test(only_vms_have_the_java_heap),
        cmocka_unit_test(settings_without_effect_are_refused),
        cmocka_unit_test(programs_are_matched),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}
