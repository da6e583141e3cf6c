// SPDX-License-Identifier: Apache-2.0
//
// The options and the log of the agent in a JVM.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/elements.h"
#include "producer/agents/jvm/sample_log.h"
#include "producer/heap/agent_options.h"

static char folder[] = "/tmp/java_log_XXXXXX";
static char path[64];
static char text_of_file[4096];

static const char *file_text(void)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text_of_file, sizeof(text_of_file) - 1);
    assert_true(n >= 0);
    text_of_file[n] = '\0';
    close(fd);
    return text_of_file;
}

static size_t name(void *userdata, const struct sample_frame *frame, char *text, size_t size)
{
    ++*(int *)userdata;
    return (size_t)snprintf(text, size, "m%d\n()V", (int)frame->method);
}

static uint64_t intern(struct sample_log *log, const char *text)
{
    char copy[64];
    strcpy(copy, text);
    return sample_log_intern(log, copy, strlen(copy));
}

// Logs live as long as the process: a log that is kept here is not a leak.
static struct sample_log *opened[4];
static size_t n_opened;

static struct sample_log *log_open(void)
{
    struct sample_log *log;
    assert_int_equal(sample_log_open(path, &log), 0);
    assert_true(n_opened < ELEMENTS(opened));
    return opened[n_opened++] = log;
}

static void lines_are_as_documented(void **state)
{
    struct sample_log *log;
    int n_named = 0;
    uint64_t key;
    (void)state;
    log = log_open();
    struct sample sample = {.thread = intern(log, "main\nloop"),
                            .type = intern(log, "[I file: <UNKNOWN_FILE>"),
                            .size_bytes = 24,
                            .n_frames = 2,
                            .frames = {{7, 0}, {8, 0}}};
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), 0);
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), 0);
    sample.frames[0].method = 9;
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), 0);
    sample.n_frames = 0;
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), 0);
    assert_int_equal(n_named, 3);
    assert_string_equal(file_text(), "");
    sample_log_close(log);
    assert_string_equal(file_text(),
                        "+0,jthread[main?loop], jclass[[I file: <UNKNOWN_FILE>], size[24, hex: "
                        "0x18]\n+1,m7?()V\n+2,m8?()V\n=3,0;2;1\n3\n3\n+4,m9?()V\n=5,0;2;4\n5\n"
                        "=6,0\n6\n");
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), -EIO);
    // A callback after the end of the log keeps nothing.
    assert_false(sample_log_knows(log, sample.thread));
    assert_int_equal(intern(log, "late"), 0);
}

// This test runs last, because the limit on file sizes stays.
static void full_disk_leaves_whole_lines(void **state)
{
    struct sample_log *log;
    int n_named = 0;
    uint64_t key;
    (void)state;
    log = log_open();
    struct sample sample = {.thread = intern(log, "main"), .type = intern(log, "I"), .n_frames = 1};
    for (int i = 0; i < 40; i++) {
        sample.frames[0].method = (uint64_t)i;
        assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), 0);
    }
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){333, 333});
    assert_false(sample_log_flush(log));
    const char *text = file_text();
    assert_in_range(strlen(text), 300, 333);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), -EIO);
    sample_log_close(log);
}

static void places_of_others_are_refused(void **state)
{
    struct sample_log *log;
    char other[80];
    (void)state;
    snprintf(other, sizeof(other), "%s/other", folder);
    assert_int_equal(symlink("/dev/null", other), 0);
    assert_int_equal(sample_log_open(other, &log), -ELOOP);
    unlink(other);
    log = log_open();
    sample_log_close(log);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(sample_log_open(other, &log), -EINVAL);
    unlink(other);
    assert_int_equal(sample_log_open("/dev/null", &log), -EINVAL);
    assert_int_equal(sample_log_open("/nonexistent/log", &log), -ENOENT);
}

static void names_without_end_are_forgotten(void **state)
{
    struct sample_log *log;
    int n_named = 0;
    uint64_t key, first_key;
    char text[32];
    (void)state;
    log = log_open();
    uint64_t old = intern(log, "main");
    struct sample sample = {.thread = old,
                            .type = intern(log, "La; file: a"),
                            .n_frames = 1,
                            .frames = {{.method = 1}}};
    struct sample again = sample;
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &first_key), 0);
    for (int i = 0; sample_log_knows(log, old); i++) {
        assert_true(i < 1000000);
        snprintf(text, sizeof(text), "Lb%d; file: b", i);
        sample.type = intern(log, text);
        assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), 0);
    }
    assert_int_equal(n_named, 1);
    sample.size_bytes = 1; // a new stack
    assert_int_equal(sample_log_add(log, &sample, name, &n_named, &key), -ESTALE);
    again.thread = intern(log, "main");
    again.type = intern(log, "La; file: a");
    assert_true(again.thread > old && sample_log_knows(log, again.thread));
    assert_int_equal(sample_log_add(log, &again, name, &n_named, &key), 0);
    assert_true(key > first_key);
    assert_int_equal(n_named, 2);
    sample_log_close(log);
}

static void options_go_by_place_or_name(void **state)
{
    struct agent_options o;
    char why[256];
    (void)state;
    assert_int_equal(agent_options_parse(NULL, 12, &o, why, sizeof(why)), 0);
    assert_int_equal(o.sample_rate, 10);
    assert_int_equal(o.depth_limit, 50);
    assert_string_equal(o.log_path, "/tmp/tiallocsample.12.log");
    assert_int_equal(agent_options_parse("100,20,/x/y.log", 1, &o, why, sizeof(why)), 0);
    assert_int_equal(o.sample_rate, 100);
    assert_int_equal(o.depth_limit, 20);
    assert_string_equal(o.log_path, "/x/y.log");
    assert_int_equal(agent_options_parse("bytes=512k,,7,lines,perfmap", 1, &o, why, sizeof(why)),
                     0);
    assert_int_equal(o.sample_rate, 10);
    assert_int_equal(o.depth_limit, 7);
    assert_int_equal(o.bytes, 512 * 1024);
    assert_true(o.lines && o.perf_map && !o.short_names);
    assert_int_equal(o.perf_map_max_bytes, AGENT_PERF_MAP_MAX);
    assert_int_equal(agent_options_parse("1,perfmap=3g", 1, &o, why, sizeof(why)), 0);
    assert_true(o.perf_map && o.perf_map_max_bytes == (uint64_t)3 << 30);
}

static void wrong_options_are_named(void **state)
{
    static const char *const wrong[] = {
        "0",           "x",      "-1",       "10,513",     "10,5k",           "bytes=0",
        "bytes=4096m", "bytes=", "10,5,a,b", "4294967296", "10,50,a,lines=1", "perfmap=",
        "perfmap=0"};
    struct agent_options o;
    char why[256];
    (void)state;
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        assert_int_equal(agent_options_parse(wrong[i], 1, &o, why, sizeof(why)), -EINVAL);
        assert_non_null(strstr(why, "is not an option here"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_go_by_place_or_name),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(lines_are_as_documented),
        cmocka_unit_test(names_without_end_are_forgotten),
        cmocka_unit_test(places_of_others_are_refused),
        cmocka_unit_test(full_disk_leaves_whole_lines),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof(path), "%s/log", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
