// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/str.h"
#include "tests/unit/temp_folder.h"

static char root[TEMP_FOLDER_MAX];

static int make(void **state)
{
    (void)state;
    temp_folder_make(root);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    return temp_folder_remove(root);
}

static void put(const char *path, const char *text)
{
    temp_file_write(root, path, text, strlen(text));
}

static struct doctor_finding look(doctor_look_fn check, const char *tracefs)
{
    struct doctor_machine machine = {
        .proc = root, .tracefs = tracefs, .armed_folder = root, .traces_folder = root};
    struct doctor_finding finding = {0};
    check(&machine, &finding);
    assert_string_not_equal(finding.found, "");
    assert_int_equal(finding.is_lack, finding.cost[0] != '\0');
    assert_int_equal(finding.is_lack, finding.mend[0] != '\0');
    return finding;
}

static void pressure_is_read(void **state)
{
    (void)state;
    struct doctor_finding finding = look(doctor_pressure, NULL);
    assert_true(finding.is_lack);
    assert_non_null(strstr(finding.mend, "CONFIG_PSI"));
    put("pressure/memory", "some avg10=1.25 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
    finding = look(doctor_pressure, NULL);
    assert_false(finding.is_lack);
    assert_non_null(strstr(finding.found, "some avg10=1.25"));
    put("pressure/memory", "\x1b[2Jsome\n");
    assert_null(strchr(look(doctor_pressure, NULL).found, '\x1b'));
}

static void tracefs_that_is_not_mounted(void **state)
{
    (void)state;
    put("filesystems", "nodev\tsysfs\nnodev\ttracefs\n\text4\n");
    assert_non_null(strstr(look(doctor_tracefs, NULL).mend, "mount -t tracefs"));
    put("filesystems", "nodev\tsysfs\n\text4\n");
    assert_non_null(strstr(look(doctor_tracefs, NULL).mend, "CONFIG_FTRACE"));
}

static void tracefs_needs_instances_and_events(void **state)
{
    (void)state;
    char path[128];
    assert_non_null(strstr(look(doctor_tracefs, root).mend, "CONFIG_EVENT_TRACING"));
    snprintf(path, sizeof(path), "%s/instances", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(look(doctor_tracefs, root).is_lack);
    snprintf(path, sizeof(path), "%s/events/vmscan", root);
    assert_int_equal(folder_make(path, 0700, NULL), 0);
    assert_false(look(doctor_tracefs, root).is_lack);
}

static void limits_of_perf(void **state)
{
    (void)state;
    assert_false(look(doctor_perf_limits, NULL).is_lack); // unknown
    put("sys/kernel/perf_event_max_sample_rate", "250\n");
    assert_non_null(strstr(look(doctor_perf_limits, NULL).mend, "max_sample_rate"));
    put("sys/kernel/perf_event_max_sample_rate", "100000\n");
    put("sys/kernel/perf_cpu_time_max_percent", "25\n");
    struct doctor_finding finding = look(doctor_perf_limits, NULL);
    assert_false(finding.is_lack);
    assert_non_null(strstr(finding.found, "100000 samples a second, 25 %"));
}

static void addresses_of_the_kernel(void **state)
{
    (void)state;
    put("kallsyms", "0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n");
    assert_true(look(doctor_symbols, NULL).is_lack);
    put("sys/kernel/kptr_restrict", "2\n");
    assert_non_null(strstr(look(doctor_symbols, NULL).mend, "kptr_restrict=1"));
    put("kallsyms", "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n");
    assert_false(look(doctor_symbols, NULL).is_lack);
}

static void filter_that_is_not_there(void **state)
{
    (void)state;
    put("self/status", "Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n");
    assert_non_null(strstr(look(doctor_seccomp, NULL).found, "no filter"));
}

static void each_cost_of_a_missing_right_is_denied(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    put("self/uid_map", "0 0 4294967295\n");
    put("self/status", "CapEff:\t000001fffeffffff\n"); // without SYS_RESOURCE
    struct doctor_finding finding = look(doctor_rights, NULL);
    assert_string_equal(finding.cost,
                        "no thresholds of pressure over less than 2 s, and no protection from the "
                        "OOM killer");
    put("self/status", "CapEff:\t000001ffffffbfff\n"); // without IPC_LOCK
    assert_string_equal(look(doctor_rights, NULL).cost, "no locked memory");
    put("self/status", "CapEff:\t0000000000000000\n");
    assert_true(str_ends_with(look(doctor_rights, NULL).cost,
                              ", no protection from the OOM killer, and no names of kernel "
                              "functions"));
}

static void armed_configs_are_checked(void **state)
{
    (void)state;
    struct doctor_finding finding = look(doctor_armed, NULL);
    assert_true(finding.is_lack);
    assert_non_null(strstr(finding.found, "0 in "));
    put("good.cfg", "buffers { size_kb: 64 }\ndata_sources { config { name: "
                    "\"linux.sys_stats\" sys_stats_config { vmstat_period_ms: 100 } } }\n");
    put("not-a-config.txt", "nonsense");
    assert_non_null(strstr(look(doctor_armed, NULL).found, "1 in "));
    put("bad.cfg", "buffers { size_kbb: 64 }\n");
    finding = look(doctor_armed, NULL);
    assert_true(finding.is_lack);
    assert_non_null(strstr(finding.found, "1 armed, 1 wrong: bad.cfg:1:11: unknown field"));
    assert_true(str_ends_with(finding.mend, "/bad.cfg"));
    assert_null(strchr(finding.found, '\n'));
}

static void disk_of_a_folder_that_is_not_there_yet(void **state)
{
    (void)state;
    char path[128];
    struct doctor_machine machine = {.proc = root, .traces_folder = path};
    struct doctor_finding finding = {0};
    snprintf(path, sizeof(path), "%s/one/two", root);
    doctor_disk(&machine, &finding);
    assert_non_null(strstr(finding.found, root));
    assert_null(strstr(finding.found, "/one"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pressure_is_read, make, unmake),
        cmocka_unit_test_setup_teardown(tracefs_that_is_not_mounted, make, unmake),
        cmocka_unit_test_setup_teardown(tracefs_needs_instances_and_events, make, unmake),
        cmocka_unit_test_setup_teardown(limits_of_perf, make, unmake),
        cmocka_unit_test_setup_teardown(addresses_of_the_kernel, make, unmake),
        cmocka_unit_test_setup_teardown(filter_that_is_not_there, make, unmake),
        cmocka_unit_test_setup_teardown(each_cost_of_a_missing_right_is_denied, make, unmake),
        cmocka_unit_test_setup_teardown(armed_configs_are_checked, make, unmake),
        cmocka_unit_test_setup_teardown(disk_of_a_folder_that_is_not_there_yet, make, unmake),
    };
    return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
