// SPDX-License-Identifier: Apache-2.0
//
// The choice of the files of a folder that count as finished traces.
#include "producer/service/armed/trace_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define HOUR (3600 * NSEC_PER_SEC)
#define NOW  (1000000 * NSEC_PER_SEC)

static char scratch[64];

static const char *in_scratch(const char *name)
{
    static char paths[4][160];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", scratch, name);
    return path;
}

// Makes a file of `bytes` bytes that was written `age` before NOW.
static void put(const char *name, off_t bytes, nsec_t age)
{
    FILE *file = fopen(in_scratch(name), "we");
    struct timespec times[2] = {{.tv_sec = (NOW - age) / NSEC_PER_SEC},
                                {.tv_sec = (NOW - age) / NSEC_PER_SEC}};
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), bytes), 0);
    assert_int_equal(futimens(fileno(file), times), 0);
    fclose(file);
}

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/mmtrace-test-XXXXXX");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", scratch);
    return system(command);
}

// Returns the names that are found, with blanks between them.
static const char *found(const struct trace_history_folder *folders, size_t n,
                         const struct trace_history_limits *limits, struct trace_history *history)
{
    static char names[1024];
    names[0] = '\0';
    assert_int_equal(trace_history_find(folders, n, limits, NOW, history), 0);
    vec_foreach(&history->traces, trace) {
        struct stat st;
        assert_int_equal(fstat(trace->fd, &st), 0);
        assert_int_equal(st.st_size, trace->bytes);
        strcat(names, *names ? " " : "");
        strcat(names, strrchr(trace->path, '/') + 1);
    }
    return names;
}

static const struct trace_history_limits wide = {.age = 24 * HOUR, .bytes = 1 << 20, .files = 40};

static void test_newest_first(void **state)
{
    struct trace_history_folder folder = {.path = scratch};
    struct trace_history history;
    (void)state;
    put("b.pftrace", 10, 2 * HOUR);
    put("a.pftrace", 10, HOUR);
    put("old.pftrace", 10, 25 * HOUR);
    put("older.pftrace", 10, 30 * HOUR);
    put("c.pftrace", 10, 24 * HOUR);
    put("future.pftrace", 10, -HOUR);
    put("empty.pftrace", 0, HOUR);
    put("a.pftrace.part", 10, HOUR);
    put(".hidden.pftrace", 10, HOUR);
    put("text", 10, HOUR);
    assert_string_equal(found(&folder, 1, &wide, &history),
                        "future.pftrace a.pftrace b.pftrace c.pftrace");
    assert_int_equal(history.n_old, 2);
    assert_int_equal(history.newest_old, NOW - 25 * HOUR);
    assert_int_equal(history.n_beyond, 0);
    assert_null(history.problems.text);
    trace_history_done(&history);
}

// A part counts only if the caller asks for parts, and if no daemon writes the part.
static void test_parts(void **state)
{
    struct trace_history_folder folders[] = {{.path = scratch}, {.path = scratch, .stem = "mm"}};
    struct trace_history_limits limits = wide;
    struct trace_history history;
    (void)state;
    put("a.pftrace", 10, HOUR);
    put("mm-20261121T031500Z.pftrace.part", 10, 2 * HOUR);
    put(".mm-20261121T031501Z.pftrace.part", 10, 2 * HOUR);
    assert_string_equal(found(folders, 1, &limits, &history), "a.pftrace");
    assert_int_equal(history.n_unfinished, 1);
    trace_history_done(&history);
    limits.parts = true;
    assert_string_equal(found(folders, 1, &limits, &history),
                        "a.pftrace mm-20261121T031500Z.pftrace.part");
    assert_false(history.traces.items[0].is_part);
    assert_true(history.traces.items[1].is_part);
    trace_history_done(&history);
    assert_string_equal(found(folders + 1, 1, &limits, &history),
                        "mm-20261121T031500Z.pftrace.part");
    trace_history_done(&history);
    FILE *writer = fopen(in_scratch("mm-20261121T031500Z.pftrace.part"), "r+e");
    assert_non_null(writer);
    assert_int_equal(flock(fileno(writer), LOCK_EX | LOCK_NB), 0);
    assert_string_equal(found(folders, 1, &limits, &history), "a.pftrace");
    assert_non_null(
        strstr(history.problems.text, ".part: not read: another process writes into it\n"));
    trace_history_done(&history);
    fclose(writer);
}

