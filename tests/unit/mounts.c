// SPDX-License-Identifier: Apache-2.0
#include "producer/foreign/mounts.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "tests/unit/own_mounts.h"
#include "tests/unit/temp_folder.h"

#define LIST_MAX ((size_t)128 << 10) // of a process

// Judges a file, also if other programs change mounts meanwhile.
static int judge(struct foreign_mounts *mounts, int32_t pid, int fd)
{
    int r;
    do {
        mounts->trusted->renew_earliest = 0;
        r = foreign_mounts_judge(mounts, pid, fd);
    } while (r == -EAGAIN && mounts->is_refused);
    return r;
}

static void a_file_of_this_namespace_is_trusted(void **state)
{
    (void)state;
    struct foreign_mounts mounts;
    char folder[TEMP_FOLDER_MAX];
    temp_folder_make(folder);
    foreign_mounts_init(&mounts, "/proc");
    CLEANUP(close_fdp) int fd = open(folder, O_PATH | O_CLOEXEC);
    assert_int_equal(judge(&mounts, getpid(), fd), 0);
    assert_int_equal(judge(&mounts, 1, fd), 0);
    CLEANUP(close_fdp) int memory = memfd_create("memory", MFD_CLOEXEC);
    assert_int_equal(judge(&mounts, getpid(), memory), 0);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0); // files that no namespace has
    assert_int_equal(judge(&mounts, getpid(), ends[0]), -ENODEV);
    assert_int_equal(judge(&mounts, 0, ends[0]), -EXDEV);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(judge(&mounts, getpid(), -1), -ENOENT);
    foreign_mounts_done(&mounts);
    assert_int_equal(rmdir(folder), 0);
}

