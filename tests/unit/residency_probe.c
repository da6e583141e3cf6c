// SPDX-License-Identifier: Apache-2.0
//
// Real files on the file system of the working directory, judged by one plain mincore() over a
// mapping of the whole file.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/sources/residency/probe.h"
#include "tests/unit/ask_mincore.h"
#include "tests/unit/unit.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static uint64_t random_state = 88172645463325252;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static int make_file(off_t size)
{
    char path[] = "residency_probe.XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(ftruncate(fd, size), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); // no read-ahead
    return fd;
}

static void write_pages(int fd, uint64_t first, uint64_t n)
{
    for (uint64_t i = first; i < first + n; i++)
        assert_int_equal(pwrite(fd, "x", 1, (off_t)(i * PAGE)), 1);
}

// Makes `n` pages resident by reading holes: this needs no I/O, and clean pages can be dropped at
// once.
static void bring_in(int fd, uint64_t first, uint64_t n)
{
    char byte;
    for (uint64_t i = first; i < first + n; i++)
        assert_int_equal(pread(fd, &byte, 1, (off_t)(i * PAGE)), 1);
}

// Returns whether one method finds the ranges `want`.
static bool method_agrees(int fd, enum residency_method method, uint64_t pages,
                          const struct page_ranges *want)
{
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    int r = residency_probe_new(method, &probe);
    if (r == -ENOSYS && method == RESIDENCY_CACHESTAT)
        return true;
    assert_int_equal(r, 0);
    struct residency_counts counts;
    CLEANUP(page_ranges_done) struct page_ranges got = {0};
    assert_int_equal(residency_probe_ranges(probe, fd, &counts, &got), 0);
    assert_int_equal(counts.pages, pages);
    bool agrees = counts.cached == page_ranges_count(want) && page_ranges_equal(&got, want);
    assert_int_equal(residency_probe_counts(probe, fd, pages, &counts), 0);
    agrees &= counts.cached == page_ranges_count(want);

    // A walk in the smallest possible steps finds `want`, too.
    page_ranges_clear(&got);
    struct residency_walk walk = {.end = pages};
    do
        r = residency_probe_walk(probe, fd, &walk, 1, &got);
    while (r == RESIDENCY_E_AGAIN);
    assert_int_equal(r, 0);
    assert_int_equal(walk.next, pages);
    agrees &= page_ranges_equal(&got, want);
    bool same = true;
    if (residency_has_cachestat(probe))
        assert_int_equal(residency_probe_verify(probe, fd, counts.cached, want, &same), 0);
    return agrees && same;
}

// The kernel may reclaim pages during the check. A difference counts only if mincore() gives equal
// answers before and after.
static void check_all_methods(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    uint64_t pages = residency_pages(st.st_size, PAGE);
    for (int attempt = 0;; attempt++) {
        CLEANUP(page_ranges_done) struct page_ranges want = ask_mincore(fd, pages);
        bool agree = true;
        for (int method = RESIDENCY_AUTO; method <= RESIDENCY_CACHESTAT; method++)
            agree &= method_agrees(fd, method, pages, &want);
        if (agree)
            return;
        CLEANUP(page_ranges_done) struct page_ranges after = ask_mincore(fd, pages);
        assert_false(page_ranges_equal(&want, &after));
        assert_true(attempt < 20);
    }
}

static void random_holes_are_found_to_the_page(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        uint64_t pages = 1 + random_below(round % 4 ? 700 : 9000);
        CLEANUP(close_fdp) int fd = make_file((off_t)(pages * PAGE - random_below(PAGE)));
        check_all_methods(fd);
        uint64_t n_writes = random_below(round % 2 ? 8 : 200);
        for (uint64_t i = 0; i < n_writes; i++) {
            uint64_t first = random_below(pages), n = 1 + random_below(round % 3 ? 4 : 300);
            bring_in(fd, first, n < pages - first ? n : pages - first);
        }
        check_all_methods(fd);
        for (int i = 0; i < 4; i++) {
            uint64_t first = random_below(pages), n = 1 + random_below(pages / 4 + 1);
            posix_fadvise(fd, (off_t)(first * PAGE), (off_t)(n * PAGE), POSIX_FADV_DONTNEED);
        }
        check_all_methods(fd);
    }
}

// The stretches are long: the walk stops counting with cachestat() in mixed stretches, and counts
// again in uniform stretches.
static void mixed_and_calm_stretches_take_turns(void **state)
{
    (void)state;
    static const unsigned holes_percent[] = {1, 10, 50, 99};
    const uint64_t pages = 40000, stretch = 5000;
    for (size_t round = 0; round < 4; round++) {
        CLEANUP(close_fdp) int fd = make_file((off_t)(pages * PAGE));
        for (uint64_t i = 0; i < pages; i++)
            if (i / stretch % 4 == 1 ||
                (i / stretch % 2 == 0 && random_below(100) >= holes_percent[round]))
                bring_in(fd, i, 1);
        check_all_methods(fd);
    }
}

