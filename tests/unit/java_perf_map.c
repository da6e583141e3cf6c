// SPDX-License-Identifier: Apache-2.0
//
// The perf map that the agent in a JVM writes: what ends it, and how it then looks.
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

#include "producer/agents/jvm/java_perf_map.h"
#include "producer/agents/jvm/line_file.h"

static char path[PERF_MAP_PATH_MAX], times_path[PERF_MAP_PATH_MAX + 8];

static size_t file_read(const char *name, char *text, size_t size)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, size - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
    return (size_t)n;
}

static size_t n_lines(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static struct perf_map *map_open(uint64_t max_bytes)
{
    struct perf_map *map;
    assert_int_equal(perf_map_open(getpid(), max_bytes, &map), 0);
    return map;
}

static void code_add(struct perf_map *map, unsigned int i)
{
    perf_map_add(map, 1000 + i, (const void *)(uintptr_t)(0x10000 + i), 32, "La;::b()V", 9);
}

static void lines_and_their_times(void **state)
{
    char text[256];
    (void)state;
    struct perf_map *map = map_open(1 << 20);
    perf_map_add(map, 7, (const void *)0xabc0, 16, "a\nb", 3);
    perf_map_remove(map, 9, (const void *)0xabc0);
    assert_int_equal(perf_map_flush(map), 0);
    file_read(path, text, sizeof(text));
    assert_string_equal(text, "abc0 10 a?b\n");
    file_read(times_path, text, sizeof(text));
    assert_string_equal(text, "7 abc0 10\n9 abc0\n");
    assert_int_equal(perf_map_close(map), 0);
    code_add(map, 0);
    assert_int_equal(file_read(path, text, sizeof(text)), 12);
    free(map);
}

static void the_limit_leaves_whole_pairs(void **state)
{
    static char text[8192], times[8192];
    (void)state;
    struct perf_map *map = map_open(4096);
    for (unsigned int i = 0; i < 1000; i++)
        code_add(map, i);
    perf_map_remove(map, 5000, (const void *)0x10000);
    assert_int_equal(perf_map_flush(map), PERF_MAP_E_LIMIT);
    assert_int_equal(perf_map_flush(map), PERF_MAP_E_LIMIT);
    size_t n = file_read(path, text, sizeof(text)) + file_read(times_path, times, sizeof(times));
    assert_in_range(n, 4096 - 300, 4096);
    assert_int_equal(n_lines(text), n_lines(times));
    assert_null(strstr(times, "5000"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_int_equal(perf_map_close(map), PERF_MAP_E_LIMIT);
    free(map);
}

// This test runs last, because the limit on file sizes stays.
static void full_disk_ends_it(void **state)
{
    static char text[8192], times[8192];
    (void)state;
    struct perf_map *map = map_open(1 << 20);
    for (unsigned int i = 0; i < 100; i++)
        code_add(map, i);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    assert_int_equal(perf_map_flush(map), -EFBIG);
    code_add(map, 100);
    file_read(path, text, sizeof(text));
    file_read(times_path, times, sizeof(times));
    assert_in_range(strlen(times), 900, 1000);
    assert_in_range(strlen(text), 900, 1000);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_int_equal(times[strlen(times) - 1], '\n');
    assert_int_equal(perf_map_close(map), -EFBIG);
    free(map);
}

static void places_of_others_are_refused(void **state)
{
    struct perf_map *map;
    (void)state;
    unlink(path);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(perf_map_open(getpid(), 4096, &map), -ELOOP);
    unlink(path);
}

static void a_file_with_another_name_keeps_what_it_has(void **state)
{
    char name[sizeof(path) + 8], text[16];
    (void)state;
    snprintf(name, sizeof(name), "%s.other", path);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    unlink(path);
    assert_int_equal(link(name, path), 0);
    assert_int_equal(line_file_take(path), -EINVAL);
    assert_int_equal(file_read(name, text, sizeof(text)), 8);
    unlink(name);
    fd = line_file_take(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(file_read(path, text, sizeof(text)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_their_times),
        cmocka_unit_test(the_limit_leaves_whole_pairs),
        cmocka_unit_test(places_of_others_are_refused),
        cmocka_unit_test(a_file_with_another_name_keeps_what_it_has),
        cmocka_unit_test(full_disk_ends_it),
    };
    perf_map_path(getpid(), path);
    snprintf(times_path, sizeof(times_path), "%s.times", path);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    unlink(times_path);
    return failed;
}