// A lack of descriptors says nothing about a file.
static void without_descriptors_nothing_is_judged(void **state)
{
    (void)state;
    struct rlimit limit, none;
    struct foreign_mounts mounts;
    foreign_mounts_init(&mounts, "/proc");
    CLEANUP(close_fdp) int fd = open("/", O_PATH | O_CLOEXEC);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int r = judge(&mounts, 0, fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(r, -EMFILE);
    assert_int_equal(judge(&mounts, 0, fd), 0);
    foreign_mounts_done(&mounts);
}

// A process in a mount namespace of its own.
struct neighbour {
    pid_t pid;
    int to, from; // its end ends the process
};

// Returns false if this user cannot make namespaces.
static bool neighbour_start(struct neighbour *ret, const char *folder)
{
    int to[2], from[2];
    char c = 'y';
    assert_int_equal(pipe2(to, O_CLOEXEC) + pipe2(from, O_CLOEXEC), 0);
    *ret = (struct neighbour){.pid = fork(), .to = to[1], .from = from[0]};
    if (ret->pid == 0) {
        close(to[1]);
        if (!own_mounts())
            c = 'n';
        do {
            if (c == 'm' ? mount("own", folder, "tmpfs", 0, "") < 0
                         : c == 'u' && umount2(folder, MNT_DETACH) < 0)
                c = 'n';
            (void)!write(from[1], &c, 1);
        } while (read(to[0], &c, 1) == 1);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    return read(ret->from, &c, 1) == 1 && c == 'y';
}

static bool neighbour_changes(const struct neighbour *neighbour, char c)
{
    return write(neighbour->to, &c, 1) == 1 && read(neighbour->from, &c, 1) == 1 && c != 'n';
}

static void neighbour_end(struct neighbour *neighbour)
{
    close(neighbour->to);
    close(neighbour->from);
    assert_int_equal(waitpid(neighbour->pid, NULL, 0), neighbour->pid);
}

static int hold_there(const struct neighbour *neighbour, const char *path)
{
    char full[128];
    snprintf(full, sizeof(full), "/proc/%d/root%s", (int)neighbour->pid, path);
    return open(full, O_PATH | O_CLOEXEC);
}

// Checks with a neighbour, which can mount a file system at the folder.
static void check_beside(void (*check)(struct foreign_mounts *mounts,
                                       const struct neighbour *neighbour, const char *folder))
{
    struct foreign_mounts mounts;
    struct neighbour neighbour;
    char folder[TEMP_FOLDER_MAX];
    temp_folder_make(folder);
    bool started = neighbour_start(&neighbour, folder);
    if (started) {
        foreign_mounts_init(&mounts, "/proc");
        check(&mounts, &neighbour, folder);
        foreign_mounts_done(&mounts);
    }
    neighbour_end(&neighbour);
    assert_int_equal(rmdir(folder), 0);
    if (!started)
        skip_because("only root makes mount namespaces");
}

static void judge_there(struct foreign_mounts *mounts, const struct neighbour *neighbour,
                        const char *folder)
{
    CLEANUP(close_fdp) int shared = hold_there(neighbour, folder);
    assert_int_equal(judge(mounts, neighbour->pid, shared), 0);
    // The list of the neighbour's mounts is known, and changes now.
    assert_true(neighbour_changes(neighbour, 'm'));
    CLEANUP(close_fdp) int own = hold_there(neighbour, folder);
    assert_int_equal(judge(mounts, neighbour->pid, own), -EXDEV);
    assert_int_equal(judge(mounts, neighbour->pid, shared), 0);
    // Another process leads to the file: it was passed on.
    assert_int_equal(judge(mounts, getpid(), own), -ENODEV);
    assert_int_equal(judge(mounts, getpid(), shared), 0); // known by now
}

static void a_file_system_that_is_mounted_there_alone_is_not_trusted(void **state)
{
    (void)state;
    check_beside(judge_there);
}

// Runs in a mount namespace of its own. Returns the number of the comparison that failed, or 0; -1
// without the right to make namespaces.
static int change_twice(const char *folder)
{
    struct foreign_mounts mounts;
    if (!own_mounts())
        return -1;
    foreign_mounts_init(&mounts, "/proc");
    int before = open(folder, O_PATH | O_CLOEXEC);
    if (foreign_mounts_judge(&mounts, 0, before) != 0)
        return 1;
    mounts.trusted->renew_earliest = NSEC_MAX;
    if (mount("new", folder, "tmpfs", 0, "") < 0)
        return 2;
    int after = open(folder, O_PATH | O_CLOEXEC);
    for (int i = 0; i < 3; i++) // poll() tells of the change once
        if (foreign_mounts_judge(&mounts, 0, after) != -EAGAIN || !mounts.is_refused ||
            foreign_mounts_judge(&mounts, 0, before) != 0 || mounts.is_refused)
            return 3;
    mounts.trusted->renew_earliest = 0;
    if (foreign_mounts_judge(&mounts, 0, after) != 0 ||
        foreign_mounts_judge(&mounts, 0, before) != 0)
        return 4;
    return 0;
}

static void check_in_a_child(int (*check)(const char *folder))
{
    int status;
    char folder[TEMP_FOLDER_MAX];
    temp_folder_make(folder);
    pid_t child = fork();
    if (child == 0)
        _exit(check(folder));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rmdir(folder), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0xff)
        skip_because("only root makes mount namespaces");
    assert_int_equal(status, 0);
}

static void an_old_list_judges_nothing(void **state)
{
    (void)state;
    check_in_a_child(change_twice);
}

// Runs in a mount namespace of its own. One reading, and one judgement, serve all. Returns as
// change_twice() does.
static int judge_for_all(const char *folder)
{
    struct foreign_mounts many[100];
    if (!own_mounts() || mount("new", folder, "tmpfs", 0, "") < 0)
        return -1;
    for (size_t i = 0; i < ELEMENTS(many); i++)
        if (foreign_mounts_init(&many[i], "/proc") < 0)
            return 1;
    int root = open("/", O_PATH | O_CLOEXEC), file = open(folder, O_PATH | O_CLOEXEC);
    if (foreign_mounts_judge(&many[0], 0, root) != 0)
        return 2;
    many[0].trusted->renew_earliest = 0;
    if (umount2(folder, MNT_DETACH) < 0 || mount("other", folder, "tmpfs", 0, "") < 0)
        return 3;
    int other = open(folder, O_PATH | O_CLOEXEC);
    if (foreign_mounts_judge(&many[1], 0, other) != 0)
        return 4;
    many[0].trusted->renew_earliest = NSEC_MAX; // no list is read from here on
    for (int n = 0; n < 3; n++) {
        if (umount2(folder, MNT_DETACH) < 0 || mount("again", folder, "tmpfs", 0, "") < 0)
            return 5;
        for (size_t i = 0; i < ELEMENTS(many); i++)
            if (foreign_mounts_judge(&many[i], 0, other) != 0 ||
                foreign_mounts_judge(&many[i], 0, root) != 0 ||
                foreign_mounts_judge(&many[i], 0, file) != -EAGAIN)
                return 6;
    }
    for (size_t i = 0; i < ELEMENTS(many); i++)
        foreign_mounts_done(&many[i]);
    return 0;
}

static void all_know_what_one_has_judged(void **state)
{
    (void)state;
    check_in_a_child(judge_for_all);
}

// Holds a file of each of more mounts than are held, and uses the first ones again and again.
static int judge_many_mounts(const char *folder)
{
    enum { N = FOREIGN_HELD_MAX + 20, USED = 5 };
    struct foreign_mounts mounts;
    int fds[N];
    char name[TEMP_FOLDER_MAX + 16];
    if (!own_mounts() || mount("all", folder, "tmpfs", 0, "") < 0)
        return -1;
    if (foreign_mounts_init(&mounts, "/proc") < 0)
        return 1;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "%s/%d", folder, i);
        if (mkdir(name, 0755) < 0 || mount("many", name, "tmpfs", 0, "size=4k") < 0)
            return 2;
        fds[i] = open(name, O_PATH | O_CLOEXEC);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k <= USED; k++)
            if (foreign_mounts_judge(&mounts, 0, fds[k < USED && k < i ? k : i]) != 0)
                return 3;
    if (mounts.trusted->n_verdicts != FOREIGN_HELD_MAX)
        return 4;
    mounts.trusted->renew_earliest = NSEC_MAX;
    snprintf(name, sizeof(name), "%s/0", folder);
    if (mount("change", name, "tmpfs", 0, "") < 0)
        return 5;
    for (int i = 0; i < USED; i++)
        if (foreign_mounts_judge(&mounts, 0, fds[i]) != 0)
            return 6;
    if (foreign_mounts_judge(&mounts, 0, fds[N - 1]) != 0 ||
        foreign_mounts_judge(&mounts, 0, fds[USED]) != -EAGAIN)
        return 7;
    for (size_t i = 0; i < mounts.trusted->n_verdicts; i++)
        mounts.trusted->verdicts[i].used -= 60 * NSEC_PER_SEC;
    foreign_mounts_tidy(&mounts);
    if (mounts.trusted->n_verdicts != 0)
        return 8;
    foreign_mounts_done(&mounts);
    return 0;
}

