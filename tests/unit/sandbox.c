// SPDX-License-Identifier: Apache-2.0
#include "common/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { PASSED, UNSUPPORTED = 77 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define FAILS_WITH(number, call)                                                                   \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == -1 && errno == (number));                                                  \
    } while (0)

// A process cannot leave its sandbox, so each check runs in a child.
static void in_child(void (*check)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        check();
        _exit(PASSED);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == UNSUPPORTED)
        skip_because("the kernel has no such sandbox, or a container forbids it");
    assert_int_equal(WEXITSTATUS(status), PASSED);
}

static void enter(int r)
{
    if (r == -EOPNOTSUPP || r == -EPERM)
        _exit(UNSUPPORTED);
    CHECK(r == 0);
}

static void *thread_run(void *userdata)
{
    return userdata;
}

static void harmless_calls_work(void)
{
    pthread_t thread;
    void *got = NULL;
    int given;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    CHECK(pthread_create(&thread, NULL, thread_run, &given) == 0);
    CHECK(pthread_join(thread, &got) == 0 && got == &given);
    CHECK(raise(SIGCONT) == 0 && kill(getpid(), 0) == 0);
}

static void everybodys_refusals(void)
{
    FAILS_WITH(EPERM, socket(AF_UNIX, SOCK_STREAM, 0));
    FAILS_WITH(EPERM, socket(AF_INET, SOCK_STREAM, 0));
    FAILS_WITH(EPERM, syscall(SYS_unshare, 0));
    FAILS_WITH(EPERM, syscall(SYS_setuid, getuid()));
    FAILS_WITH(EPERM, syscall(SYS_bpf, 0, NULL, 0));
    FAILS_WITH(EPERM, syscall(SYS_keyctl, 0, 0, 0, 0, 0));
    FAILS_WITH(EPERM, syscall(SYS_mount, NULL, NULL, NULL, 0, NULL));
    FAILS_WITH(EPERM, syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0));
    FAILS_WITH(EPERM, syscall(425, 1, NULL));  // io_uring_setup
    FAILS_WITH(ENOSYS, syscall(435, NULL, 0)); // clone3
    FAILS_WITH(EPERM, ioctl(0, TIOCSTI, "x"));
}

static void parser(void)
{
    enter(sandbox_calls(0));
    harmless_calls_work();
    everybodys_refusals();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    FAILS_WITH(EPERM, ptrace(PTRACE_TRACEME, 0, 0, 0));
    FAILS_WITH(EPERM, execl("/bin/true", "true", NULL));
    FAILS_WITH(EPERM, fork());
    FAILS_WITH(EPERM, vfork());
    FAILS_WITH(EPERM, kill(getppid(), 0));
    FAILS_WITH(EPERM, kill(-1, 0));
#endif
}

static void prompt(void)
{
    int status = 1;
    enter(sandbox_calls(SANDBOX_RUNS_PROGRAMS));
    harmless_calls_work();
    everybodys_refusals();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK(kill(pid, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void opens(void)
{
    enter(sandbox_opens());
    FAILS_WITH(EPERM, open("/dev/null", O_RDONLY));
    CHECK(open("/dev/null", O_RDONLY | O_NONBLOCK | O_CLOEXEC) >= 0);
    CHECK(open("/dev/null", O_PATH | O_CLOEXEC) >= 0);
}

static char top[] = "/tmp/mmtrace-sandbox-XXXXXX";

static const char *below(const char *name)
{
    static char paths[4][64];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
    return path;
}

static void file_make(const char *name)
{
    FILE *file = fopen(below(name), "we");
    CHECK(file);
    fclose(file);
}

static void files(void)
{
    char in[64], out[64];
    snprintf(in, sizeof(in), "%s/in", top);
    snprintf(out, sizeof(out), "%s/out", top);
    struct sandbox_paths paths = {0};
    CHECK(sandbox_path_vec_push(&paths.reads, in) == 0 &&
          sandbox_path_vec_push(&paths.reads, "/nonexistent") == 0 &&
          sandbox_path_vec_push(&paths.writes, out) == 0);
    struct rlimit old, none = {0};
    int next = dup(0);
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0 && next >= 0 && close(next) == 0);
    none.rlim_max = old.rlim_max;
    for (none.rlim_cur = (rlim_t)next; none.rlim_cur < (rlim_t)next + 2; none.rlim_cur++) {
        CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
        int r = sandbox_files(&paths);
        CHECK(r == -EMFILE || sandbox_is_unavailable(r));
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    enter(sandbox_files(&paths));
    sandbox_path_vec_done(&paths.reads);
    sandbox_path_vec_done(&paths.writes);
    CHECK(open(below("in"), O_RDONLY | O_CLOEXEC) >= 0);
    FAILS_WITH(EACCES, open(below("in"), O_WRONLY | O_CLOEXEC));
    FAILS_WITH(EACCES, open(below("other"), O_RDONLY | O_CLOEXEC));
    FAILS_WITH(EACCES, open(below("new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    FAILS_WITH(EACCES, unlink(below("other")));
    FAILS_WITH(EACCES, rename(below("other"), below("out/other")));
    CHECK(mkdir(below("out/folder"), 0700) == 0);
    file_make("out/folder/new");
    CHECK(rename(below("out/folder/new"), below("out/new")) == 0);
    CHECK(rmdir(below("out/folder")) == 0 && truncate(below("out/new"), 1) == 0);
    CHECK(unlink(below("out/new")) == 0);
}

static void a_parser_cannot_leave(void **state)
{
    (void)state;
    in_child(parser);
}

static void a_prompt_runs_programs(void **state)
{
    (void)state;
    in_child(prompt);
}

static void opens_never_wait(void **state)
{
    (void)state;
    in_child(opens);
}

static void only_named_files_are_opened(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(top));
    assert_int_equal(mkdir(below("out"), 0700), 0);
    file_make("in");
    file_make("other");
    in_child(files);
    unlink(below("in"));
    unlink(below("other"));
    rmdir(below("out"));
    rmdir(top);
}

static void the_environment_switches_it_off(void **state)
{
    (void)state;
    unsetenv("MMTRACE_SANDBOX");
    assert_true(sandbox_is_wanted());
    setenv("MMTRACE_SANDBOX", "off", 1);
    assert_false(sandbox_is_wanted());
    unsetenv("MMTRACE_SANDBOX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parser_cannot_leave),
        cmocka_unit_test(a_prompt_runs_programs),
        cmocka_unit_test(opens_never_wait),
        cmocka_unit_test(only_named_files_are_opened),
        cmocka_unit_test(the_environment_switches_it_off),
    };
    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
