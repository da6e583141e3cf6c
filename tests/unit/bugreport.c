// SPDX-License-Identifier: Apache-2.0
//
// A zip that one library writes is read by another: Python's zipfile.
#include "producer/service/armed/bugreport_zip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elements.h"
#include "common/str.h"
#include "tests/unit/unit.h"

#define TRACE BUGREPORT_TRACE_DIR "systrace.pftrace"

static char scratch[64];

static const char *in_scratch(const char *name)
{
    static char paths[4][160];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", scratch, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(in_scratch(name), "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/mmtrace-test-XXXXXX");
    if (!mkdtemp(scratch) || mkdir(in_scratch("proc"), 0700) < 0 ||
        mkdir(in_scratch("proc/pressure"), 0700) < 0 || mkdir(in_scratch("proc/swaps"), 0700) < 0)
        return -1;
    put("proc/vmstat", "nr_free_pages 1\n");
    put("proc/pressure/memory", "some avg10=0.00\n");
    put("proc/meminfo", "");
    return 0;
}

static int remove_scratch(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", scratch);
    return system(command);
}

// Verifies the checksums of the zip, and returns Python's output for `expression`, where z is the
// zip.
static const char *ask(const char *expression)
{
    static char answer[16384];
    char command[1024];
    snprintf(command, sizeof(command),
             "python3 -c \"import zipfile; z = zipfile.ZipFile('%s'); assert z.testzip() is None; "
             "print(%s, end='')\"",
             in_scratch("report.zip"), expression);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t size = fread(answer, 1, sizeof(answer) - 1, pipe);
    answer[size] = '\0';
    assert_int_equal(pclose(pipe), 0);
    return answer;
}

static struct bugreport *begin(void)
{
    struct bugreport *report;
    struct err err = {0};
    assert_int_equal(bugreport_new(in_scratch("report.zip"), "1.2.3", &report, &err), 0);
    return report;
}

static void finish(struct bugreport *report)
{
    uint64_t size;
    struct stat st;
    assert_int_equal(bugreport_finish(report, &size, NULL), 0);
    bugreport_free(report);
    assert_int_equal(stat(in_scratch("report.zip"), &st), 0);
    assert_int_equal(st.st_size, size);
    assert_int_equal(st.st_mode & 0777, 0600);
}

// Adds the bytes as the bytes of a trace's file.
static int add_bytes(struct bugreport *report, const void *bytes, size_t size, struct err *err)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fflush(file), 0);
    int r = bugreport_trace_add_file(report, fileno(file), err);
    fclose(file);
    return r;
}

static void add_trace(struct bugreport *report, const char *name, const char *text)
{
    char packet[128];
    int size = snprintf(packet, sizeof(packet), "\n%c%s", (int)strlen(text), text);
    assert_in_range(size, 2, sizeof(packet) - 1);
    assert_int_equal(bugreport_trace_begin(report, name, NULL), 0);
    assert_int_equal(add_bytes(report, packet, (size_t)size, NULL), 0);
    assert_int_equal(bugreport_trace_end(report, "session 1", NULL, NULL), 0);
}

static void test_machine(void **state)
{
    (void)state;
    struct bugreport *report = begin();
    assert_int_equal(bugreport_add_machine(report, in_scratch("proc"), in_scratch("no-kmsg"), NULL),
                     0);
    finish(report);
    assert_string_equal(ask("z.namelist()"), "['FS/proc/vmstat', 'FS/proc/meminfo', "
                                             "'FS/proc/pressure/memory', 'index.txt']");
    assert_string_equal(ask("z.read('FS/proc/vmstat').decode()"), "nr_free_pages 1\n");
    assert_string_equal(ask("z.read('FS/proc/meminfo').decode()"), "");
    const char *index = ask("z.read('index.txt').decode()");
    assert_non_null(strstr(index, "mmtrace 1.2.3"));
    assert_non_null(strstr(index, "          16  FS/proc/vmstat\n"));
    assert_non_null(strstr(index, "-  FS/proc/slabinfo  (No such file or directory)\n"));
    assert_non_null(strstr(index, "-  FS/proc/swaps  (Is a directory)\n"));
    assert_non_null(strstr(index, "-  kernel.log  ("));
}

static void test_traces(void **state)
{
    (void)state;
    struct bugreport *report = begin();
    add_trace(report, NULL, "packets");
    add_trace(report, "", "more");
    add_trace(report, "mem.pftrace", "third");
    bugreport_note(report, "session %d is there", 17);
    finish(report);
    assert_string_equal(ask("len(z.namelist())"), "4");
    assert_string_equal(ask("z.read('" TRACE "').decode()"), "\n\7packets");
    assert_string_equal(ask("z.read('" BUGREPORT_TRACE_DIR "systrace_1.pftrace').decode()"),
                        "\n\4more");
    assert_string_equal(ask("z.read('" BUGREPORT_TRACE_DIR "mem.pftrace').decode()"), "\n\5third");
    const char *index = ask("z.read('index.txt').decode()");
    assert_non_null(strstr(index, "session 17 is there\n"));
    assert_non_null(strstr(index, "           9  " TRACE "  session 1\n"));
}