static void the_mounts_in_use_stay_known(void **state)
{
    (void)state;
    check_in_a_child(judge_many_mounts);
}

// The list of a process that changes now and then is read each time, but not too often.
static void judge_changes(struct foreign_mounts *mounts, const struct neighbour *neighbour,
                          const char *folder)
{
    int n_late = 0;
    for (int i = 0; i < 12; i++) {
        assert_true(neighbour_changes(neighbour, 'm'));
        CLEANUP(close_fdp) int own = hold_there(neighbour, folder);
        int r = judge(mounts, neighbour->pid, own);
        if (r == -EAGAIN) { // later, the file is judged
            n_late++;
            mounts->other_until = 0;
            r = judge(mounts, neighbour->pid, own);
        }
        assert_int_equal(r, -EXDEV);
        assert_true(neighbour_changes(neighbour, 'u'));
        assert_int_equal(judge(mounts, neighbour->pid, own), -EXDEV); // known
    }
    assert_true(n_late <= 2); // four readings in a period
}

static void a_process_may_change_its_mounts(void **state)
{
    (void)state;
    check_beside(judge_changes);
}

// VFAT and NTFS have names of more than NAME_MAX bytes.
static void long_names_are_no_automounts(void **state)
{
    (void)state;
    char name[PATH_MAX + 10], folder[TEMP_FOLDER_MAX];
    struct foreign_mounts mounts;
    temp_folder_make(folder);
    CLEANUP(close_fdp) int fd = open(folder, O_PATH | O_CLOEXEC);
    foreign_mounts_init(&mounts, "/proc");
    for (size_t size = 200; size <= sizeof(name) - 1; size += 1) {
        memset(name, 'n', size);
        name[size] = '\0';
        assert_int_equal(map64_set(&mounts.trusted->automounts, 1, 0), 0);
        assert_false(foreign_mounts_is_automount(&mounts, fd, name));
        char path[PATH_MAX + NAME_MAX];
        int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
        if (n > PATH_MAX)
            continue;
        assert_int_equal(
            map64_set(&mounts.trusted->automounts, table_hash_bytes(path, (size_t)n), 0), 0);
        assert_true(foreign_mounts_is_automount(&mounts, fd, name));
        map64_clear(&mounts.trusted->automounts);
    }
    foreign_mounts_done(&mounts);
    assert_int_equal(rmdir(folder), 0);
}

