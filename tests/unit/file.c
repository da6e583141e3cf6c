// SPDX-License-Identifier: Apache-2.0
#include "common/file.h"
#include "common/elements.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/unit/temp_folder.h"
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
    assert_int_equal(folder_make(path, 0700, NULL), 0);
    assert_int_equal(folder_make(path, 0755, NULL), 0); // it stays as it is
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    snprintf(below, sizeof(below), "%s/file", path);
    FILE *file = fopen(below, "we");
    assert_non_null(file);
    fclose(file);
    strcat(below, "/c");
    assert_int_equal(folder_make(below, 0700, NULL), -ENOTDIR);
    assert_int_equal(folder_make("", 0700, NULL), -ENOENT);
    *strrchr(below, '/') = '\0';
    unlink(below);
    rmdir(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    assert_int_equal(rmdir(top), 0);
}

static void no_folder_is_made_through_a_link_of_another_user(void **state)
{
    (void)state;
    char top[] = "/tmp/mmtrace-unit-XXXXXX", path[64], link[64], own[64];
    struct stat status;
    struct err err = {0};
    if (geteuid() != 0)
        skip(); // cannot give the link to another user
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/link/a/b/", top);
    snprintf(link, sizeof(link), "%s/link", top);
    snprintf(own, sizeof(own), "%s/own", top);
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(symlink("own", link), 0);
    assert_int_equal(lchown(link, 4711, 4711), 0);
    assert_int_equal(folder_make(path, 0755, &err), -EPERM);
    assert_non_null(strstr(err.text, "/link is a link of user 4711"));
    assert_int_equal(folder_make(link, 0755, &err), -EPERM);
    assert_int_equal(rmdir(own), 0); // nothing is in it
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(lchown(link, 0, 0), 0);
    assert_int_equal(folder_make(path, 0700, &err), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "%s/link/a", top);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0755);
    temp_folder_remove(top);
}

// Asserts that open_in_root() opens a file with the content `text`, or fails with `error`.
static void expect_in(int root, const char *path, const char *text, int error)
{
    char got[16] = "";
    CLEANUP(close_fdp) int fd = open_in_root(root, path, O_RDONLY);
    assert_int_equal(fd < 0 ? fd : 0, error);
    assert_true(fd < 0 || read(fd, got, sizeof(got) - 1) >= 0);
    assert_string_equal(got, text);
}

static void file_put(int root, const char *name, const char *text)
{
    CLEANUP(close_fdp) int fd = openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

// Makes the system call fail with ENOSYS until this process ends, as on a kernel that lacks the
// call.
static void take_away(int number)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = 4, .filter = steps};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0), 0);
}

static void roots_are_not_left(void **state)
{
    (void)state;
    char folder[] = "/tmp/file-XXXXXX", outside[64];
    assert_non_null(mkdtemp(folder));
    snprintf(outside, sizeof(outside), "%s/outside", folder);
    CLEANUP(close_fdp) int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(top, "root", 0700), 0);
    CLEANUP(close_fdp) int root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(root, "a", 0700), 0);
    file_put(top, "outside", "out");
    file_put(root, "a/file", "in");
    assert_int_equal(symlinkat("/a", root, "link"), 0);
    assert_int_equal(symlinkat(outside, root, "way_out"), 0);
    expect_in(root, "a/file", "in", 0);
    expect_in(root, "/a//file", "in", 0);
    expect_in(root, "link/file", "in", 0);
    expect_in(root, "../outside", "", -ENOENT);
    expect_in(root, "way_out", "", -ENOENT);
    take_away(SYS_openat2);
    expect_in(root, "a/file", "in", 0);
    expect_in(root, "/a//file", "in", 0);
    expect_in(root, "none/file", "", -ENOENT);
    expect_in(root, "link/file", "", -ENOTDIR);
    expect_in(root, "../outside", "", -EXDEV);
    expect_in(root, "way_out", "", -ELOOP);
    static const char *const files[] = {"root/a/file", "root/link", "root/way_out", "outside"};
    for (size_t i = 0; i < ELEMENTS(files); i++)
        assert_int_equal(unlinkat(top, files[i], 0), 0);
    assert_int_equal(unlinkat(top, "root/a", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(top, "root", AT_REMOVEDIR), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    char top[] = "/tmp/mmtrace-unit-XXXXXX", path[64];
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/x", top);
    assert_int_equal(open_regular(path, 100), -ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_regular(path, 100), -EINVAL); // does not wait
    unlink(path);
    assert_int_equal(open_regular(top, 100), -EINVAL);
    assert_int_equal(open_regular("/dev/zero", 100), -EINVAL);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "0123456789");
    fclose(file);
    assert_int_equal(open_regular(path, 9), -EFBIG);
    int fd = open_regular(path, 10);
    assert_true(fd >= 0);
    char got[16];
    assert_int_equal(read(fd, got, sizeof(got)), 10);
    close(fd);
    unlink(path);
    rmdir(top);
}

