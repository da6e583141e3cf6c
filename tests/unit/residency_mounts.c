// SPDX-License-Identifier: Apache-2.0
//
// The search for files while mounts change, and in file systems of several layers. Each test runs
// in a mount namespace of its own.
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/unit/own_mounts.h"
#include "tests/unit/residency_tree.h"

static bool map_there(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED;
}

static int scan_layers(char *path, char *unused)
{
    (void)unused;
    if (!own_mounts() || chdir(path) < 0 || mount("a", "1", "tmpfs", 0, "") < 0 ||
        mount("b", "2", "tmpfs", 0, "") < 0)
        return -1;
    make_file("layers/1/a", 5000);
    make_file("layers/2/b", 5000);
    if (mount("o", "both", "overlay", 0, "lowerdir=1:2,xino=off") < 0)
        return -1;
    if (!map_there("both/a") || !map_there("both/b"))
        return 1;
    const int32_t pids[] = {getpid()};
    struct file_set_options options = {.pids = pids, .n_pids = 1, .max_files = 99, .proc = "/proc"};
    for (int i = 0; i < 3; i++) {
        struct file_set *set = scan(&options);
        if (!has(set, "layers/both/a") || !has(set, "layers/both/b"))
            return 2;
        file_set_free(set);
    }
    return 0;
}

// The first files of two file systems have the same inode number.
static void files_of_several_layers_are_told_apart(void **state)
{
    (void)state;
    make_dir("layers");
    make_dir("layers/1");
    make_dir("layers/2");
    make_dir("layers/both");
    char *path = path_of("layers");
    int r = check_in_a_child(scan_layers, path, NULL);
    free(path);
    if (r < 0)
        skip_because(
            "overlayfs cannot be mounted here: it takes root, and a kernel with overlayfs");
}

static void change_mounts(const char *folder)
{
    while (mount("changing", folder, "tmpfs", 0, "") == 0 && umount(folder) == 0)
        continue;
    _exit(1);
}

// Makes files on several file systems, in a mount namespace of its own.
static bool make_calm_files(void)
{
    char name[16];
    if (!own_mounts())
        return false;
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 0) {
            snprintf(name, sizeof(name), "calm/%d", i / 3);
            CLEANUP(freep) char *folder = path_of(name);
            if (mount("calm", folder, "tmpfs", 0, "") < 0)
                return false;
        }
        snprintf(name, sizeof(name), "calm/%d/%d", i / 3, i);
        make_file(name, 5000);
    }
    return true;
}

// Scans while another process changes the mounts all the time. Returns the number of the comparison
// that failed, or 0; -1 without the right to make namespaces.
static int scan_among_changes(char *path, char *folder)
{
    const int32_t pids[] = {getpid()};
    struct file_set_options options = {
        .paths = &path, .n_paths = 1, .pids = pids, .n_pids = 1, .max_files = 999, .proc = "/proc"};
    if (!make_calm_files())
        return -1;
    struct file_set *set = scan(&options);
    const size_t n_calm = file_set_files(set)->n;
    file_set_free(set); // and all that is known of mounts
    pid_t changer = fork();
    if (changer == 0)
        change_mounts(folder);
    nsec_t end = nsec_now(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC;
    int n_pauses = 0, wrong = 0;
    for (int i = 0; i < 20 || (n_pauses == 0 && nsec_now(CLOCK_MONOTONIC) < end); i++) {
        if (file_set_new(&options, &set, NULL) < 0)
            return 1;
        for (int r; (r = file_set_scan(set, 0)) != 0;) {
            nsec_t pause = file_set_resumes(set) - nsec_now(CLOCK_MONOTONIC);
            n_pauses += pause > 0;
            if (r < 0 || pause > NSEC_PER_SEC || nsec_now(CLOCK_MONOTONIC) > end)
                return 2;
            if (pause > 0)
                nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
        }
        wrong += file_set_files(set)->n != n_calm;
        file_set_free(set);
    }
    kill(changer, SIGKILL);
    waitpid(changer, NULL, 0);
    return n_pauses == 0 ? 3 : wrong ? 4 : 0;
}

// Returns as scan_among_changes() does.
static int look_among_changes(char *path, char *folder)
{
    struct file_set_options options = {
        .paths = &path, .n_paths = 1, .max_files = 999, .proc = "/proc"};
    if (!make_calm_files())
        return -1;
    // No file stays open.
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){648, 648}) < 0)
        return 1;
    struct file_set *set = scan(&options);
    pid_t changer = fork();
    if (changer == 0)
        change_mounts(folder);
    size_t n = 0;
    for (int round = 0; round < 20; round++) {
        nanosleep(&(struct timespec){.tv_nsec = 100 * NSEC_PER_MSEC}, NULL); // lists may be read
        vec_foreach(file_set_files(set), file) {
            int fd;
            if (file_set_acquire(set, *file, &fd) == 0) {
                file_set_release(set, *file, fd);
                n++;
            }
        }
        file_set_looked(set);
    }
    kill(changer, SIGKILL);
    waitpid(changer, NULL, 0);
    file_set_free(set);
    return n < 20 * 12 * 5 / 6 ? 2 : 0;
}

