// SPDX-License-Identifier: Apache-2.0
#include "common/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/unit/unit.h"

static void all_is_read_up_to_the_limit(void **state)
{
    (void)state;
    static char bytes[100000], got[100000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    CLEANUP(close_fdp) int fd = memfd_create("file", MFD_CLOEXEC);
    CLEANUP(strbuf_done) struct strbuf text = {0};
    assert_int_equal(fd_read_all(fd, 0, &text), 0);
    assert_string_equal(text.text, "");
    assert_int_equal(fd_write_all(fd, bytes, sizeof(bytes)), 0);
    assert_int_equal(pread(fd, got, sizeof(got), 0), sizeof(bytes));
    assert_memory_equal(got, bytes, sizeof(bytes));
    strbuf_add(&text, "x", 1);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(fd, sizeof(bytes), &text), 0);
    assert_int_equal(text.size, sizeof(bytes) + 1);
    assert_memory_equal(text.text + 1, bytes, sizeof(bytes));
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(fd, sizeof(bytes) - 1, &text), -EFBIG);
    assert_int_equal(fd_read_all(-1, 1, &text), -EBADF);
    assert_int_equal(fd_write_all(-1, "", 1), -EBADF);
}

static void folders_are_made_with_those_above(void **state)
{
    (void)state;
    char top[] = "/tmp/mmtrace-unit-XXXXXX", path[64], below[80];
    struct stat status;
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/a/b", top);
    assert_int_equal(folder_make(path, 0700), 0);
    assert_int_equal(folder_make(path, 0755), 0); // it stays as it is
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    snprintf(below, sizeof(below), "%s/file", path);
    FILE *file = fopen(below, "we");
    assert_non_null(file);
    fclose(file);
    strcat(below, "/c");
    assert_int_equal(folder_make(below, 0700), -ENOTDIR);
    assert_int_equal(folder_make("", 0700), -ENOENT);
    *strrchr(below, '/') = '\0';
    unlink(below);
    rmdir(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    assert_int_equal(rmdir(top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_read_up_to_the_limit),
        cmocka_unit_test(folders_are_made_with_those_above),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
