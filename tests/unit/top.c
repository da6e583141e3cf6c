// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/top.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/unit/temp_folder.h"

static char root[TEMP_FOLDER_MAX];
static struct top_line lines[TOP_ROWS_MAX];

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

static void put_process(int pid, const char *name, unsigned long start, unsigned long rss)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "%d/stat", pid);
    snprintf(text, sizeof(text),
             "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %lu 1000000 %lu 0 0\n", pid, name,
             start, rss);
    put(path, text);
}

static const char *line_with(size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(lines[i].text, text))
            return lines[i].text;
    return NULL;
}

static struct top_sampler open_here(void)
{
    struct top_sampler sampler = {.proc = root, .cgroups = root};
    assert_int_equal(top_sampler_open(&sampler, NULL, 0, false, NULL), 0);
    return sampler;
}

static void rates_are_of_the_time_between(void **state)
{
    (void)state;
    struct top_sampler sampler = open_here();
    put("vmstat", "pgscan_direct 100\npgfault 5\n");
    put("pressure/memory", "some avg10=1.50 avg60=0.00 avg300=0.00 total=1000000\n"
                           "full avg10=0.25 avg60=0.00 avg300=0.00 total=500\n");
    put("meminfo", "MemTotal: 2048 kB\nMemFree: 1024 kB\n");
    top_sample(&sampler);
    assert_false(sampler.has_rates);
    assert_true(sampler.some_avg10 == 1.5 && sampler.full_avg10 == 0.25);
    assert_int_equal(sampler.total_kb, 2048);
    put("vmstat", "pgscan_direct 300\npgfault 5\n");
    put("pressure/memory", "some avg10=1.50 avg60=0.00 avg300=0.00 total=1100000\n"
                           "full avg10=0.25 avg60=0.00 avg300=0.00 total=500\n");
    sampler.at -= NSEC_PER_SEC; // the first sample is a second old
    top_sample(&sampler);
    double seconds = (double)(sampler.at - sampler.before) / 1e9;
    assert_true(seconds >= 1);
    assert_true(sampler.rates[TOP_SCAN_DIRECT] * seconds > 199.9);
    assert_true(sampler.rates[TOP_SCAN_DIRECT] * seconds < 200.1);
    assert_true(sampler.some * seconds > 0.0999 && sampler.some * seconds < 0.1001);
    assert_true(sampler.full == 0 && sampler.rates[TOP_FAULT] == 0);
    top_sampler_done(&sampler);
}

// Asserts that `pages` were scanned and a quarter of them freed since the sample before.
static void assert_reclaim(struct top_sampler *sampler, double pages)
{
    double seconds = (double)(sampler->at - sampler->before) / 1e9;
    assert_float_equal(sampler->rates[TOP_SCAN] * seconds, pages, 0.1);
    assert_float_equal(sampler->rates[TOP_STEAL] * seconds, pages / 4, 0.1);
}

// Reclaim in a memory cgroup is not in the counters of kswapd and of tasks. Old kernels have these
// counters alone.
static void all_reclaim_counts(void **state)
{
    (void)state;
    struct top_sampler sampler = open_here();
    put("vmstat", "pgsteal_kswapd 50\npgsteal_direct 5\npgsteal_khugepaged 1\n"
                  "pgscan_kswapd 100\npgscan_direct 7\npgscan_direct_throttle 3\n"
                  "pgscan_anon 10\npgscan_file 1000\npgsteal_anon 0\npgsteal_file 100\n");
    top_sample(&sampler);
    put("vmstat", "pgsteal_kswapd 50\npgsteal_direct 5\npgsteal_khugepaged 1\n"
                  "pgscan_kswapd 100\npgscan_direct 7\npgscan_direct_throttle 9\n"
                  "pgscan_anon 50\npgscan_file 1360\npgsteal_anon 20\npgsteal_file 180\n");
    sampler.at -= NSEC_PER_SEC;
    top_sample(&sampler);
    assert_reclaim(&sampler, 400);
    assert_true(sampler.rates[TOP_SCAN_DIRECT] == 0);
    const char *line = NULL;
    size_t n = top_view_lines(&sampler, &(struct top_view){0}, 24, 80, lines);
    assert_non_null(line = line_with(n, "Pages/s"));
    assert_null(strstr(line, "scanned 0"));
    assert_non_null(strstr(line, "(0 direct), freed "));
    top_sampler_done(&sampler);

    sampler = open_here();
    put("vmstat", "pgsteal_kswapd 50\npgsteal_direct 5\npgscan_kswapd 100\npgscan_direct 7\n");
    top_sample(&sampler);
    put("vmstat", "pgsteal_kswapd 100\npgsteal_direct 55\npgscan_kswapd 400\npgscan_direct 107\n");
    sampler.at -= NSEC_PER_SEC;
    top_sample(&sampler);
    assert_reclaim(&sampler, 400);
    assert_true(sampler.rates[TOP_SCAN_DIRECT] > 0);
    top_sampler_done(&sampler);
}

