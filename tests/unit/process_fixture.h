// SPDX-License-Identifier: Apache-2.0
//
// A made-up /proc for linux.process_stats, and questions about the processes of a trace.
#pragma once

#include "producer/sources/process_stats/internal.h"
#include "tests/unit/source_fixture.h"

// A process or a thread of the made-up /proc.
struct fake {
    int pid, tgid, ppid;
    const char *comm;
    unsigned n_threads, rss_kb; // 0 KB: a kernel thread
    unsigned start_ticks;
};

static inline void write_fake(const struct source_fixture *f, const struct fake *fake,
                              const char *dir)
{
    char path[160], text[512];
    int n = snprintf(text, sizeof(text),
                     "Name:\t%s\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\nUid:\t5\t5\t5\t5\nNSpid:\t%d\n"
                     "Kthread:\t%d\n",
                     fake->comm, fake->tgid, fake->pid, fake->ppid, fake->pid, !fake->rss_kb);
    if (fake->rss_kb)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "VmSize:\t%u kB\nVmRSS:\t%u kB\n",
                      fake->rss_kb * 2, fake->rss_kb);
    snprintf(text + n, sizeof(text) - (size_t)n, "Threads:\t%u\n", fake->n_threads);
    snprintf(path, sizeof(path), "%s/status", dir);
    fixture_text(f, path, text);
    snprintf(text, sizeof(text), "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 150 250 0 0 20 0 1 0 %u 0 0\n",
             fake->pid, fake->comm, fake->start_ticks);
    snprintf(path, sizeof(path), "%s/stat", dir);
    fixture_text(f, path, text);
}

static inline void write_process(const struct source_fixture *f, struct fake fake,
                                 const char *cmdline, size_t n_cmdline)
{
    char dir[64], path[96];
    fake.tgid = fake.pid;
    snprintf(dir, sizeof(dir), "proc/%d", fake.pid);
    write_fake(f, &fake, dir);
    snprintf(path, sizeof(path), "%s/cmdline", dir);
    fixture_write(f, path, cmdline, n_cmdline);
    snprintf(path, sizeof(path), "%s/oom_score_adj", dir);
    fixture_text(f, path, "-17\n");
    snprintf(dir, sizeof(dir), "proc/%d/task/%d", fake.pid, fake.pid);
    write_fake(f, &fake, dir);
}

static inline void write_app(const struct source_fixture *f, int pid)
{
    write_process(f, (struct fake){.pid = pid, .comm = "app", .n_threads = 1, .rss_kb = 20}, "app",
                  3);
}

static inline void write_thread(const struct source_fixture *f, int tid, int tgid, const char *comm)
{
    char dir[64];
    struct fake fake = {
        .pid = tid, .tgid = tgid, .ppid = 1, .comm = comm, .n_threads = 2, .rss_kb = 1};
    snprintf(dir, sizeof(dir), "proc/%d/task/%d", tgid, tid);
    write_fake(f, &fake, dir);
    // The kernel has /proc/TID for a thread, too, but does not list it. The fake /proc lists it, so
    // the source must see by Tgid that it is not a process.
    snprintf(dir, sizeof(dir), "proc/%d", tid);
    write_fake(f, &fake, dir);
}

static inline void remove_tree(const struct source_fixture *f, const char *path)
{
    char full[160];
    snprintf(full, sizeof(full), "%s/%s", f->root, path);
    assert_int_equal(temp_folder_remove(full), 0);
}

static inline void remove_process(const struct source_fixture *f, int pid)
{
    char path[32];
    snprintf(path, sizeof(path), "proc/%d", pid);
    remove_tree(f, path);
}

// Sets `ret` to the latest name that the trace gives to a process (field: processes) or thread
// (threads). Returns the number of names in the trace.
static inline unsigned name_in_trace(const struct source_fixture *f, uint32_t list, int id,
                                     char *ret, size_t size)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    unsigned n = 0;
    ret[0] = 0;
    while (packet_buffer_next(f->buffer, &cursor, &view)) {
        struct wire_field tree, item, name;
        if (!message_field(view.data, view.size, PB_TracePacket_process_tree, &tree))
            continue;
        struct wire_reader reader = wire_sub(&tree);
        while (wire_next(&reader, &item)) {
            if (item.number != list || message_number(item.data, item.size, 1) != (uint64_t)id)
                continue;
            uint32_t field = list == PB_ProcessTree_processes ? PB_ProcessTree_Process_cmdline
                                                              : PB_ProcessTree_Thread_name;
            if (message_field(item.data, item.size, field, &name))
                snprintf(ret, size, "%.*s", (int)name.size, (const char *)name.data);
            n++;
        }
    }
    return n;
}

static inline void assert_process(const struct source_fixture *f, int pid, const char *name)
{
    char found[64] = "";
    assert_true(name_in_trace(f, PB_ProcessTree_processes, pid, found, sizeof(found)) > 0);
    assert_string_equal(found, name);
}

static inline void assert_thread(const struct source_fixture *f, int tid, const char *name)
{
    char found[64] = "";
    assert_true(name_in_trace(f, PB_ProcessTree_threads, tid, found, sizeof(found)) > 0);
    assert_string_equal(found, name);
}

// Sets *ret to the last value of counter `field` of `pid`. Returns the number of values in the
// trace.
static inline unsigned counter_in_trace(const struct source_fixture *f, int pid, uint32_t field,
                                        int64_t *ret)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    unsigned n = 0;
    while (packet_buffer_next(f->buffer, &cursor, &view)) {
        struct wire_field stats, item, value;
        if (!message_field(view.data, view.size, PB_TracePacket_process_stats, &stats))
            continue;
        struct wire_reader reader = wire_sub(&stats);
        while (wire_next(&reader, &item)) {
            if (item.number != PB_ProcessStats_processes ||
                message_number(item.data, item.size, 1) != (uint64_t)pid ||
                !message_field(item.data, item.size, field, &value))
                continue;
            *ret = (int64_t)value.value;
            n++;
        }
    }
    return n;
}

static inline unsigned ends_in_trace(const struct source_fixture *f, int pid)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    unsigned n = 0;
    while (packet_buffer_next(f->buffer, &cursor, &view)) {
        struct wire_field stats, item;
        if (!message_field(view.data, view.size, PB_TracePacket_process_stats, &stats))
            continue;
        struct wire_reader reader = wire_sub(&stats);
        while (wire_next(&reader, &item))
            n += item.number == PB_ProcessStats_ended &&
                 message_number(item.data, item.size, PB_ProcessStats_Ended_pid) == (uint64_t)pid;
    }
    return n;
}

struct setup {
    Pb__ProcessStatsConfig process_stats;
    Pb__DataSourceConfig config;
};

static inline void begin(struct source_fixture *f, struct setup *setup, size_t buffer_bytes)
{
    fixture_init(f, "linux.process_stats", buffer_bytes);
    setup->process_stats = (Pb__ProcessStatsConfig)PB__PROCESS_STATS_CONFIG__INIT;
    setup->config = (Pb__DataSourceConfig)PB__DATA_SOURCE_CONFIG__INIT;
    setup->config.process_stats_config = &setup->process_stats;
}

static inline void run_until_wraps(struct source_fixture *f, uint64_t n_wraps,
                                   struct packet_buffer_stats *ret)
{
    nsec_t end = nsec_now(CLOCK_BOOTTIME) + HANG_AFTER;
    while (packet_buffer_get_stats(f->buffer, ret), ret->wraps < n_wraps) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < end);
        fixture_run(f, NSEC_PER_MSEC);
    }
}
