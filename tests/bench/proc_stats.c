// SPDX-License-Identifier: Apache-2.0
//
// The cost of a sample of /proc/vmstat and of a poll of all processes, beside the reads that no
// reader can save: the ratio is what this project adds.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "producer/ground/loop.h"
#include "producer/sources/source.h"
#include "producer/sources/sys_stats/counter_keys.h"
#include "producer/trace/packet_buffer.h"
#include "protos/fields.h"

#define N_SAMPLES 20000
#define N_POLLS   500

static nsec_t cpu_now(void)
{
    return nsec_now(CLOCK_PROCESS_CPUTIME_ID);
}

static void print_costs(const char *what, nsec_t bare, nsec_t whole, int n)
{
    printf("%-24s %8.2f us, of which reading %8.2f us: ratio %.2f\n", what,
           (double)whole / n / 1000, (double)bare / n / 1000, (double)whole / (double)bare);
}

static int bench_vmstat(struct packet_buffer *buffer)
{
    static char text[32768];
    struct text_file file;
    struct counter_set set;
    if (text_file_open(&file, 96, "/proc", "/vmstat") < 0 ||
        counter_set_init(&set, &counter_kind_vmstat, NULL, 0) > 0)
        return 1;
    ssize_t n = text_file_read(&file, text, sizeof(text));
    if (n <= 0 || counter_set_learn(&set, span_over(text, (size_t)n)) < 0)
        return 1;
    text_file_keep_end(&file, span_over(text, (size_t)n));
    nsec_t start = cpu_now();
    for (int i = 0; i < N_SAMPLES; i++)
        if (pread(file.fd, text, sizeof(text), 0) <= 0)
            return 1;
    nsec_t bare = cpu_now() - start;
    struct packet_writer writer = packet_writer_over(buffer, 2);
    start = cpu_now();
    for (int i = 0; i < N_SAMPLES; i++) {
        n = text_file_read(&file, text, sizeof(text));
        struct wire_writer *w = packet_writer_begin(&writer, start, 8192);
        size_t mark = wire_begin(w, PB_TracePacket_sys_stats);
        counter_set_write(&set, span_over(text, (size_t)n), w, PB_SysStats_vmstat);
        wire_end(w, mark);
        packet_writer_end(&writer);
    }
    nsec_t whole = cpu_now() - start;
    printf("%zu counters of /proc/vmstat\n", set.n_places);
    print_costs("vmstat sample", bare, whole, N_SAMPLES);
    counter_set_done(&set);
    text_file_close(&file);
    return 0;
}

// Lists /proc and reads status and oom_score_adj of every process that has memory, through files
// that stay open.
static nsec_t read_processes(int n_polls, unsigned *ret_n_processes)
{
    static char text[16384];
    int fds[8192];
    unsigned n_fds = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) && n_fds + 2 <= 512;) {
        char path[300];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%s/status", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (!strstr(text, "VmSize")) {
            close(fd);
            continue;
        }
        fds[n_fds++] = fd;
        snprintf(path, sizeof(path), "/proc/%s/oom_score_adj", entry->d_name);
        fds[n_fds++] = open(path, O_RDONLY | O_CLOEXEC);
    }
    nsec_t start = cpu_now();
    for (int i = 0; i < n_polls; i++) {
        // Both sides wake up for each poll, with caches that others have used meanwhile.
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        rewinddir(dir);
        while (readdir(dir))
            ;
        for (unsigned j = 0; j < n_fds; j++)
            if (pread(fds[j], text, sizeof(text), 0) < 0)
                continue;
    }
    nsec_t elapsed = cpu_now() - start;
    for (unsigned j = 0; j < n_fds; j++)
        close(fds[j]);
    closedir(dir);
    *ret_n_processes = n_fds / 2;
    return elapsed;
}

static int bench_processes(struct packet_buffer *buffer)
{
    unsigned n_processes = 0;
    nsec_t bare = read_processes(N_POLLS, &n_processes);
    struct loop *loop;
    if (loop_new(&loop) < 0)
        return 1;
    const struct source_roots roots = {.proc = "/proc", .sys = "/sys"};
    struct packet_writer writer = packet_writer_over(buffer, 3);
    struct source_env env = {.loop = loop, .writer = &writer, .roots = &roots};
    Pb__ProcessStatsConfig process_stats = PB__PROCESS_STATS_CONFIG__INIT;
    process_stats.proc_stats_poll_ms = 1;
    process_stats.proc_stats_cache_ttl_ms = 3600000;
    Pb__DataSourceConfig config = PB__DATA_SOURCE_CONFIG__INIT;
    config.process_stats_config = &process_stats;
    const struct source_class *class = source_class_find("linux.process_stats");
    struct source *source;
    struct err err = {0};
    if (class->open(&env, &config, &source, &err) < 0 || class->start(source, &err) < 0)
        return 1;
    loop_run_once(loop, NSEC_PER_SEC); // names everybody
    nsec_t start = cpu_now();
    for (int i = 0; i < N_POLLS; i++)
        loop_run_once(loop, NSEC_PER_SEC);
    nsec_t whole = cpu_now() - start;
    printf("%u processes with memory\n", n_processes);
    print_costs("poll of all processes", bare, whole, N_POLLS);
    class->stop(source);
    class->close(source);
    loop_free(loop);
    return 0;
}

int main(void)
{
    struct packet_buffer *buffer;
    if (packet_buffer_new(4u << 20, PACKET_BUFFER_RING, &buffer, NULL) < 0)
        return 1;
    int failed = bench_vmstat(buffer) || bench_processes(buffer);
    packet_buffer_free(buffer);
    return failed;
}
