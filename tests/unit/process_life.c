// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/process_life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static char root[] = "/tmp/process_life.XXXXXX";

static struct process_life life_of(const char *stat)
{
    char path[64];
    struct process_life life;
    snprintf(path, sizeof(path), "%s/7/stat", root);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(stat, file);
    fclose(file);
    assert_true(process_life_read(root, 7, &life));
    return life;
}

static void stat_is_parsed(void **state)
{
    (void)state;
    char path[64];
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/7", root);
    assert_int_equal(mkdir(path, 0700), 0);
    struct process_life life =
        life_of("7 (a) Z 1 (b) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 777 0");
    assert_int_equal(life.start_ticks, 777);
    assert_false(life.ended);
    // A zombie, and a process that still closes its files before it becomes one.
    assert_true(life_of("7 (b) Z 1 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 777 0").ended);
    assert_true(life_of("7 (b) R 1 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 0 0 777 0").ended);
    // The main thread has ended, two others have not.
    assert_false(life_of("7 (b) Z 1 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 3 0 777 0").ended);
    assert_false(process_life_read(root, 8, &life));
    FILE *file = fopen(strcat(path, "/stat"), "we");
    assert_non_null(file);
    fputs("7 (b) Z 1 1", file);
    fclose(file);
    assert_false(process_life_read(root, 7, &life));
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    rmdir(root);
}

static void a_real_process_is_read(void **state)
{
    (void)state;
    struct process_life life, child;
    siginfo_t info;
    assert_true(process_life_read("/proc", getpid(), &life));
    assert_true(life.start_ticks > 0);
    assert_false(life.ended);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_life_read("/proc", pid, &child));
    assert_true(child.ended);
    assert_true(child.start_ticks >= life.start_ticks);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(process_life_read("/proc", pid, &child));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_is_parsed),
        cmocka_unit_test(a_real_process_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
