// SPDX-License-Identifier: Apache-2.0
//
// CPU time of finding the resident runs of one file, beside the plain ways: one mincore() over the
// whole file, one mincore() per page, and vmtouch and fincore where they are installed (Debian:
// apt install vmtouch util-linux-extra; fincore is in util-linux before trixie). By itself:
//     build/tests/bench/bench_residency_probe [MEGABYTES [DIRECTORY]]
// The file is sparse, takes as much page cache as it has megabytes, and is removed at the end.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/sources/residency/probe.h"

#define REPEATS       15
#define REPEATS_PAGES 3 // slow, and far from all others

static size_t page_size;
static char path[4096]; // removed at exit

static void remove_file(void)
{
    unlink(path);
}

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static double cpu_seconds(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct file {
    int fd;
    uint64_t pages;
    bool full; // all pages are to be in memory
};

static void drop_all(const struct file *file)
{
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
}

// Brings pages in one by one, each a folio of its own, except about `holes` in 10,000.
static void bring_in_pages(const struct file *file, unsigned holes)
{
    char byte;
    uint64_t seed = 88172645463325252;
    drop_all(file);
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
    for (uint64_t i = 0; i < file->pages; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if (seed % 10000 >= holes && pread(file->fd, &byte, 1, (off_t)(i * page_size)) != 1)
            die("pread");
    }
}

static void bring_in_everything(const struct file *file)
{
    static char block[1 << 20];
    drop_all(file);
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (off_t at = 0; pread(file->fd, block, sizeof(block), at) > 0; at += sizeof(block))
        ;
}

static void bring_in_half(const struct file *file)
{
    bring_in_everything(file);
    posix_fadvise(file->fd, 0, (off_t)(file->pages / 2 * page_size), POSIX_FADV_DONTNEED);
}

static size_t run_probe(const struct file *file, enum residency_method method)
{
    struct residency_probe *probe;
    if (residency_probe_new(method, &probe) < 0)
        return 0;
    struct residency_counts counts;
    struct page_ranges ranges = {0};
    if (residency_probe_ranges(probe, file->fd, &counts, &ranges) != 0)
        die("probe");
    size_t n = ranges.n;
    page_ranges_done(&ranges);
    residency_probe_free(probe);
    return n;
}

static size_t run_mincore(const struct file *file, uint64_t pages_a_call)
{
    uint8_t *vector = malloc(file->pages);
    uint8_t *map = mmap(NULL, file->pages * page_size, PROT_NONE, MAP_SHARED, file->fd, 0);
    if (!vector || map == MAP_FAILED)
        die("mmap");
    for (uint64_t i = 0; i < file->pages; i += pages_a_call)
        if (mincore(map + i * page_size, pages_a_call * page_size, vector + i) < 0)
            die("mincore");
    struct page_ranges ranges = {0};
    for (uint64_t i = 0; i < file->pages; i++)
        if (vector[i] & 1)
            page_ranges_append(&ranges, i, i + 1);
    size_t n = ranges.n;
    page_ranges_done(&ranges);
    munmap(map, file->pages * page_size);
    free(vector);
    return n;
}

static size_t run_counts(const struct file *file)
{
    struct residency_probe *probe;
    if (residency_probe_new(RESIDENCY_AUTO, &probe) < 0)
        return 0;
    struct residency_counts counts;
    if (residency_probe_counts(probe, file->fd, file->pages, &counts) != 0)
        die("probe");
    residency_probe_free(probe);
    return counts.cached;
}

// Reads the pages in that were reclaimed: some machines do that all the time (DAMON), and a hole in
// a hundred MB is enough to make another case of a file that is cached as a whole.
static void refill(const struct file *file)
{
    struct residency_probe *probe;
    if (residency_probe_new(RESIDENCY_AUTO, &probe) < 0)
        return;
    struct residency_counts counts;
    struct page_ranges ranges = {0};
    char byte;
    uint64_t at = 0;
    if (residency_probe_ranges(probe, file->fd, &counts, &ranges) != 0)
        die("probe");
    page_ranges_push(&ranges, (struct page_range){.start = file->pages, .end = file->pages});
    vec_foreach(&ranges, range) {
        for (; at < range->start; at++)
            if (pread(file->fd, &byte, 1, (off_t)(at * page_size)) != 1)
                die("pread");
        at = range->end;
    }
    page_ranges_done(&ranges);
    residency_probe_free(probe);
}

// The CPU time of a program; negative if it is not installed.
static double run_program(const char *program)
{
    double before = cpu_seconds(RUSAGE_CHILDREN);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execlp(program, program, path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        die(program);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 127)
        return -1;
    return cpu_seconds(RUSAGE_CHILDREN) - before;
}

enum way { WAY_AUTO, WAY_COUNTS, WAY_CACHESTAT, WAY_MINCORE_WHOLE, WAY_MINCORE_PAGES, N_WAYS };

#define N_PROGRAMS 2

static size_t run_way(const struct file *file, enum way way)
{
    switch (way) {
    case WAY_AUTO:
        return run_probe(file, RESIDENCY_AUTO);
    case WAY_CACHESTAT:
        return run_probe(file, RESIDENCY_CACHESTAT);
    case WAY_COUNTS:
        return run_counts(file);
    case WAY_MINCORE_WHOLE:
        return run_mincore(file, file->pages);
    case WAY_MINCORE_PAGES:
    default:
        return run_mincore(file, 1);
    }
}

// Medians: on a busy machine the best is a matter of luck.
struct result {
    size_t n[N_WAYS]; // runs; pages of WAY_COUNTS
    double seconds[N_WAYS];
    double program_seconds[N_PROGRAMS]; // negative: not installed
};

static int compare_seconds(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds, size_t n)
{
    qsort(seconds, n, sizeof(*seconds), compare_seconds);
    return seconds[n / 2];
}

static const char *const programs[] = {"vmtouch", "fincore"};

// In turns, so that what else the machine does meets all of them.
static void measure(const struct file *file, struct result *ret)
{
    static double took[N_WAYS + N_PROGRAMS][REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        for (enum way way = WAY_AUTO; way < N_WAYS; way++) {
            if (way == WAY_MINCORE_PAGES && i >= REPEATS_PAGES)
                continue;
            if (file->full)
                refill(file);
            double start = now();
            ret->n[way] = run_way(file, way);
            took[way][i] = now() - start;
        }
        for (size_t j = 0; j < N_PROGRAMS; j++) {
            if (file->full)
                refill(file);
            took[N_WAYS + j][i] = run_program(programs[j]);
        }
    }
    for (enum way way = WAY_AUTO; way < N_WAYS; way++)
        ret->seconds[way] = median(took[way], way == WAY_MINCORE_PAGES ? REPEATS_PAGES : REPEATS);
    for (size_t j = 0; j < N_PROGRAMS; j++)
        ret->program_seconds[j] = median(took[N_WAYS + j], REPEATS);
}

static void compare(const struct file *file, const char *state)
{
    struct result result;
    measure(file, &result);
    const double *seconds = result.seconds, probe = seconds[WAY_AUTO];
    double best = seconds[WAY_MINCORE_PAGES];
    printf("%-22s %8zu %9.3f %9.3f", state, result.n[WAY_AUTO], probe * 1e3,
           seconds[WAY_COUNTS] * 1e3);
    for (size_t i = 0; i < N_PROGRAMS; i++) {
        double took = result.program_seconds[i];
        if (took < 0)
            printf(" %9s", "-");
        else
            printf(" %9.2f", took / probe);
        best = took >= 0 && took < best ? took : best;
    }
    printf(" %9.2f %9.2f %9.2f %9.2f %9.1f%s\n", seconds[WAY_MINCORE_PAGES] / probe,
           seconds[WAY_MINCORE_WHOLE] / probe, seconds[WAY_CACHESTAT] / probe, best / probe,
           best / seconds[WAY_COUNTS],
           result.n[WAY_AUTO] == result.n[WAY_MINCORE_WHOLE] ? "" : "   pages moved meanwhile");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t megabytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024;
    snprintf(path, sizeof(path), "%s/bench_residency.XXXXXX", argc > 2 ? argv[2] : ".");
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct file file = {.fd = mkostemp(path, O_CLOEXEC)};
    file.pages = (megabytes << 20) / page_size;
    if (file.fd >= 0)
        atexit(remove_file);
    if (file.fd < 0 || !file.pages || ftruncate(file.fd, (off_t)(megabytes << 20)) < 0)
        die(path);
    printf(
        "%llu MB, %llu pages. CPU ms of the probe and of counting alone; then how many times the "
        "probe's\ntime each other way takes; best: of vmtouch, fincore and one mincore a page, in "
        "times\nthe probe's and in times the counting's. - is not installed.\n",
        (unsigned long long)megabytes, (unsigned long long)file.pages);
    printf("%-22s %8s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "", "runs", "probe ms", "counts ms",
           "vmtouch", "fincore", "per page", "mincore", "cachestat", "best", "counts");
    compare(&file, "absent");
    bring_in_everything(&file);
    file.full = true;
    compare(&file, "cached, read ahead");
    file.full = false;
    bring_in_half(&file);
    compare(&file, "second half cached");
    bring_in_pages(&file, 0);
    file.full = true;
    compare(&file, "cached, page by page");
    file.full = false;
    bring_in_pages(&file, 10);
    compare(&file, "0.1 % holes");
    bring_in_pages(&file, 100);
    compare(&file, "1 % holes");
    bring_in_pages(&file, 1000);
    compare(&file, "10 % holes");
    bring_in_pages(&file, 5000);
    compare(&file, "50 % holes");
    bring_in_pages(&file, 9900);
    compare(&file, "99 % holes");
    close(file.fd);
    return 0;
}