// The list of a process is read to its limit, and a line at the limit counts as a whole or not at
// all.
static void a_cut_line_is_not_read(void **state)
{
    (void)state;
    char folder[TEMP_FOLDER_MAX], line[64];
    struct foreign_mounts mounts;
    struct stat st;
    uint64_t number;
    temp_folder_make(folder);
    CLEANUP(close_fdp) int held = open(folder, O_PATH | O_CLOEXEC);
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(foreign_mount_number(ends[0], &number), 0);
    assert_int_equal(fstat(held, &st), 0);
    // The cut line "N 1 MAJOR:MINOR0 ..." names the device of the folder, without its last digit.
    CLEANUP(freep) char *text = malloc(LIST_MAX + 200);
    assert_non_null(text);
    int n = snprintf(line, sizeof(line), "%u 1 %u:%u", (unsigned)number, major(st.st_dev),
                     minor(st.st_dev));
    memset(text, 'x', LIST_MAX);
    text[LIST_MAX - (size_t)n - 1] = '\n';
    snprintf(text + LIST_MAX - (size_t)n, (size_t)n + 80, "%s0 / / rw - none\n", line);
    temp_file_write(folder, "7/mountinfo", text, strlen(text));
    snprintf(text, LIST_MAX, "%s / / rw - none\n", line);
    temp_file_write(folder, "8/mountinfo", text, strlen(text));
    foreign_mounts_init(&mounts, folder);
    assert_int_equal(judge(&mounts, 0, held), 0);
    assert_int_equal(judge(&mounts, 7, ends[0]), -ENODEV);
    assert_int_equal(judge(&mounts, 8, ends[0]), 0); // the same line as a whole
    foreign_mounts_done(&mounts);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(temp_folder_remove(folder), 0);
}

static void fuse_of_a_user_is_not_trusted(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int result;
    } cases[] = {
        {"fuse.sshfs user@host:/x rw,user_id=54321,group_id=1,allow_other", -EXDEV},
        {"fuse none rw,user_id=54321", -EXDEV},
        {"fuse.root /dev/x rw,user_id=0,group_id=0", 0},
        {"ext4 /dev/x rw,user_id=54321", 0},
    };
    char folder[TEMP_FOLDER_MAX], line[200];
    struct foreign_mounts mounts;
    uint64_t number;
    int ends[2];
    temp_folder_make(folder);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(foreign_mount_number(ends[0], &number), 0);
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        snprintf(line, sizeof(line), "%u 1 9:9 / /x rw shared:1 - %s\n", (unsigned)number,
                 cases[i].type);
        temp_file_write(folder, "1/mountinfo", line, strlen(line));
        foreign_mounts_init(&mounts, folder);
        assert_int_equal(judge(&mounts, 0, ends[0]), cases[i].result);
        foreign_mounts_done(&mounts);
    }
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(temp_folder_remove(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_this_namespace_is_trusted),
        cmocka_unit_test(without_descriptors_nothing_is_judged),
        cmocka_unit_test(a_file_system_that_is_mounted_there_alone_is_not_trusted),
        cmocka_unit_test(an_old_list_judges_nothing),
        cmocka_unit_test(all_know_what_one_has_judged),
        cmocka_unit_test(the_mounts_in_use_stay_known),
        cmocka_unit_test(a_process_may_change_its_mounts),
        cmocka_unit_test(long_names_are_no_automounts),
        cmocka_unit_test(a_cut_line_is_not_read),
        cmocka_unit_test(fuse_of_a_user_is_not_trusted),
    };
    return cmocka_run_group_tests_name("mounts", tests, NULL, NULL);
}