static void test_names_are_made_safe(void **state)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        {"../../etc/passwd", "passwd"}, {"/tmp/x.pftrace", "x.pftrace"}, {"..", "_."},
        {"a/", "systrace.pftrace"},     {"a\nb\xff c", "a_b__c"},
    };
    (void)state;
    struct bugreport *report = begin();
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        add_trace(report, cases[i].name, "x");
    finish(report);
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char expression[64], want[160];
        snprintf(expression, sizeof(expression), "z.namelist()[%zu]", i);
        snprintf(want, sizeof(want), BUGREPORT_TRACE_DIR "%s", cases[i].want);
        assert_string_equal(ask(expression), want);
    }
}

static void test_trace_file(void **state)
{
    struct err err = {0};
    (void)state;
    put("trace", "a trace file");
    FILE *file = fopen(in_scratch("trace"), "r+e");
    assert_non_null(file);
    struct bugreport *report = begin();
    assert_int_equal(bugreport_trace_begin(report, NULL, NULL), 0);
    assert_int_equal(bugreport_trace_add_file(report, fileno(file), NULL), 0);
    assert_int_equal(bugreport_trace_end(report, NULL, NULL, NULL), 0);
    // Two packets, and one that is larger than a whole trace may be.
    static const char packets[] = "\n\3abc\n\1d\n\xff\xff\xff\xff\x03xyz";
    assert_int_equal(pwrite(fileno(file), packets, sizeof(packets), 0), sizeof(packets));
    assert_int_equal(ftruncate(fileno(file), (off_t)BUGREPORT_TRACE_MAX + 1000), 0);
    assert_int_equal(bugreport_trace_begin(report, "large", NULL), 0);
    assert_int_equal(bugreport_trace_add_file(report, fileno(file), &err), -EFBIG);
    assert_int_equal(bugreport_trace_end(report, NULL, err.text, NULL), 0);
    fclose(file);
    finish(report);
    assert_string_equal(ask("z.read('" TRACE "').decode()"), "a trace file");
    assert_string_equal(ask("z.read('" BUGREPORT_TRACE_DIR "large').decode()"), "\n\3abc\n\1d");
}

static void test_temporary_files(void **state)
{
    (void)state;
    const char *before = getenv("TMPDIR");
    char *copy = before ? strdup(before) : NULL;
    static const char *const dirs[] = {"/nonexistent", "relative", "", "/tmp", "/proc"};
    for (size_t i = 0; i < 5; i++) {
        setenv("TMPDIR", dirs[i], 1);
        int fd = bugreport_temporary_file();
        struct stat st;
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "x", 1), 1);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_nlink, 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        close(fd);
    }
    if (copy)
        setenv("TMPDIR", copy, 1);
    else
        unsetenv("TMPDIR");
    free(copy);
}

static void test_nothing_is_left_behind(void **state)
{
    (void)state;
    put("report.zip", "as it was");
    struct bugreport *report = begin();
    add_trace(report, NULL, "packets");
    bugreport_free(report);
    char text[16] = "";
    FILE *file = fopen(in_scratch("report.zip"), "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "as it was");
    char command[160];
    snprintf(command, sizeof(command), "test \"$(ls '%s')\" = \"proc\nreport.zip\"", scratch);
    assert_int_equal(system(command), 0);
}

static void test_only_regular_files_are_replaced(void **state)
{
    struct bugreport *report = NULL;
    (void)state;
    assert_int_equal(bugreport_new("/dev/null", "1", &report, NULL), -EEXIST);
    assert_int_equal(bugreport_new(scratch, "1", &report, NULL), -EEXIST);
    struct err err = {0};
    assert_int_equal(bugreport_new(in_scratch("none/x.zip"), "1", &report, &err), -ENOENT);
    assert_null(report);
    assert_non_null(strstr(err.text, "/none/x.zip: No such file"));
}

static void test_full_disk(void **state)
{
    struct err err = {0};
    uint64_t size;
    static char noise[1 << 20];
    (void)state;
    if (access("/dev/full", W_OK) < 0)
        skip_because("there is no /dev/full");
    struct bugreport *report = begin();
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)((i * 2654435761u) >> 13);
    assert_int_equal(bugreport_trace_begin(report, NULL, NULL), 0);
    // The descriptor of the report's unfinished file becomes one of /dev/full.
    char link[64], target[160];
    for (int fd = 3; fd < 64; fd++) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof(target) - 1);
        if (n > 8 && memcmp(target + n - 8, ".partial", 8) == 0) {
            FILE *full = fopen("/dev/full", "we");
            assert_non_null(full);
            assert_int_equal(dup2(fileno(full), fd), fd);
            fclose(full);
        }
    }
    int r = add_bytes(report, noise, sizeof(noise), &err);
    if (r == 0)
        r = bugreport_trace_end(report, NULL, NULL, &err);
    if (r == 0)
        r = bugreport_finish(report, &size, &err);
    assert_int_equal(r, -ENOSPC);
    assert_non_null(strstr(err.text, "report.zip"));
    bugreport_free(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_traces, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_names_are_made_safe, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_trace_file, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_nothing_is_left_behind, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_temporary_files, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_only_regular_files_are_replaced, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(test_full_disk, make_scratch, remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
