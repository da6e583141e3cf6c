// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/residency/named_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/foreign/mounts.h"
#include "tests/unit/temp_folder.h"

static char folder[TEMP_FOLDER_MAX];
static struct foreign_mounts mounts;

static int setup(void **state)
{
    (void)state;
    temp_folder_make(folder);
    foreign_mounts_init(&mounts, "/proc");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    foreign_mounts_done(&mounts);
    return temp_folder_remove(folder);
}

static void make(const char *name)
{
    temp_file_write(folder, name, "text", 4);
}

static void make_link(const char *target, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

static const char *below(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

// Returns the error of a look-up, or 0.
static int hold(const char *path)
{
    struct stat st;
    const struct named_path how = {.mounts = &mounts};
    int fd;
    do { // other programs may change mounts
        mounts.trusted->renew_earliest = 0;
        fd = named_path_hold(&how, path, &st);
    } while (fd == -EAGAIN);
    close_fd(fd);
    return fd < 0 ? fd : 0;
}

// Returns the names of the files that the walk finds, sorted: each has one letter. An error adds
// '!'.
static const char *walk(const char *pattern)
{
    static char names[32];
    static struct named_files found;
    bool has[27] = {0};
    int r;
    named_files_begin(&found, &(struct named_path){.mounts = &mounts}, pattern);
    while ((r = named_files_next(&found)) != NAMED_END) {
        const char *name = strrchr(found.path, '/');
        name = name ? name + 1 : found.path;
        if (r == NAMED_FILE) {
            struct stat st;
            assert_int_equal(fstat(found.held, &st), 0);
            assert_int_equal(st.st_ino, found.st.st_ino);
            has[*name - 'a'] = true;
        }
        if (r == -EAGAIN) { // other programs may change mounts
            mounts.trusted->renew_earliest = 0;
            named_files_repeat(&found);
            continue;
        }
        has[26] |= r < 0;
    }
    named_files_end(&found);
    char *end = names;
    for (int i = 0; i < 26; i++)
        if (has[i])
            *end++ = (char)('a' + i);
    if (has[26])
        *end++ = '!';
    *end = '\0';
    return names;
}

static void patterns_match_as_in_a_shell(void **state)
{
    (void)state;
    make("one/x/a");
    make("one/y/b");
    make("one/.hidden/c");
    make("two/x/d");
    make("[e]/f");
    assert_string_equal(walk(below("one/x/a")), "a");
    assert_string_equal(walk(below("*/x/*")), "ad");
    assert_string_equal(walk(below("one/*/?")), "ab"); // no hidden folder
    assert_string_equal(walk(below("one/.*/*")), "c");
    assert_string_equal(walk(below("one")), "abc");
    assert_string_equal(walk(below("one/")), "abc");
    assert_string_equal(walk(below("o*")), "abc");
    assert_string_equal(walk(below("*/*/missing")), "!"); // the name without wildcards is missing
    assert_string_equal(walk(below("[e]/f")), "f");       // no folder "e": the name as it is
    assert_string_equal(walk(below("one/x/a/more")), "!");
    assert_string_equal(walk(""), "!");
    assert_int_equal(chdir(folder), 0);
    assert_string_equal(walk("one/x"), "a");
    assert_string_equal(walk("*/y/b"), "b");
    assert_string_equal(walk("./two/../one/y"), "b");
    assert_int_equal(chdir("/"), 0);
}

static void named_links_are_followed_and_those_below_are_not(void **state)
{
    (void)state;
    make("real/a");
    make("other/b");
    make_link("real", "relative");
    make_link(below("real"), "absolute");
    make_link("../other", "real/link");
    make_link("../other/b", "real/c");
    make_link("loop", "loop");
    assert_string_equal(walk(below("relative")), "a");
    assert_string_equal(walk(below("absolute/a")), "a");
    assert_string_equal(walk(below("real/link/b")), "b");
    assert_string_equal(walk(below("relative/link/../other/b")), "b");
    assert_string_equal(walk(below("real")), "a");
    assert_string_equal(walk(below("loop")), "!");
    assert_int_equal(hold(below("loop")), -ELOOP);
    assert_int_equal(hold(below("real/a/")), -ENOTDIR);
}

static void nothing_in_proc_is_looked_up(void **state)
{
    (void)state;
    make("real/a");
    make_link("/proc/self/root", "root");
    make_link("/proc/self/map_files", "maps");
    assert_int_equal(hold("/proc/self/maps"), -ENOTSUP);
    assert_int_equal(hold(below("root")), -ENOTSUP);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/root%s/real/a", folder, folder);
    assert_int_equal(hold(path), -ENOTSUP);
    assert_int_equal(hold(below("maps")), -ENOTSUP);
    assert_string_equal(walk("/proc/self"), "!");
    assert_string_equal(walk(below("ma*/*")), "!");
}

static void too_much_is_an_error(void **state)
{
    (void)state;
    char path[NAMED_PATH_ROOM + 8], deep[1000];
    size_t size = (size_t)snprintf(deep, sizeof(deep), "deep");
    for (int i = 0; i < NAMED_DEPTH_MAX + 4; i++)
        size += (size_t)snprintf(deep + size, sizeof(deep) - size, "/d");
    snprintf(deep + size, sizeof(deep) - size, "/a");
    make(deep);
    make("deep/b");
    assert_string_equal(walk(below("deep")), "b!");
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(hold(path), -ENAMETOOLONG);
    assert_string_equal(walk(path), "!");
    for (size_t i = 0; i < sizeof(path) - 1; i += 2)
        path[i] = '/';
    assert_string_equal(walk(path), "!");
    snprintf(path, 400, "/%0300d/*", 0);
    assert_int_equal(hold(path), -ENAMETOOLONG);
}

// A link of many components leads to a link of many components, and so on.
static void a_look_up_is_limited(void **state)
{
    (void)state;
    char target[4000], name[16];
    make("a");
    assert_int_equal(hold(below("../../../../../../../../tmp")), 0);
    for (int i = 0; i < 30; i++) {
        size_t size = 0;
        for (int j = 0; j < 100; j++)
            size += (size_t)snprintf(target + size, sizeof(target) - size, "./../%s/",
                                     strrchr(folder, '/') + 1);
        snprintf(target + size, sizeof(target) - size, i ? "l%d" : "a", i - 1);
        snprintf(name, sizeof(name), "l%d", i);
        make_link(target, name);
    }
    assert_int_equal(hold(below("l0")), 0);
    assert_int_equal(hold(below("l1")), -ELOOP);
    assert_int_equal(hold(below("l29")), -ELOOP);
    memset(target, '/', sizeof(target) - 1);
    for (size_t i = 1; i < sizeof(target) - 1; i += 2)
        target[i] = '.';
    target[sizeof(target) - 1] = '\0';
    assert_int_equal(hold(target), 0); // "/./././."
}

static void links_of_others_in_shared_folders_are_not_followed(void **state)
{
    (void)state;
    char path[PATH_MAX];
    make("a");
    make_link("a", "link");
    snprintf(path, sizeof(path), "%s/link", folder);
    if (lchown(path, 12345, 12345) < 0)
        skip_because("only root gives a link to another user");
    assert_int_equal(hold(path), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(hold(path), -EACCES);
    assert_int_equal(lchown(path, geteuid(), 0), 0);
    assert_int_equal(hold(path), 0);
}

// An automounter that does not answer.
struct automounter {
    pid_t pid;
    int ends[2], gate[2];
};

static bool automounter_start(struct automounter *ret, const char *type)
{
    char options[100], c;
    assert_int_equal(pipe2(ret->ends, O_CLOEXEC) + pipe2(ret->gate, O_CLOEXEC), 0);
    ret->pid = fork();
    if (ret->pid == 0) {
        close(ret->gate[1]);
        setpgid(0, 0);
        (void)!read(ret->gate[0], &c, 1);
        _exit(0);
    }
    setpgid(ret->pid, ret->pid);
    snprintf(options, sizeof(options), "fd=%d,pgrp=%d,minproto=5,maxproto=5,%s", ret->ends[1],
             (int)ret->pid, type);
    return mount("deaf", below("auto"), "autofs", 0, options) == 0;
}

static void automounter_end(struct automounter *automounter)
{
    umount2(below("auto"), MNT_DETACH);
    close(automounter->gate[1]);
    assert_int_equal(waitpid(automounter->pid, NULL, 0), automounter->pid);
    close(automounter->gate[0]);
    close(automounter->ends[0]);
    close(automounter->ends[1]);
}

static void automounts_are_not_triggered(void **state)
{
    (void)state;
    struct automounter automounter;
    make("auto/below");
    bool is_mounted = automounter_start(&automounter, "indirect");
    if (is_mounted) {
        alarm(20); // a look-up that waits for the automounter ends this program
        assert_int_equal(hold(below("auto/host/file")), -ENOENT);
        assert_int_equal(hold(below("auto")), -ENOTSUP);
        assert_string_equal(walk(below("auto/*")), "!");
        assert_string_equal(walk(below("*/host")), "!");
        assert_string_equal(walk(folder), "");
        alarm(0);
    }
    automounter_end(&automounter);
    if (!is_mounted)
        skip_because("autofs cannot be mounted here: it takes root, and a kernel with autofs");
}

static void a_pending_automount_is_not_waited_for(void **state)
{
    (void)state;
    struct automounter automounter;
    make("auto/below");
    bool is_mounted = automounter_start(&automounter, "direct");
    if (is_mounted) {
        pid_t waits = fork();
        if (waits == 0)
            _exit(open(below("auto"), O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0);
        char request;
        assert_int_equal(read(automounter.ends[0], &request, 1), 1); // the mount is pending
        alarm(20);
        assert_true(hold(below("auto/file")) < 0);
        assert_true(hold(below("auto")) < 0);
        assert_string_equal(walk(folder), "");
        alarm(0);
        kill(waits, SIGKILL);
        assert_int_equal(waitpid(waits, NULL, 0), waits);
    }
    automounter_end(&automounter);
    if (!is_mounted)
        skip_because("autofs cannot be mounted here: it takes root, and a kernel with autofs");
}

// A name of a mounted VFAT can be longer than NAME_MAX. Other file systems refuse the name.
static void long_names_are_looked_up(void **state)
{
    (void)state;
    char path[NAMED_COMPONENT_MAX + TEMP_FOLDER_MAX + 10];
    const size_t sizes[] = {NAME_MAX, NAME_MAX + 1, NAMED_COMPONENT_MAX, NAMED_COMPONENT_MAX + 1};
    make("a");
    CLEANUP(close_fdp) int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct named_path how = {.mounts = &mounts};
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        int n = snprintf(path, sizeof(path), "%s/", folder);
        memset(path + n, 'n', sizes[i]);
        path[(size_t)n + sizes[i]] = '\0';
        int wanted = sizes[i] > NAME_MAX ? -ENAMETOOLONG : -ENOENT;
        assert_int_equal(hold(path), wanted);
        assert_int_equal(named_entry_hold(&how, fd, path + n), wanted);
        strcat(path, "*");
        assert_string_equal(walk(path), "!");
    }
}

static bool enters(void *userdata, int fd, const struct stat *st, mode_t bits)
{
    assert_true(bits == 01 || bits == 05);
    struct stat other;
    assert_int_equal(fstat(fd, &other), 0);
    assert_int_equal(other.st_ino, st->st_ino);
    return st->st_ino != *(ino_t *)userdata;
}

static void folders_may_be_refused(void **state)
{
    (void)state;
    struct stat st;
    make("real/a");
    make_link("real", "link");
    assert_int_equal(stat(below("real"), &st), 0);
    struct named_path how = {.mounts = &mounts, .may_use = enters, .userdata = &st.st_ino};
    struct stat found;
    assert_int_equal(named_path_hold(&how, below("real/a"), &found), -EACCES);
    CLEANUP(close_fdp) int fd = named_path_hold(&how, below("real"), &found);
    assert_true(fd >= 0);
    struct named_files walk;
    named_files_begin(&walk, &how, below("real"));
    assert_int_equal(named_files_next(&walk), -EACCES); // may not be listed
    named_files_end(&walk);
    how = (struct named_path){.mounts = &mounts, .no_links = true};
    assert_int_equal(named_path_hold(&how, below("link/a"), &found), -ELOOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(patterns_match_as_in_a_shell, setup, teardown),
        cmocka_unit_test_setup_teardown(named_links_are_followed_and_those_below_are_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_in_proc_is_looked_up, setup, teardown),
        cmocka_unit_test_setup_teardown(too_much_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_look_up_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(links_of_others_in_shared_folders_are_not_followed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(automounts_are_not_triggered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pending_automount_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(long_names_are_looked_up, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_may_be_refused, setup, teardown),
    };
    return cmocka_run_group_tests_name("named_files", tests, NULL, NULL);
}
