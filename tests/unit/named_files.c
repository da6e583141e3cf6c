// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/residency/named_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "tests/unit/temp_folder.h"

static char folder[TEMP_FOLDER_MAX];

static int setup(void **state)
{
    (void)state;
    temp_folder_make(folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
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

// Returns the names that the walk finds below `folder`, sorted by insertion into a set of 26
// letters: each file of these tests has a name of one letter. An error adds '!'.
static const char *walk(const char *pattern)
{
    static char names[32];
    static struct named_files found;
    bool has[27] = {0};
    int r;
    named_files_begin(&found, pattern);
    while ((r = named_files_next(&found)) != NAMED_END) {
        const char *name = strrchr(found.path, '/');
        name = name ? name + 1 : found.path;
        if (r == NAMED_FILE) {
            CLEANUP(close_fdp) int held = named_files_hold(&found);
            struct stat st;
            assert_true(held >= 0);
            assert_int_equal(fstat(held, &st), 0);
            assert_int_equal(st.st_ino, found.st.st_ino);
            has[*name - 'a'] = true;
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
    assert_int_equal(named_path_hold(below("loop")), -ELOOP);
    assert_int_equal(named_path_hold(below("real/a/")), -ENOTDIR);
}

static void nothing_in_proc_is_looked_up(void **state)
{
    (void)state;
    make("real/a");
    make_link("/proc/self/root", "root");
    make_link("/proc/self/map_files", "maps");
    assert_int_equal(named_path_hold("/proc/self/maps"), -ENOTSUP);
    assert_int_equal(named_path_hold(below("root")), -ENOTSUP);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/root%s/real/a", folder, folder);
    assert_int_equal(named_path_hold(path), -ENOTSUP);
    assert_int_equal(named_path_hold(below("maps")), -ENOTSUP);
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
    assert_int_equal(named_path_hold(path), -ENAMETOOLONG);
    assert_string_equal(walk(path), "!");
    for (size_t i = 0; i < sizeof(path) - 1; i += 2)
        path[i] = '/';
    assert_string_equal(walk(path), "!");
    snprintf(path, 400, "/%0300d/*", 0);
    assert_int_equal(named_path_hold(path), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(patterns_match_as_in_a_shell, setup, teardown),
        cmocka_unit_test_setup_teardown(named_links_are_followed_and_those_below_are_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_in_proc_is_looked_up, setup, teardown),
        cmocka_unit_test_setup_teardown(too_much_is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests_name("named_files", tests, NULL, NULL);
}