static struct residency_probe_stats stats_of_walk(int fd, uint64_t pages)
{
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    assert_int_equal(residency_probe_new(RESIDENCY_AUTO, &probe), 0);
    if (!residency_has_cachestat(probe))
        skip_because("the kernel has no cachestat (6.5)");
    struct residency_counts counts;
    struct residency_probe_stats stats;
    CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
    assert_int_equal(residency_probe_ranges(probe, fd, &counts, &ranges), 0);
    assert_int_equal(counts.pages, pages);
    residency_probe_get_stats(probe, &stats);
    return stats;
}

// A few counts are enough for uniform files, and no page of a mixed file is looked at twice.
static void asking_pays_for_itself(void **state)
{
    (void)state;
    const uint64_t pages = 100000;
    CLEANUP(close_fdp) int fd = make_file((off_t)(pages * PAGE));
    struct residency_probe_stats stats = stats_of_walk(fd, pages);
    assert_int_equal(stats.n_mincores, 0);
    assert_true(stats.n_cachestats < 32);

    bring_in(fd, 70000, 1); // one page: found where it is, at the price of its surroundings
    stats = stats_of_walk(fd, pages);
    assert_in_range(stats.n_mincore_pages, 1, 4096);
    assert_true(stats.n_cachestats < 64);

    for (uint64_t i = 0; i < pages; i++)
        if (random_below(2))
            bring_in(fd, i, 1);
    stats = stats_of_walk(fd, pages);
    assert_true(stats.n_mincore_pages <= pages);
    assert_true(stats.n_mincores < 64);
    assert_true(stats.n_cachestats < 64);
}

static void halves_go_and_come_back(void **state)
{
    (void)state;
    const uint64_t pages = 4096;
    CLEANUP(close_fdp) int fd = make_file((off_t)(pages * PAGE));
    bring_in(fd, 0, pages);
    check_all_methods(fd);
    for (uint64_t n = pages / 2; n; n /= 2) {
        posix_fadvise(fd, 0, (off_t)(n * PAGE), POSIX_FADV_DONTNEED);
        check_all_methods(fd);
        bring_in(fd, 0, n / 2);
        check_all_methods(fd);
    }
}

static void empty_and_growing_and_shrinking_files(void **state)
{
    (void)state;
    CLEANUP(close_fdp) int fd = make_file(0);
    check_all_methods(fd);
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    assert_int_equal(residency_probe_new(RESIDENCY_MINCORE, &probe), 0);
    write_pages(fd, 0, 600);
    check_all_methods(fd);

    // The caller still believes in 600 pages when the file has none: no signal, nothing resident.
    assert_int_equal(ftruncate(fd, 0), 0);
    struct page_ranges ranges = {0};
    struct residency_walk walk = {.end = 600};
    assert_int_equal(residency_probe_walk(probe, fd, &walk, NSEC_MAX, &ranges), 0);
    assert_int_equal(ranges.n, 0);
    page_ranges_done(&ranges);
}

static void verify_sees_a_silent_exchange(void **state)
{
    (void)state;
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    assert_int_equal(residency_probe_new(RESIDENCY_AUTO, &probe), 0);
    if (!residency_has_cachestat(probe))
        skip_because("the kernel has no cachestat (6.5)");
    CLEANUP(close_fdp) int fd = make_file((off_t)(100 * PAGE));
    write_pages(fd, 10, 5);
    struct residency_counts counts;
    CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
    assert_int_equal(residency_probe_ranges(probe, fd, &counts, &ranges), 0);
    assert_int_equal(counts.cached, 5);
    ranges.items[0] = (struct page_range){11, 16}; // as many pages, but not these
    bool same;
    assert_int_equal(residency_probe_verify(probe, fd, 5, &ranges, &same), 0);
    assert_false(same);
}

// Probes another user's file. If the file is only readable, mincore() would report all pages as
// resident. Returns 0 for the true answer, 1 for an unknown residency, or another number.
static int probe_as_stranger(int fd, enum residency_method method)
{
    if (setgid(65533) < 0 || setuid(65533) < 0)
        return 10;
    struct residency_probe *probe;
    if (residency_probe_new(method, &probe) < 0)
        return 11;
    struct residency_counts counts;
    struct page_ranges ranges = {0};
    int r = residency_probe_ranges(probe, fd, &counts, &ranges);
    if (r == RESIDENCY_E_UNKNOWN)
        return 1;
    return r == 0 && counts.cached == 0 ? 0 : 12; // 0: the true answer
}

static int ask_stranger(int fd, enum residency_method method)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(probe_as_stranger(fd, method));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void strangers_files_are_unknown_not_resident(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip_because("needs root");
    CLEANUP(close_fdp) int owned = make_file((off_t)(64 * PAGE));
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", owned);
    CLEANUP(close_fdp) int fd = open(link, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int method = RESIDENCY_AUTO; method <= RESIDENCY_CACHESTAT; method++) {
        bool missing = method == RESIDENCY_CACHESTAT;
        assert_int_equal(fchmod(owned, 0644), 0);
        int answer = ask_stranger(fd, method);
        if (method == RESIDENCY_MINCORE)
            assert_int_equal(answer, 1);
        else // before 6.15, cachestat() answers all users
            assert_true(answer <= 1 || (answer == 11 && missing));

        // A user who may write gets the true answer.
        assert_int_equal(fchmod(owned, 0666), 0);
        answer = ask_stranger(fd, method);
        assert_true(answer == 0 || (answer == 11 && missing));
    }
}

