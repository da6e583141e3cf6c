// SPDX-License-Identifier: Apache-2.0
//
// A FIFO without a writer stands for a file whose process holds the lock of its memory map: open()
// of the FIFO waits.
#include "producer/foreign/process_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/temp_folder.h"
#include "tests/unit/unit.h"

static char proc[TEMP_FOLDER_MAX];

static int begin(void **state)
{
    (void)state;
    temp_folder_make(proc);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return temp_folder_remove(proc);
}

// A process of user `uid` with a file that is `text`, or that cannot be read yet (NULL).
static void make(int32_t pid, unsigned uid, const char *name, const char *text)
{
    static const char stat[] = "1 (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 777 0";
    char path[128], status[64];
    int n =
        snprintf(status, sizeof(status), "Name:\tx\nUid:\t%u\t%u\t%u\t%u\n", uid, uid, uid, uid);
    snprintf(path, sizeof(path), "%d/status", pid);
    temp_file_write(proc, path, status, (size_t)n);
    snprintf(path, sizeof(path), "%d/stat", pid);
    temp_file_write(proc, path, stat, sizeof(stat) - 1);
    snprintf(path, sizeof(path), "%d/%s", pid, name);
    if (text)
        temp_file_write(proc, path, text, strlen(text));
    snprintf(path, sizeof(path), "%s/%d/%s", proc, pid, name);
    if (!text)
        assert_int_equal(mkfifo(path, 0600), 0);
}

static const char *cmdline_of(int32_t pid)
{
    static char text[64];
    process_file_span(text, sizeof(text), proc, pid, "cmdline");
    return text;
}

static int open_result(int32_t pid, const char *name)
{
    struct process_file file;
    int r = process_file_open(&file, proc, pid, name, 0);
    process_file_close(&file);
    return r;
}

// Lets the reader go that waits for the file.
static void release(int32_t pid, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%d/%s", proc, pid, name);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    close(fd);
}

static void files_are_read(void **state)
{
    (void)state;
    char bytes[8];
    struct process_file file;
    make(1, 0, "cmdline", "init");
    make(2, 0, "smaps", "abcdefghij");
    assert_string_equal(cmdline_of(1), "init");
    assert_string_equal(cmdline_of(3), "");
    assert_int_equal(open_result(3, "smaps"), -ENOENT);
    assert_int_equal(process_file_open(&file, proc, 2, "smaps", 0), 0);
    assert_int_equal(process_file_read(&file, bytes, sizeof(bytes)), 8);
    assert_memory_equal(bytes, "abcdefgh", 8);
    assert_int_equal(process_file_read(&file, bytes, sizeof(bytes)), 2);
    assert_memory_equal(bytes, "ij", 2);
    assert_int_equal(process_file_read(&file, bytes, sizeof(bytes)), 0);
    process_file_close(&file);
    assert_int_equal(process_file_read(&file, bytes, sizeof(bytes)), -EBADF);
}

static void maps_are_parsed(void **state)
{
    (void)state;
    struct process_file file;
    struct line_reader reader;
    struct mapping mapping;
    make(1, 0, "maps",
         "1000-2000 r-xp 00000000 08:01 7   /bin/a\n3000-4000 rw-p 00000000 00:00 0\n");
    assert_int_equal(process_file_open_maps(&file, &reader, proc, 1), 0);
    assert_int_equal(maps_next(&reader, &mapping), 1);
    assert_int_equal(mapping.start, 0x1000);
    assert_int_equal(maps_next(&reader, &mapping), 1);
    assert_int_equal(mapping.end, 0x4000);
    assert_int_equal(maps_next(&reader, &mapping), 0);
    process_file_close(&file);
}

static void names_match_patterns(void **state)
{
    (void)state;
    char *patterns[] = {"y*", "serv?r"};
    make(1, 0, "cmdline", "/usr/bin/server");
    make(2, 0, "cmdline", "xserver");
    make(3, 0, "cmdline", NULL);
    assert_int_equal(process_is_called(proc, 1, patterns, 2), 1);
    assert_int_equal(process_is_called(proc, 1, patterns, 0), 0);
    assert_int_equal(process_is_called(proc, 2, patterns, 2), 0);
    assert_int_equal(process_is_called(proc, 3, patterns, 2), -ETIMEDOUT);
    assert_int_equal(process_is_called(proc, 4, patterns, 2), -ENOENT);
    release(3, "cmdline");
}

static void a_late_process_is_no_thread_of_the_kernel(void **state)
{
    (void)state;
    char text[8] = "old";
    make(1, 0, "cmdline", NULL);
    make(2, 0, "cmdline", "");
    make(3, 0, "cmdline", "program");
    assert_int_equal(process_file_text(text, sizeof(text), proc, 1, "cmdline"), -ETIMEDOUT);
    assert_string_equal(text, "");
    assert_string_equal(process_file_strerror(-ETIMEDOUT),
                        "it does not release the locks of its memory");
    assert_int_equal(process_file_text(text, sizeof(text), proc, 3, "cmdline"), 7);
    assert_null(process_lacks_program(proc, 1));
    assert_string_equal(process_lacks_program(proc, 2),
                        "it has no command line, like a thread of the kernel");
    assert_null(process_lacks_program(proc, 3));
    assert_string_equal(process_lacks_program(proc, 4), "there is no such process");
    release(1, "cmdline");
}