static void mounts_that_change_hide_no_file(void **state)
{
    (void)state;
    make_dir("calm");
    make_dir("calm/0");
    make_dir("calm/1");
    make_dir("calm/2");
    make_dir("calm/3");
    make_dir("changing");
    char *glob = path_of("cal*/*/*"), *changing = path_of("changing");
    bool may = check_in_a_child(scan_among_changes, glob, changing) == 0 &&
               check_in_a_child(look_among_changes, glob, changing) == 0;
    free(glob);
    free(changing);
    if (!may)
        skip_because("only root makes mount namespaces");
}

// Maps a file of each of many file systems, whose list takes long to read.
static bool map_many(const char *folder)
{
    char name[201], path[16];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    bool done = chdir(folder) == 0;
    for (int i = 0; done && i < 17; i++)
        done = mkdir(name, 0755) == 0 && chdir(name) == 0;
    for (int i = 0; done && i < 400; i++) {
        snprintf(name, sizeof(name), "%d", i);
        snprintf(path, sizeof(path), "%d/file", i);
        done = mkdir(name, 0755) == 0 && mount("many", name, "tmpfs", 0, "size=4k") == 0;
        CLEANUP(close_fdp) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        done = done && write(fd, "x", 1) == 1 && map_there(path);
    }
    return done;
}

// Returns as scan_among_changes() does.
static int scan_among_many_changes(char *folder, char *changing)
{
    const int32_t pids[] = {getpid()};
    struct file_set_options options = {
        .pids = pids, .n_pids = 1, .max_files = 9999, .proc = "/proc"};
    struct file_set *set;
    if (!own_mounts() || mount("all", folder, "tmpfs", 0, "") < 0)
        return -1;
    if (!map_many(folder) || file_set_new(&options, &set, NULL) < 0)
        return 1;
    pid_t changer = fork();
    if (changer == 0)
        change_mounts(changing);
    nsec_t begun = nsec_now(CLOCK_MONOTONIC), late = begun + 11 * NSEC_PER_SEC;
    int wrong = 0;
    while (wrong == 0 && file_set_scan(set, 0) != 0) {
        nsec_t now = nsec_now(CLOCK_MONOTONIC), pause = file_set_resumes(set) - now;
        wrong = pause > NSEC_PER_SEC ? 2 : pause > 0 && now > late ? 3 : 0;
        if (pause > 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
    }
    kill(changer, SIGKILL);
    waitpid(changer, NULL, 0);
    file_set_free(set);
    return wrong;
}

static void a_scan_among_changes_ends(void **state)
{
    (void)state;
    make_dir("many");
    make_dir("changing");
    char *many = path_of("many"), *changing = path_of("changing");
    int r = check_in_a_child(scan_among_many_changes, many, changing);
    free(many);
    free(changing);
    if (r < 0)
        skip_because("only root makes mount namespaces");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mounts_that_change_hide_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_among_changes_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(files_of_several_layers_are_told_apart, setup, teardown),
    };
    return cmocka_run_group_tests_name("residency_mounts", tests, NULL, NULL);
}