static void only_regular_files_are_opened(void **state)
{
    (void)state;
    char path[] = "residency_fifo.XXXXXX";
    CLEANUP(close_fdp) int taken = mkostemp(path, O_CLOEXEC);
    assert_true(taken >= 0);
    int fd = -1;
    struct stat st;
    assert_int_equal(residency_open(AT_FDCWD, path, &fd, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    close(fd);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(residency_open(AT_FDCWD, path, &fd, NULL), -EINVAL); // and does not block
    unlink(path);
    assert_int_equal(residency_open(AT_FDCWD, path, &fd, NULL), -ENOENT);
    assert_int_equal(residency_open(AT_FDCWD, "/dev/null", &fd, NULL), -EINVAL);
    assert_int_equal(residency_open(AT_FDCWD, ".", &fd, NULL), -EINVAL);
}

static void shared_memory_is_a_file_like_any_other(void **state)
{
    (void)state;
    CLEANUP(close_fdp) int fd = memfd_create("residency", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(500 * PAGE)), 0);
    check_all_methods(fd);
    for (uint64_t i = 0; i < 500; i += 17)
        write_pages(fd, i, 1 + i % 3);
    check_all_methods(fd);
}

static void huge_pages_are_unknown(void **state)
{
    (void)state;
    CLEANUP(close_fdp) int fd = memfd_create("residency", MFD_CLOEXEC | MFD_HUGETLB);
    if (fd < 0 || ftruncate(fd, 4 << 20) < 0)
        skip_because("the kernel has no huge pages for files in memory");
    for (int method = RESIDENCY_AUTO; method <= RESIDENCY_CACHESTAT; method++) {
        CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
        if (residency_probe_new(method, &probe) == -ENOSYS)
            continue;
        struct residency_counts counts;
        CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
        assert_int_equal(residency_probe_ranges(probe, fd, &counts, &ranges), RESIDENCY_E_UNKNOWN);
    }
}

static void resize_for_ever(int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t i = 0;; i++) {
        char byte;
        if (ftruncate(fd, (off_t)(i % 7 * 100 * PAGE)) < 0 ||
            pread(fd, &byte, 1, (off_t)(i % 500 * PAGE)) < 0)
            _exit(1);
    }
}

static void files_may_change_their_size_meanwhile(void **state)
{
    (void)state;
    CLEANUP(close_fdp) int fd = make_file((off_t)(600 * PAGE));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        resize_for_ever(fd);
    for (int i = 0; i < 600; i++) {
        CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
        if (residency_probe_new(i % 3, &probe) == -ENOSYS)
            continue;
        struct residency_counts counts;
        CLEANUP(page_ranges_done) struct page_ranges ranges = {0};
        assert_int_equal(residency_probe_ranges(probe, fd, &counts, &ranges), 0);
        assert_int_equal(page_ranges_count(&ranges), counts.cached);
        assert_true(!ranges.n || ranges.items[ranges.n - 1].end <= counts.pages);
    }
    kill(pid, SIGKILL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void counts_split_dirty_from_clean(void **state)
{
    (void)state;
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    assert_int_equal(residency_probe_new(RESIDENCY_AUTO, &probe), 0);
    if (!residency_has_cachestat(probe))
        skip_because("the kernel has no cachestat (6.5)");
    struct residency_counts counts;
    for (int attempt = 0; attempt < 20; attempt++) {
        CLEANUP(close_fdp) int fd = make_file((off_t)(100 * PAGE));
        write_pages(fd, 0, 30);
        assert_int_equal(fsync(fd), 0);
        write_pages(fd, 5, 10);
        assert_int_equal(residency_probe_counts(probe, fd, 100, &counts), 0);
        if (counts.cached == 30) // unless clean pages were reclaimed meanwhile
            break;
    }
    assert_int_equal(counts.cached, 30);
    assert_in_range(counts.dirty + counts.writeback, 10, 30); // large folios count whole
    assert_int_equal(counts.evicted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_holes_are_found_to_the_page),
        cmocka_unit_test(mixed_and_calm_stretches_take_turns),
        cmocka_unit_test(asking_pays_for_itself),
        cmocka_unit_test(halves_go_and_come_back),
        cmocka_unit_test(empty_and_growing_and_shrinking_files),
        cmocka_unit_test(verify_sees_a_silent_exchange),
        cmocka_unit_test(strangers_files_are_unknown_not_resident),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(shared_memory_is_a_file_like_any_other),
        cmocka_unit_test(huge_pages_are_unknown),
        cmocka_unit_test(files_may_change_their_size_meanwhile),
        cmocka_unit_test(counts_split_dirty_from_clean),
    };
    return cmocka_run_group_tests_name("residency_probe", tests, NULL, NULL);
}