static void a_late_process_delays_no_other(void **state)
{
    (void)state;
    make(1, 0, "cmdline", NULL);
    make(2, 0, "cmdline", "other");
    make(3, 0, "maps", NULL);
    assert_string_equal(cmdline_of(1), "");
    assert_string_equal(cmdline_of(2), "other");
    assert_int_equal(open_result(3, "maps"), -ETIMEDOUT);
    assert_string_equal(cmdline_of(2), "other");
    release(1, "cmdline");
    release(3, "maps");
}

static void a_user_has_two_late_readers(void **state)
{
    (void)state;
    for (int32_t pid = 1; pid <= 3; pid++)
        make(pid, 4711, "maps", NULL);
    make(4, 4711, "cmdline", "same user");
    make(5, 4712, "cmdline", "other user");
    make(6, 0, "cmdline", "root");
    assert_int_equal(open_result(1, "maps"), -ETIMEDOUT);
    assert_string_equal(cmdline_of(4), "same user");
    assert_int_equal(open_result(2, "maps"), -ETIMEDOUT);
    assert_int_equal(open_result(3, "maps"), -EAGAIN);
    assert_string_equal(cmdline_of(4), "");
    assert_string_equal(cmdline_of(5), "other user");
    assert_string_equal(cmdline_of(6), "root");
    release(1, "maps");
    while (strcmp(cmdline_of(4), "same user") != 0) // until the first reader has ended
        usleep(1000);
    release(2, "maps");
}

static void the_number_of_late_readers_is_bounded(void **state)
{
    (void)state;
    make(99, 0, "cmdline", "root");
    while (strcmp(cmdline_of(99), "root") != 0) // the readers of other tests have ended
        usleep(1000);
    int32_t n = 1;
    for (int r = -ETIMEDOUT; r == -ETIMEDOUT; n++) {
        make(n, 0, "maps", NULL);
        r = open_result(n, "maps");
        assert_true(r == -ETIMEDOUT || r == -EAGAIN);
        assert_true(n <= PROCESS_FILE_LATE_ALL + 1);
    }
    assert_string_equal(cmdline_of(99), "");
    while (--n > 1)
        release(n - 1, "maps");
    while (strcmp(cmdline_of(99), "root") != 0)
        usleep(1000);
}

static void another_reader_follows_an_ended_one(void **state)
{
    (void)state;
    make(1, 0, "cmdline", "init");
    make(2, 0, "cmdline", NULL);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(cmdline_of(1), "init");
        process_files_end();
        process_files_end();
    }
    assert_string_equal(cmdline_of(2), "");
    process_files_end();
    assert_string_equal(cmdline_of(1), "init");
    release(2, "cmdline");
}

static int write_pid(const void *argument, char *bytes, size_t size)
{
    return snprintf(bytes, size, "call of %d", *(const int *)argument);
}

static int wait_for_fifo(const void *argument, char *bytes, size_t size)
{
    (void)bytes, (void)size;
    return open(argument, O_RDONLY);
}

static void calls_have_the_deadline(void **state)
{
    (void)state;
    char text[32] = "", path[PATH_MAX] = "";
    int pid = 7;
    make(1, 0, "maps", NULL);
    assert_int_equal(process_call(proc, 1, write_pid, &pid, sizeof(pid), text, sizeof(text)), 9);
    assert_memory_equal(text, "call of 7", 9);
    snprintf(path, sizeof(path), "%s/1/maps", proc);
    assert_int_equal(process_call(proc, 1, wait_for_fifo, path, PROCESS_CALL_BYTES, NULL, 0),
                     -ETIMEDOUT);
    assert_int_equal(process_call(proc, 1, write_pid, path, PROCESS_CALL_BYTES + 1, text, 1),
                     -E2BIG);
    release(1, "maps");
}

// Reads until the reading is in time: on a busy machine, a new thread begins late.
static int read_in_child(void)
{
    char text[32];
    nsec_t end = nsec_now(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC;
    ssize_t n;
    while (process_file_is_late(n = process_file_text(text, sizeof(text), proc, 1, "cmdline")) &&
           nsec_now(CLOCK_MONOTONIC) < end)
        nanosleep(&(struct timespec){.tv_nsec = 10 * NSEC_PER_MSEC}, NULL);
    return n < 0 || strcmp(text, "init") != 0;
}

static void a_child_after_fork_reads(void **state)
{
    (void)state;
    int status;
    make(1, 0, "cmdline", "init");
    make(2, 0, "cmdline", NULL);
    assert_string_equal(cmdline_of(1), "init");
    assert_string_equal(cmdline_of(2), "");
    pid_t child = fork();
    if (child == 0)
        _exit(read_in_child());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    release(2, "cmdline");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_read, begin, end),
        cmocka_unit_test_setup_teardown(maps_are_parsed, begin, end),
        cmocka_unit_test_setup_teardown(names_match_patterns, begin, end),
        cmocka_unit_test_setup_teardown(a_late_process_is_no_thread_of_the_kernel, begin, end),
        cmocka_unit_test_setup_teardown(a_late_process_delays_no_other, begin, end),
        cmocka_unit_test_setup_teardown(a_user_has_two_late_readers, begin, end),
        cmocka_unit_test_setup_teardown(the_number_of_late_readers_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(another_reader_follows_an_ended_one, begin, end),
        cmocka_unit_test_setup_teardown(calls_have_the_deadline, begin, end),
        cmocka_unit_test_setup_teardown(a_child_after_fork_reads, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