static void processes_by_size_and_growth(void **state)
{
    (void)state;
    struct top_sampler sampler = open_here();
    put_process(10, "big", 1, 5000);
    put_process(11, "growing", 1, 100);
    put_process(12, "reused", 1, 100);
    put_process(13, "kernel", 1, 0);
    top_sample(&sampler);
    put_process(11, "growing", 1, 1100);
    put_process(12, "reused", 2, 4000); // another process with the id
    sampler.at -= NSEC_PER_SEC;
    sampler.processes_at -= NSEC_PER_SEC;
    sampler.processes_next = 0;
    top_sample(&sampler);
    assert_int_equal(sampler.processes.n, 3);
    struct top_view view = {.sort = TOP_BY_SIZE};
    size_t n = top_view_lines(&sampler, &view, 24, 80, lines);
    assert_true(line_with(n, "big") < line_with(n, "reused"));
    assert_true(line_with(n, "reused") < line_with(n, "growing"));
    assert_non_null(strstr(line_with(n, "growing"), "+"));
    assert_null(strstr(line_with(n, "reused"), "+"));
    view.sort = TOP_BY_GROWTH;
    n = top_view_lines(&sampler, &view, 24, 80, lines);
    assert_true(line_with(n, "growing") < line_with(n, "big"));
    top_sampler_done(&sampler);
}

// Names of other users' tasks bring no control sequence to the terminal, and no field to a wrong
// place.
static void names_are_cleaned(void **state)
{
    (void)state;
    struct top_sampler sampler = open_here();
    put_process(10, "\x1b[2J) S (\x9b\n\xc3", 7, 5000);
    put("evil\x1b]0;x\x07/memory.current", "4096\n");
    top_sample(&sampler);
    assert_int_equal(sampler.processes.n, 1);
    assert_int_equal(sampler.processes.items[0].start, 7);
    size_t n = top_view_lines(&sampler, &(struct top_view){0}, 24, 80, lines);
    assert_non_null(line_with(n, "?[2J) S (???"));
    assert_non_null(line_with(n, "evil?]0;x?"));
    for (size_t i = 0; i < n; i++)
        for (const char *c = lines[i].text; *c; c++)
            assert_true(*c >= ' ' && *c < 0x7f);
    top_sampler_done(&sampler);
}

static void any_size_of_the_terminal_is_kept(void **state)
{
    (void)state;
    struct top_sampler sampler = open_here();
    for (int pid = 100; pid < 400; pid++)
        put_process(pid, "one of many", 1, (unsigned long)pid);
    put("g/memory.current", "1\n");
    top_sample(&sampler);
    for (size_t rows = 0; rows < 300; rows += 7)
        for (size_t columns = 1; columns < 400; columns += 61) {
            size_t n = top_view_lines(&sampler, &(struct top_view){.help = rows % 2}, rows, columns,
                                      lines);
            assert_true(n <= rows && n <= TOP_ROWS_MAX);
            for (size_t i = 0; i < n; i++)
                assert_true(strlen(lines[i].text) <= columns);
        }
    top_sampler_done(&sampler);
}