static void test_bounds(void **state)
{
    struct trace_history_folder folder = {.path = scratch};
    struct trace_history history;
    (void)state;
    put("1.pftrace", 600, 1 * HOUR);
    put("2.pftrace", 300, 2 * HOUR);
    put("3.pftrace", 300, 3 * HOUR);
    struct trace_history_limits limits = {.age = 24 * HOUR, .bytes = 900, .files = 40};
    assert_string_equal(found(&folder, 1, &limits, &history), "1.pftrace 2.pftrace");
    assert_int_equal(history.n_beyond, 1);
    trace_history_done(&history);
    limits.bytes = 100; // the newest is always there
    assert_string_equal(found(&folder, 1, &limits, &history), "1.pftrace");
    trace_history_done(&history);
    limits = (struct trace_history_limits){.age = 24 * HOUR, .bytes = 9000, .files = 2};
    assert_string_equal(found(&folder, 1, &limits, &history), "1.pftrace 2.pftrace");
    trace_history_done(&history);
    limits.files = 0;
    assert_string_equal(found(&folder, 1, &limits, &history), "");
    assert_int_equal(history.n_beyond, 3);
    trace_history_done(&history);
}

static void test_stems_and_scores(void **state)
{
    struct trace_history_folder folders[] = {
        {.path = scratch, .stem = "mm", .score = 3},
        {.path = scratch},
        {.path = scratch, .stem = "mm", .score = 100},
    };
    struct trace_history history;
    (void)state;
    put("mm-20261121T031500Z.pftrace", 10, HOUR);
    put("mm-20261121T031500Z-2.pftrace", 10, 2 * HOUR);
    put("mm-x.pftrace", 10, 3 * HOUR);
    assert_string_equal(found(folders, 1, &wide, &history),
                        "mm-20261121T031500Z.pftrace mm-20261121T031500Z-2.pftrace");
    trace_history_done(&history);
    assert_string_equal(found(folders, 3, &wide, &history),
                        "mm-20261121T031500Z.pftrace mm-20261121T031500Z-2.pftrace mm-x.pftrace");
    assert_int_equal(history.traces.items[0].score, 100);
    assert_int_equal(history.traces.items[2].score, 0);
    trace_history_done(&history);
}

// A file in a folder where other users can write counts only if it cannot lead to another place.
static void test_links_lead_nowhere(void **state)
{
    struct trace_history_folder folder = {.path = scratch};
    struct trace_history history;
    (void)state;
    put("secret", 10, HOUR);
    put("good.pftrace", 10, HOUR);
    assert_int_equal(symlink("secret", in_scratch("link.pftrace")), 0);
    assert_int_equal(link(in_scratch("secret"), in_scratch("second.pftrace")), 0);
    assert_int_equal(mkdir(in_scratch("folder.pftrace"), 0700), 0);
    assert_int_equal(mkfifo(in_scratch("fifo.pftrace"), 0600), 0);
    assert_string_equal(found(&folder, 1, &wide, &history), "good.pftrace");
    assert_non_null(strstr(history.problems.text, "/link.pftrace: not read: "));
    assert_non_null(strstr(history.problems.text, "/second.pftrace: not read: "));
    assert_non_null(strstr(history.problems.text, "/fifo.pftrace: not read: "));
    trace_history_done(&history);
}

static void test_strangers_files(void **state)
{
    struct trace_history_folder folder = {.path = scratch};
    struct trace_history history;
    (void)state;
    if (geteuid() != 0)
        skip_because("needs root");
    put("root.pftrace", 10, HOUR);
    put("stranger.pftrace", 10, 2 * HOUR);
    assert_int_equal(chown(in_scratch("stranger.pftrace"), 12345, 12345), 0);
    assert_string_equal(found(&folder, 1, &wide, &history), "root.pftrace");
    trace_history_done(&history);
    // The owner of the folder may have any file in the folder.
    assert_int_equal(chown(scratch, 12345, 12345), 0);
    assert_string_equal(found(&folder, 1, &wide, &history), "root.pftrace stranger.pftrace");
    trace_history_done(&history);
}

static void test_folders_that_are_not_there(void **state)
{
    struct trace_history_folder folders[] = {{.path = "/nonexistent/x"},
                                             {.path = "/proc/self/stat"}};
    struct trace_history history;
    (void)state;
    assert_string_equal(found(folders, 1, &wide, &history), "");
    assert_null(history.problems.text);
    trace_history_done(&history);
    assert_string_equal(found(folders, 2, &wide, &history), "");
    assert_string_equal(history.problems.text, "/proc/self/stat: Not a directory\n");
    trace_history_done(&history);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_scratch, remove_scratch)
    const struct CMUnitTest tests[] = {
        TEST(test_newest_first),
        TEST(test_parts),
        TEST(test_bounds),
        TEST(test_stems_and_scores),
        TEST(test_links_lead_nowhere),
        TEST(test_strangers_files),
        TEST(test_folders_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
