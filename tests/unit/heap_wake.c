// SPDX-License-Identifier: Apache-2.0
//
// The recorder's side of a summons. The children have the mapping of a dormant program (a mark),
// and never connect.
#include "producer/sources/heap/heap_wake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/foreign/process_file.h"
#include "producer/ground/loop.h"
#include "producer/heap/heap_abi.h"
#include "producer/sources/heap/wake_job.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/unit.h"

static void take_nothing(int number)
{
    (void)number;
}

// A thread in a jail that forbids nothing.
static void *stay_in_jail(void *written_fd)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog jail = {.len = 1, .filter = &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &jail) < 0 ||
        write(*(int *)written_fd, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static bool begin_jail(int written_fd)
{
    static pthread_t thread;
    static int fd;
    fd = written_fd;
    return pthread_create(&thread, NULL, stay_in_jail, &fd) == 0;
}

static struct sigaction dormant_handler = {.sa_handler = take_nothing};

// Starts a child that has mapped `mark` and has a handler for the default signal.
static pid_t start_dormant(const char *mark, bool jailed)
{
    int fds[2];
    char byte;
    assert_int_equal(pipe(fds), 0);
    process_files_end(); // the child has one thread
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigaction(HEAP_SIGNAL_DEFAULT, &dormant_handler, NULL);
        int fd = memfd_create(mark, MFD_CLOEXEC);
        if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ||
            !(jailed ? begin_jail(fds[1]) : write(fds[1], "", 1) == 1))
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

// Starts a child that the recorder can wake.
static pid_t start_dormant_now(bool jailed)
{
    char mark[32];
    snprintf(mark, sizeof(mark), HEAP_DORMANT_FORMAT, HEAP_SIGNAL_DEFAULT, HEAP_ABI_VERSION);
    return start_dormant(mark, jailed);
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

struct answers {
    int results[8];
    int n;
};

static void note(void *userdata, struct heap_wake *wake, int32_t pid, int result, int fd)
{
    struct answers *answers = userdata;
    (void)wake;
    (void)pid;
    (void)fd;
    answers->results[answers->n++ % 8] = result;
}

static void run_until(struct loop *loop, const struct answers *answers, int n)
{
    for (int i = 0; i < 100 && answers->n < n; i++)
        loop_run_once(loop, 50 * NSEC_PER_MSEC);
}

struct recorder {
    struct loop *loop;
    struct log log;
    struct foreign *foreign;
    struct foreign_helper *helper;
    struct answers answers;
    struct heap_wake *wake;
};

static void setup(struct recorder *r)
{
    *r = (struct recorder){0};
    assert_int_equal(loop_new(&r->loop), 0);
    struct foreign_options options = {.loop = r->loop, .log = &r->log, .proc = "/proc"};
    assert_int_equal(foreign_new(&options, &r->foreign), 0);
    assert_int_equal(foreign_helper_new(r->foreign, &r->helper), 0);
}

static void teardown(struct recorder *r)
{
    heap_wake_free(r->wake);
    foreign_helper_free(r->helper);
    foreign_free(r->foreign);
    loop_free(r->loop);
}

static void begin(struct recorder *r, pid_t pid)
{
    const struct heap_wake_env env = {r->loop, r->helper, "/proc"};
    assert_int_equal(heap_wake_begin(&env, pid, note, &r->answers, &r->wake, NULL), 0);
}

// Asserts that the first answer is `result`.
static void expect(struct recorder *r, pid_t pid, int result)
{
    begin(r, pid);
    run_until(r->loop, &r->answers, 1);
    assert_int_equal(r->answers.n, 1);
    assert_int_equal(r->answers.results[0], result);
}

static void one_that_ends_is_not_waited_for(void **state)
{
    (void)state;
    struct recorder r;
    setup(&r);
    pid_t pid = start_dormant_now(false);
    expect(&r, pid, -ETIMEDOUT);
    end(pid);
    run_until(r.loop, &r.answers, 2);
    assert_int_equal(r.answers.n, 2);
    assert_int_equal(r.answers.results[1], -ESRCH);
    teardown(&r);
}

static void one_of_another_version_is_not_woken(void **state)
{
    (void)state;
    char mark[32];
    for (int i = 0; i < 2; i++) {
        struct recorder r;
        setup(&r);
        if (i == 0) // of an old library, whose mark has no version
            snprintf(mark, sizeof(mark), "mmheap-dormant-%d", HEAP_SIGNAL_DEFAULT);
        else
            snprintf(mark, sizeof(mark), HEAP_DORMANT_FORMAT, HEAP_SIGNAL_DEFAULT,
                     HEAP_ABI_VERSION + 1);
        pid_t pid = start_dormant(mark, false);
        expect(&r, pid, -EPROTO);
        end(pid);
        teardown(&r);
    }
}

static void a_process_without_the_mark_is_left_alone(void **state)
{
    (void)state;
    struct recorder r;
    setup(&r);
    pid_t pid = start_dormant("something-else", false);
    expect(&r, pid, -ENOENT);
    end(pid);
    teardown(&r);
}

static void one_with_a_thread_in_a_jail_is_left_alone(void **state)
{
    (void)state;
    struct recorder r;
    setup(&r);
    pid_t pid = start_dormant_now(true);
    expect(&r, pid, -ENOENT);
    end(pid);
    teardown(&r);
}

static size_t n_summons(void)
{
    size_t n = 0;
    DIR *dir = opendir("/tmp");
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        n += strncmp(entry->d_name, HEAP_SUMMONS_PREFIX, strlen(HEAP_SUMMONS_PREFIX)) == 0;
    if (dir)
        closedir(dir);
    return n;
}

// A summons is freed in each state that its process may be in.
static void nothing_is_left_of_one_that_is_freed(void **state)
{
    (void)state;
    size_t n = n_summons();
    for (int i = 0; i < 4; i++) {
        struct recorder r;
        setup(&r);
        pid_t pid = start_dormant_now(false);
        begin(&r, pid);
        if (i == 1)
            loop_run_once(r.loop, NSEC_PER_SEC); // the helper has started
        else if (i > 1)
            run_until(r.loop, &r.answers, 1);
        if (i == 3) { // the helper is settled before the summons is freed
            foreign_helper_settle(r.helper, NSEC_MAX);
            r.wake = heap_wake_free(r.wake);
            foreign_helper_settle(r.helper, NSEC_MAX);
        }
        end(pid);
        teardown(&r);
    }
    // Recorders of other tests have sockets in the same folder for a moment.
    for (int i = 0; i < 3000 && n_summons() > n; i++)
        usleep(10000);
    assert_true(n_summons() <= n);
}

static int *n_sent; // shared with the helper

static void send_late(struct foreign_worker *worker, struct foreign_request *request,
                      struct foreign_answer *ret)
{
    nanosleep(&(struct timespec){.tv_nsec = 300 * NSEC_PER_MSEC}, NULL);
    wake_send_job(worker, request, ret);
    __atomic_add_fetch(n_sent, 1, __ATOMIC_SEQ_CST);
}

// The time of the process to answer begins when the signal is sent.
static void a_signal_that_is_sent_late_has_its_time(void **state)
{
    (void)state;
    static struct foreign_job jobs[FOREIGN_JOBS_MAX];
    struct recorder r;
    setup(&r);
    n_sent = mmap(NULL, sizeof(*n_sent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(n_sent, MAP_FAILED);
    memcpy(jobs, foreign_jobs, sizeof(jobs));
    jobs[FOREIGN_WAKE_SEND].run = send_late;
    foreign_helper_free(r.helper);
    foreign_free(r.foreign);
    struct foreign_options options = {.loop = r.loop, .log = &r.log, .proc = "/proc", .jobs = jobs};
    assert_int_equal(foreign_new(&options, &r.foreign), 0);
    assert_int_equal(foreign_helper_new(r.foreign, &r.helper), 0);
    pid_t pid = start_dormant_now(false);
    expect(&r, pid, -ETIMEDOUT);
    assert_int_equal(__atomic_load_n(n_sent, __ATOMIC_SEQ_CST), 2);
    end(pid);
    munmap(n_sent, sizeof(*n_sent));
    teardown(&r);
}

// Copies a file of the process below `folder`. `uid_line` replaces the line of the file; NULL: the
// copy is equal.
static void put_copy(const char *folder, pid_t pid, const char *file, const char *uid_line)
{
    static char text[1 << 18];
    char path[64], name[64];
    size_t size = uid_line ? strlen(uid_line) : 0;
    ssize_t n;
    if (uid_line)
        memcpy(text, uid_line, size);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    snprintf(name, sizeof(name), "%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while ((n = read(fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    close(fd);
    text[size] = 0;
    char *line = uid_line ? strstr(text + 1, "\nUid:\t") : NULL;
    if (line)
        line[1] = 'u'; // a line that nobody reads
    temp_file_write(folder, name, text, size);
}

// Runs the job that sends the signal on a copy of the process's files. The copy is about an earlier
// moment.
static int send_to(pid_t pid, const char *uid_line)
{
    char folder[TEMP_FOLDER_MAX], task[64];
    void *places = NULL;
    struct foreign_worker worker = {.proc = folder, .state = &places};
    const struct wake_signal asked = {pid, HEAP_SIGNAL_DEFAULT, 4};
    struct foreign_request request = {.bytes = &asked, .size = sizeof(asked), .fd = -1};
    struct foreign_answer answer = {.fd = -1};
    temp_folder_make(folder);
    put_copy(folder, pid, "maps", NULL);
    snprintf(task, sizeof(task), "task/%d/status", (int)pid);
    put_copy(folder, pid, task, uid_line);
    wake_send_job(&worker, &request, &answer);
    temp_folder_remove(folder);
    return answer.result;
}

static void a_program_of_another_user_meanwhile_gets_no_signal(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_because("only root sends signals to the processes of others");
    pid_t pid = start_dormant_now(false);
    assert_int_equal(send_to(pid, NULL), 0);
    assert_int_equal(send_to(pid, "Uid:\t61234\t61234\t61234\t61234\n"), -EPERM);
    assert_int_equal(geteuid(), 0);
    end(pid);
}

static int come_fds[2]; // from the child, and to the child

// A handler that connects to the socket that the signal's value names, as the library does.
static void come(int number, siginfo_t *info, void *context)
{
    static const char *const folders[HEAP_SUMMONS_N_FOLDERS] = HEAP_SUMMONS_FOLDERS;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t summons = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    char byte = HEAP_SUMMONS_READY;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    (void)number, (void)context;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/" HEAP_SUMMONS_PREFIX "%016" PRIx64,
             folders[HEAP_SUMMONS_FOLDER(summons)], summons);
    if (write(come_fds[0], &byte, 1) != 1 || read(come_fds[0], &byte, 1) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || write(fd, &byte, 1) != 1 ||
        write(come_fds[0], &byte, 1) != 1)
        _exit(1);
    signal(number, SIG_IGN);
}

static pid_t start_comer(void)
{
    char mark[32];
    snprintf(mark, sizeof(mark), HEAP_DORMANT_FORMAT, HEAP_SIGNAL_DEFAULT, HEAP_ABI_VERSION);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, come_fds), 0);
    dormant_handler = (struct sigaction){.sa_sigaction = come, .sa_flags = SA_SIGINFO};
    pid_t pid = start_dormant(mark, false);
    dormant_handler = (struct sigaction){.sa_handler = take_nothing};
    return pid;
}

static void hear(struct loop *loop)
{
    char byte;
    for (int i = 0; i < 200 && recv(come_fds[1], &byte, 1, MSG_DONTWAIT) != 1; i++)
        loop_run_once(loop, 10 * NSEC_PER_MSEC);
}

#define PROCESS_TIME (80 * NSEC_PER_MSEC) // TIME_MAX of heap_wake.c

// A recorder without a free descriptor answers later.
static void one_that_comes_while_descriptors_lack_is_heard(void **state)
{
    (void)state;
    struct recorder r;
    struct rlimit before;
    setup(&r);
    pid_t pid = start_comer();
    nsec_t begun = nsec_now(CLOCK_MONOTONIC);
    begin(&r, pid);
    hear(r.loop);
    int highest = dup(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    close(highest);
    struct rlimit none = {.rlim_cur = (rlim_t)highest, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(write(come_fds[1], "r", 1), 1);
    hear(r.loop);
    for (int i = 0; i < 3; i++)
        loop_run_once(r.loop, 0);
    // On a busy machine, the time of the process may be over.
    if (nsec_now(CLOCK_MONOTONIC) - begun < PROCESS_TIME)
        assert_int_equal(r.answers.n, 0);
    for (int i = 0; i < r.answers.n; i++)
        assert_int_equal(r.answers.results[i], -ETIMEDOUT);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    int n = 0;
    while (n++ < 100 && (r.answers.n == 0 || r.answers.results[r.answers.n - 1] == -ETIMEDOUT))
        assert_int_equal(loop_run_once(r.loop, 50 * NSEC_PER_MSEC), 0);
    assert_int_equal(r.answers.results[r.answers.n - 1], 0);
    end(pid);
    close(come_fds[0]);
    close(come_fds[1]);
    teardown(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_ends_is_not_waited_for),
        cmocka_unit_test(one_of_another_version_is_not_woken),
        cmocka_unit_test(a_process_without_the_mark_is_left_alone),
        cmocka_unit_test(one_with_a_thread_in_a_jail_is_left_alone),
        cmocka_unit_test(nothing_is_left_of_one_that_is_freed),
        cmocka_unit_test(a_signal_that_is_sent_late_has_its_time),
        cmocka_unit_test(a_program_of_another_user_meanwhile_gets_no_signal),
        cmocka_unit_test(one_that_comes_while_descriptors_lack_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