static void take(struct top_reclaim *reclaim, const char *line)
{
    top_reclaim_line(reclaim, line, strlen(line));
}

static void reclaim_is_summed_up_by_task(void **state)
{
    (void)state;
    struct top_reclaim *reclaim = top_reclaim_new();
    size_t n;
    bool lost;
    take(reclaim,
         "            head-77      [001] .....   100.000001: mm_vmscan_direct_reclaim_begin: "
         "order=0");
    take(reclaim, "   a-9 [0] 1.0: -78      [000] .....   100.000100: mm_compaction_begin: zone=1");
    take(reclaim,
         "            head-77      [001] .....   100.002001: mm_vmscan_direct_reclaim_end: "
         "nr_reclaimed=3");
    take(reclaim, "   a-9 [0] 1.0: -78      [001] .....   101.000100: mm_compaction_end: zone=1");
    take(reclaim, "            tail-79      [001] .....   101.000100: mm_compaction_end: zone=1");
    take(reclaim,
         "            head-77      [001] .....   nonsense: mm_vmscan_direct_reclaim_end: x");
    take(reclaim, "short");
    take(reclaim, "                -");
    take(reclaim, "");
    const struct top_task *tasks = top_reclaim_tasks(reclaim, &n, &lost);
    assert_int_equal(n, 3);
    assert_false(lost);
    assert_string_equal(tasks[0].name, "head");
    assert_int_equal(tasks[0].pid, 77);
    assert_int_equal(tasks[0].n, 1);
    assert_int_equal(tasks[0].took, 2 * NSEC_PER_MSEC);
    assert_string_equal(tasks[1].name, "a-9 [0] 1.0: ");
    assert_int_equal(tasks[1].took, NSEC_PER_SEC);
    assert_int_equal(tasks[2].n, 0); // began before the watch
    // A task has another name after it has executed a program.
    take(reclaim,
         "          viewer-77      [001] .....   102.000001: mm_vmscan_direct_reclaim_begin: "
         "order=0");
    tasks = top_reclaim_tasks(reclaim, &n, &lost);
    assert_int_equal(n, 3);
    assert_string_equal(tasks[0].name, "viewer");
    take(reclaim, "CPU:1 [LOST 12 EVENTS]");
    top_reclaim_tasks(reclaim, &n, &lost);
    assert_true(lost);
    top_reclaim_free(reclaim);
}

static void more_tasks_than_there_is_room_for(void **state)
{
    (void)state;
    struct top_reclaim *reclaim = top_reclaim_new();
    char line[160];
    size_t n;
    bool lost;
    for (int pid = 1; pid < 2 * TOP_TASKS_MAX; pid++)
        for (int end = 0; end < 2; end++) {
            snprintf(line, sizeof(line), "%16s-%-7d [000] ..... %d.%06d: mm_compaction_%s: x", "t",
                     pid, 10, end * (pid == 5 ? 900000 : 10), end ? "end" : "begin");
            take(reclaim, line);
        }
    const struct top_task *tasks = top_reclaim_tasks(reclaim, &n, &lost);
    assert_int_equal(n, TOP_TASKS_MAX);
    bool is_kept = false;
    for (size_t i = 0; i < n; i++)
        is_kept |= tasks[i].pid == 5; // the task that waited longest
    assert_true(is_kept);
    top_reclaim_free(reclaim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rates_are_of_the_time_between, make, unmake),
        cmocka_unit_test_setup_teardown(all_reclaim_counts, make, unmake),
        cmocka_unit_test_setup_teardown(processes_by_size_and_growth, make, unmake),
        cmocka_unit_test_setup_teardown(names_are_cleaned, make, unmake),
        cmocka_unit_test_setup_teardown(any_size_of_the_terminal_is_kept, make, unmake),
        cmocka_unit_test(reclaim_is_summed_up_by_task),
        cmocka_unit_test(more_tasks_than_there_is_room_for),
    };
    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