static void paths_through_a_descriptor_are_shown_by_name(void **state)
{
    (void)state;
    char top[] = "/tmp/mmtrace-shown-XXXXXX", path[64], wanted[64];
    assert_non_null(mkdtemp(top));
    CLEANUP(close_fdp) int fd = open(top, O_PATH | O_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/database", fd);
    snprintf(wanted, sizeof(wanted), "%s/database", top);
    const char *const pairs[][2] = {
        {path, wanted},
        {top, top},
        {"x", "x"},
        {"", ""},
        {"/proc/self/fd/", "/proc/self/fd/"},
        {"/proc/self/fd/999999/x", "/proc/self/fd/999999/x"},
    };
    for (size_t i = 0; i < ELEMENTS(pairs); i++) {
        CLEANUP(freep) char *shown = path_shown(pairs[i][0]);
        assert_string_equal(shown, pairs[i][1]);
    }
    rmdir(top);
}

#define STRANGER 65534

static void expect_walk(const char *path, bool follows_last, int error, const char *name)
{
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    assert_int_equal(path_walk(path, follows_last, NULL, &end), error);
    assert_int_equal(!end.part, error != -EPERM);
    if (!error)
        assert_string_equal(end.name, name);
    struct stat st;
    if (error == -EPERM) {
        assert_string_equal(end.part, name);
        assert_int_equal(end.owner, STRANGER);
    } else if (!error && str_eq(name, "file")) {
        assert_int_equal(fstatat(end.folder, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISREG(st.st_mode));
    }
}

static const char *fault_of_writable(const struct stat *st)
{
    return st->st_mode & S_IWOTH ? "is everybody's" : NULL;
}

static void walks_refuse_links_of_others(void **state)
{
    (void)state;
    char top[] = "/tmp/mmtrace-walk-XXXXXX", before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_non_null(mkdtemp(top));
    assert_int_equal(chdir(top), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    file_put(AT_FDCWD, "folder/file", "");
    static const char *const links[][2] = {
        {"folder", "link"},         {"link/file", "twice"},
        {"folder/new", "dangling"}, {"loop", "loop"},
        {"..", "folder/up"},        {"/proc/self/cwd", "cwd"},
        {"/proc/self/fd/1", "out"}, {"link/../link//file", "round"},
    };
    for (size_t i = 0; i < ELEMENTS(links); i++)
        assert_int_equal(symlink(links[i][0], links[i][1]), 0);
    expect_walk("", true, -ENOENT, NULL);
    expect_walk("/", true, 0, ".");
    expect_walk("folder/file", true, 0, "file");
    expect_walk("link//.//file", true, 0, "file");
    expect_walk("link/", true, 0, ".");
    expect_walk("twice", true, 0, "file");
    expect_walk("twice", false, 0, "twice");
    expect_walk("round", true, 0, "file");
    expect_walk("dangling", true, 0, "new");
    expect_walk("folder/up/link/up/folder/file", true, 0, "file");
    expect_walk("none", true, 0, "none");
    expect_walk("none/file", true, -ENOENT, NULL);
    expect_walk("folder/file/x", true, -ENOTDIR, NULL);
    expect_walk("loop", true, -ELOOP, NULL);
    expect_walk("loop/x", true, -ELOOP, NULL);
    expect_walk("cwd/folder/file", true, 0, "file");
    expect_walk("out", true, 0, "1");
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    assert_int_equal(chmod("folder", 0777), 0);
    assert_int_equal(path_walk("link/file", true, fault_of_writable, &end), -EPERM);
    assert_string_equal(end.part, "folder");
    assert_string_equal(end.fault, "is everybody's");
    if (geteuid() == 0) {
        assert_int_equal(lchown("link", STRANGER, STRANGER), 0);
        expect_walk("link/file", true, -EPERM, "link");
        expect_walk("link/file", false, -EPERM, "link");
        expect_walk("link", true, -EPERM, "link");
        expect_walk("link", false, 0, "link");
        expect_walk("twice", true, -EPERM, "link"); // in the target of a link of root's
        expect_walk("folder/file", true, 0, "file");
    }
    for (size_t i = 0; i < ELEMENTS(links); i++)
        assert_int_equal(unlink(links[i][1]), 0);
    assert_int_equal(unlink("folder/file"), 0);
    assert_int_equal(rmdir("folder"), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(top), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_read_up_to_the_limit),
        cmocka_unit_test(folders_are_made_with_those_above),
        cmocka_unit_test(no_folder_is_made_through_a_link_of_another_user),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(paths_through_a_descriptor_are_shown_by_name),
        cmocka_unit_test(walks_refuse_links_of_others),
        cmocka_unit_test(roots_are_not_left), // the last: take_away() has no way back
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
