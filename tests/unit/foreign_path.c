// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/foreign/payer.h"
#include "producer/ground/ids.h"
#include "tests/unit/temp_folder.h"

static const struct foreign_want regular = {.type = S_IFREG};

struct folder {
    char path[64];
    int fd;
};

static void folder_make_new(struct folder *folder)
{
    temp_folder_make(folder->path);
    folder->fd = open(folder->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
}

static void folder_done(struct folder *folder)
{
    close_fd(folder->fd);
    temp_folder_remove(folder->path);
}

static void text_make(const struct folder *folder, const char *name, const char *text)
{
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close_fd(fd);
}

static int open_one(const struct folder *folder, const char *path, int flags,
                    const struct foreign_want *want)
{
    int fd = foreign_open(folder->fd, path, flags, want, NULL);
    close_fd(fd);
    return fd < 0 ? fd : 0;
}

static void only_what_was_wanted_is_opened(void **state)
{
    (void)state;
    struct folder f;
    char text[8] = "";
    struct stat st;
    folder_make_new(&f);
    text_make(&f, "file", "text");
    assert_int_equal(mkfifoat(f.fd, "fifo", 0644), 0);
    int fd = foreign_open(f.fd, "file", 0, &regular, &st);
    assert_int_equal(read(fd, text, sizeof(text) - 1), 4);
    assert_string_equal(text, "text");
    assert_int_equal(st.st_size, 4);
    close_fd(fd);
    assert_int_equal(open_one(&f, "fifo", 0, &regular), -EPERM); // and nobody waits for a writer
    assert_int_equal(open_one(&f, ".", 0, &regular), -EPERM);
    assert_int_equal(open_one(&f, "nothing", 0, &regular), -ENOENT);
    folder_done(&f);
}

static void size_owner_and_age_are_checked(void **state)
{
    (void)state;
    struct folder f;
    uid_t own = geteuid(), other = own + 1;
    folder_make_new(&f);
    text_make(&f, "file", "text");
    struct foreign_want want = {.type = S_IFREG, .max_bytes = 3};
    assert_int_equal(open_one(&f, "file", 0, &want), -EFBIG);
    want.max_bytes = 4;
    assert_int_equal(open_one(&f, "file", 0, &want), 0);
    want.owners = &other;
    want.n_owners = 1;
    assert_int_equal(open_one(&f, "file", 0, &want), -EPERM);
    want.owners = &own;
    assert_int_equal(open_one(&f, "file", 0, &want), 0);
    want.modified_earliest = INT64_MAX;
    assert_int_equal(open_one(&f, "file", 0, &want), -EPERM);
    folder_done(&f);
}

static void nothing_leads_out_of_the_root(void **state)
{
    (void)state;
    struct folder f;
    folder_make_new(&f);
    text_make(&f, "file", "text");
    assert_int_equal(symlinkat("/etc/passwd", f.fd, "absolute"), 0);
    assert_int_equal(symlinkat("file", f.fd, "inside"), 0);
    assert_int_equal(open_one(&f, "absolute", 0, &regular), -ENOENT);
    assert_int_equal(open_one(&f, "../../etc/passwd", 0, &regular), -ENOENT);
    assert_int_equal(open_one(&f, "inside", O_NOFOLLOW, &regular), -EPERM);
    int root_fd CLEANUP(close_fdp) = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    // Links of /proc lead outside of the root.
    assert_true(foreign_open(root_fd, "proc/self/exe", 0, &regular, NULL) < 0);
    folder_done(&f);
}

static void what_another_user_makes_is_that_users(void **state)
{
    (void)state;
    struct folder f;
    struct foreign_ids own;
    struct stat st;
    if (geteuid() != 0)
        skip_because("needs root");
    folder_make_new(&f);
    assert_int_equal(fchmodat(f.fd, ".", 0777, 0), 0);
    text_make(&f, "of_root", "text");
    assert_int_equal(fchmodat(f.fd, "of_root", 0600, 0), 0);
    assert_int_equal(foreign_ids_take(54321, 54322, &own), 0);
    text_make(&f, "of_other", "text");
    assert_int_equal(open_one(&f, "of_root", 0, &regular), -EACCES);
    foreign_ids_return(&own);
    assert_int_equal(fstatat(f.fd, "of_other", &st, 0), 0);
    assert_int_equal(st.st_uid, 54321);
    assert_int_equal(st.st_gid, 54322);
    assert_int_equal(open_one(&f, "of_root", 0, &regular), 0);
    folder_done(&f);
}

static void a_process_of_this_namespace_pays_for_itself(void **state)
{
    (void)state;
    assert_int_equal(foreign_payer("/proc", getpid(), 1234), getuid());
    assert_int_equal(foreign_payer("/nonexistent", getpid(), 1234), 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_wanted_is_opened),
        cmocka_unit_test(size_owner_and_age_are_checked),
        cmocka_unit_test(nothing_leads_out_of_the_root),
        cmocka_unit_test(what_another_user_makes_is_that_users),
        cmocka_unit_test(a_process_of_this_namespace_pays_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
