// SPDX-License-Identifier: Apache-2.0
//
// CPU time per round of linux.page_residency over many unchanged files, by itself:
//     build/tests/bench/bench_residency_sampler [FILES [DIRECTORY]]
// Files of 256 KiB in states from absent to eight runs; removed at the end.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elements.h"
#include "producer/sources/source.h"

extern const struct source_class residency_class;

#define PAGES  64
#define ROUNDS 100

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void make_file(const char *dir, unsigned i, unsigned n_runs)
{
    char path[4300], byte;
    snprintf(path, sizeof(path), "%s/%u", dir, i);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    long page_size = sysconf(_SC_PAGESIZE);
    if (fd < 0 || ftruncate(fd, PAGES * page_size) < 0)
        die(path);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (unsigned run = 0; run < n_runs; run++)
        if (pread(fd, &byte, 1, run * (PAGES / n_runs) * page_size) != 1)
            die(path);
    close(fd);
}

static void remove_files(const char *dir, unsigned n)
{
    char path[4300];
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%u", dir, i);
        unlink(path);
    }
    rmdir(dir);
}

static void measure(const char *parent, unsigned n_files, unsigned n_runs)
{
    char dir[4200];
    snprintf(dir, sizeof(dir), "%s/bench_residency.XXXXXX", parent);
    if (!mkdtemp(dir))
        die(dir);
    for (unsigned i = 0; i < n_files; i++)
        make_file(dir, i, n_runs);

    struct loop *loop = NULL;
    struct packet_buffer *buffer = NULL;
    struct err err = {0};
    if (loop_new(&loop) < 0 || packet_buffer_new(8 << 20, PACKET_BUFFER_RING, &buffer, &err) < 0)
        die("setup");
    struct packet_writer writer = packet_writer_over(buffer, 2);
    struct source_roots roots = {.proc = "/proc", .sys = "/sys"};
    static struct pid_feed pids;
    struct source_env env = {.loop = loop, .writer = &writer, .roots = &roots, .pids = &pids};
    char *paths[] = {dir};
    Pb__PageResidencyConfig residency = PB__PAGE_RESIDENCY_CONFIG__INIT;
    residency.paths = paths;
    residency.n_paths = 1;
    residency.max_files = n_files;
    residency.period_ms = 3600000;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.page_residency_config = &residency;
    struct source *source;
    if (residency_class.open(&env, &config, &source, &err) < 0 ||
        residency_class.start(source, &err) < 0)
        die(err.text);
    residency_class.flush(source); // the first samples

    uint64_t packets = writer.packets;
    double start = now();
    for (int i = 0; i < ROUNDS; i++)
        residency_class.flush(source);
    double took = (now() - start) / ROUNDS;
    printf("%u files in %2u runs: %.3f ms a round, %.0f ns a file, %.1f packets a round\n", n_files,
           n_runs, took * 1e3, took * 1e9 / n_files, (double)(writer.packets - packets) / ROUNDS);
    residency_class.stop(source);
    residency_class.close(source);
    packet_buffer_free(buffer);
    loop_free(loop);
    remove_files(dir, n_files);
}

int main(int argc, char **argv)
{
    unsigned n_files = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000;
    const char *parent = argc > 2 ? argv[2] : ".";
    static const unsigned runs[] = {0, 1, 2, 4, 8, 16};
    for (size_t i = 0; i < ELEMENTS(runs); i++)
        measure(parent, n_files, runs[i]);
    return 0;
}
