// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/process_stats/internal.h"
#include "tests/unit/source_fixture.h"

// A process of the made-up /proc. `comm` NULL: none.
struct fake {
    int pid, tgid, ppid;
    const char *comm;
    unsigned n_threads, rss_kb; // 0 KB: a kernel thread
    unsigned start_ticks;
};

static void write_fake(const struct source_fixture *f, const struct fake *fake, const char *dir)
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

static void write_process(const struct source_fixture *f, struct fake fake, const char *cmdline,
                          size_t n_cmdline)
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

static void write_app(const struct source_fixture *f, int pid)
{
    write_process(f, (struct fake){.pid = pid, .comm = "app", .n_threads = 1, .rss_kb = 20}, "app",
                  3);
}

static void write_thread(const struct source_fixture *f, int tid, int tgid, const char *comm)
{
    char dir[64];
    struct fake fake = {
        .pid = tid, .tgid = tgid, .ppid = 1, .comm = comm, .n_threads = 2, .rss_kb = 1};
    snprintf(dir, sizeof(dir), "proc/%d/task/%d", tgid, tid);
    write_fake(f, &fake, dir);
    // Reachable under its own id too, though the directory of processes does not list it; the fake
    // one does, and the source must see by Tgid that it is no process.
    snprintf(dir, sizeof(dir), "proc/%d", tid);
    write_fake(f, &fake, dir);
}

static void remove_tree(const struct source_fixture *f, const char *path)
{
    char full[160];
    snprintf(full, sizeof(full), "%s/%s", f->root, path);
    assert_int_equal(nftw(full, fixture_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

// Sets `ret` to the latest name that the trace gives to a process (field: processes) or thread
// (threads). Returns how often it was named.
static unsigned name_in_trace(const struct source_fixture *f, uint32_t list, int id, char *ret,
                              size_t size)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    unsigned n = 0;
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

static void assert_process(const struct source_fixture *f, int pid, const char *name)
{
    char found[64] = "";
    assert_true(name_in_trace(f, PB_ProcessTree_processes, pid, found, sizeof(found)) > 0);
    assert_string_equal(found, name);
}

static void assert_thread(const struct source_fixture *f, int tid, const char *name)
{
    char found[64] = "";
    assert_true(name_in_trace(f, PB_ProcessTree_threads, tid, found, sizeof(found)) > 0);
    assert_string_equal(found, name);
}

// How often counter `field` of `pid` is in the trace; its last value.
static unsigned counter_in_trace(const struct source_fixture *f, int pid, uint32_t field,
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

static unsigned ends_in_trace(const struct source_fixture *f, int pid)
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

static void begin(struct source_fixture *f, struct setup *setup, size_t buffer_bytes)
{
    fixture_init(f, "linux.process_stats", buffer_bytes);
    setup->process_stats = (Pb__ProcessStatsConfig)PB__PROCESS_STATS_CONFIG__INIT;
    setup->config = (Pb__DataSourceConfig)PB__DATA_SOURCE_CONFIG__INIT;
    setup->config.process_stats_config = &setup->process_stats;
}

static void scan_at_start(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.scan_all_processes_on_start = 1;
    setup.process_stats.record_thread_names = 1;
    setup.process_stats.record_process_age = 1;
    write_process(&f, (struct fake){.pid = 1, .comm = "init", .n_threads = 1, .rss_kb = 10},
                  "/sbin/init\0-x", 14);
    write_process(&f, (struct fake){.pid = 2, .comm = "kthreadd", .n_threads = 1}, "", 0);
    write_process(
        &f,
        (struct fake){
            .pid = 100, .ppid = 1, .comm = "app", .n_threads = 2, .rss_kb = 20, .start_ticks = 7},
        "app", 3);
    write_thread(&f, 101, 100, "worker");
    fixture_text(&f, "proc/meminfo", "not a process\n");
    fixture_start(&f, &setup.config);
    assert_process(&f, 1, "/sbin/init");
    assert_process(&f, 2, "kthreadd");
    assert_process(&f, 100, "app");
    assert_thread(&f, 101, "worker");
    assert_thread(&f, 100, "app");
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 101, name, sizeof(name)), 0);
    fixture_done(&f);
}

static void pids_of_others_are_looked_up(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.record_thread_names = 1;
    write_process(&f, (struct fake){.pid = 100, .comm = "app", .n_threads = 2, .rss_kb = 20}, "app",
                  3);
    write_thread(&f, 101, 100, "worker");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 101);
    pid_feed_publish(&f.pids, 101);
    pid_feed_publish(&f.pids, 999); // gone already
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_threads, 101, name, sizeof(name)), 0);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 100, "app");
    assert_thread(&f, 101, "worker");
    // Renamed: named again at the next sight, and not before.
    write_thread(&f, 101, 100, "renamed");
    pid_feed_publish(&f.pids, 101);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_thread(&f, 101, "worker");
    pid_feed_forget(&f.pids, 101);
    pid_feed_publish(&f.pids, 101);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_thread(&f, 101, "renamed");
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name)), 1);
    // Tasks that are still queued when the session stops are named then.
    write_process(&f, (struct fake){.pid = 200, .comm = "late", .n_threads = 1, .rss_kb = 20},
                  "late", 4);
    pid_feed_publish(&f.pids, 200);
    f.class->stop(f.source);
    assert_process(&f, 200, "late");
    assert_null(f.pids.seen);
    fixture_done(&f);
}

static void begin_ended(struct source_fixture *f, struct setup *setup, char tracefs[128],
                        size_t buffer_bytes)
{
    begin(f, setup, buffer_bytes);
    snprintf(tracefs, 128, "%s/tracefs", f->root);
    f->roots.tracefs = tracefs;
    f->env.names_ended = true;
    setup->process_stats.record_thread_names = 1;
}

// A task that is gone has the name of its exit, whether the exit is read before the task is looked
// up or later. The last exit of an id counts.
static void ended_tasks_have_the_names_of_their_exits(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char name[32], tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "997 wrong\n999 wrong\n");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 999);
    pid_feed_exit(&f.pids, 999, "former owner", 16);
    pid_feed_exit(&f.pids, 999, "sixteen letters!", 16);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 999, "sixteen letters");
    assert_thread(&f, 999, "sixteen letters");
    pid_feed_publish(&f.pids, 997);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 997, name, sizeof(name)), 0);
    pid_feed_exit(&f.pids, 997, "late", 16);
    pid_feed_exit(&f.pids, 997 + N_EXITED, "another", 16);
    pid_feed_exit(&f.pids, 997, "late", 16);
    f.class->flush(f.source);
    assert_process(&f, 997, "late");
    f.class->stop(f.source);
    pid_feed_exit(&f.pids, 997, "nobody listens", 16);
    fixture_done(&f);
}

// A task without an exit has the name that the kernel still knows, after a while or when the
// recording ends; a living task has its name from /proc.
static void ended_tasks_have_the_kernels_names(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char name[32], tracefs[128], lines[20000];
    size_t size = 0;
    begin_ended(&f, &setup, tracefs, 1 << 20);
    name[0] = '\0';
    for (int pid = 1000; size < sizeof(lines) - 64; pid++)
        size += (size_t)snprintf(lines + size, 64, "%d filler %d\n", pid, pid);
    snprintf(lines + size, 64, "%d short lived\n998 <...>\n100 other\n", 999);
    fixture_text(&f, "tracefs/saved_cmdlines", lines);
    write_app(&f, 100);
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 999);
    pid_feed_publish(&f.pids, 100);
    fixture_run(&f, 2 * NSEC_PER_MSEC); // too soon: the exit may still come
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 999, name, sizeof(name)), 0);
    fixture_run(&f, 1100 * NSEC_PER_MSEC);
    assert_process(&f, 999, "short lived");
    assert_thread(&f, 999, "short lived");
    assert_process(&f, 100, "app");
    pid_feed_publish(&f.pids, 998);
    pid_feed_publish(&f.pids, 1001);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 1001, name, sizeof(name)), 0);
    f.class->stop(f.source);
    assert_process(&f, 1001, "filler 1001");
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 998, name, sizeof(name)), 1);
    assert_string_equal(name, ""); // there, but nobody knows its name
    fixture_done(&f);
}

// Each task waits as long as its exit may take, and the wait of one task ends nobody else's. The
// exit itself ends the wait.
static void each_task_waits_for_its_own_exit(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char name[32], tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "997 wrong\n998 lost\n999 wrong\n");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 998);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    f.pids.exit_delay = 3600 * NSEC_PER_SEC;
    pid_feed_publish(&f.pids, 997);
    pid_feed_publish(&f.pids, 999);
    fixture_run(&f, 1100 * NSEC_PER_MSEC);
    assert_process(&f, 998, "lost");
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 997, name, sizeof(name)), 0);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 999, name, sizeof(name)), 0);
    pid_feed_exit(&f.pids, 999, "right", 16);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 999, "right");
    pid_feed_exit(&f.pids, 997, "right", 16);
    f.class->stop(f.source);
    assert_process(&f, 997, "right");
    fixture_done(&f);
}

// More tasks may end at once than can wait for their exits: none is left out.
static void many_tasks_may_end_at_once(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char name[32], tracefs[128];
    const int32_t n = 3 * N_ENDED_MAX;
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "1000 by list\n");
    fixture_start(&f, &setup.config);
    for (int32_t i = 0; i < n; i++)
        pid_feed_publish(&f.pids, 1000 + i);
    for (int32_t i = n - N_EXITED; i < n; i++)
        pid_feed_exit(&f.pids, 1000 + i, "by exit", 16);
    f.class->stop(f.source);
    assert_process(&f, 1000, "by list");
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 1001, name, sizeof(name)), 1);
    assert_string_equal(name, "");
    for (int32_t i = n - N_EXITED; i < n; i += 97)
        assert_process(&f, 1000 + i, "by exit");
    assert_process(&f, 999 + n, "by exit");
    fixture_done(&f);
}

static void full_queue_asks_again(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    write_app(&f, 9000);
    fixture_start(&f, &setup.config);
    for (int pid = 10; pid <= 9000; pid++)
        pid_feed_publish(&f.pids, pid);
    fixture_run(&f, 300 * NSEC_PER_MSEC);
    f.class->flush(f.source); // what a slow machine has left
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 9000, name, sizeof(name)), 0);
    pid_feed_publish(&f.pids, 9000);
    fixture_run(&f, 20 * NSEC_PER_MSEC);
    assert_process(&f, 9000, "app");
    fixture_done(&f);
}

static void on_demand_can_be_disabled(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    Pb__ProcessStatsConfig__Quirks quirks[] = {
        PB__PROCESS_STATS_CONFIG__QUIRKS__DISABLE_ON_DEMAND,
        PB__PROCESS_STATS_CONFIG__QUIRKS__DISABLE_INITIAL_DUMP};
    setup.process_stats.n_quirks = 2;
    setup.process_stats.quirks = quirks;
    setup.process_stats.scan_all_processes_on_start = 1;
    write_app(&f, 100);
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 100);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    f.class->stop(f.source);
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name)), 0);
    fixture_done(&f);
}

static void counters_are_written_when_they_change(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.proc_stats_poll_ms = 5;
    setup.process_stats.proc_stats_cache_ttl_ms = 60000;
    setup.process_stats.record_process_runtime = 1;
    struct fake app = {.pid = 100, .comm = "app", .n_threads = 1, .rss_kb = 20};
    write_process(&f, app, "app", 3);
    write_process(&f, (struct fake){.pid = 2, .comm = "kthreadd", .n_threads = 1}, "", 0);
    fixture_start(&f, &setup.config);
    fixture_run(&f, 23 * NSEC_PER_MSEC);
    int64_t value = 0;
    assert_int_equal(counter_in_trace(&f, 100, PB_ProcessStats_Process_vm_rss_kb, &value), 1);
    assert_int_equal(value, 20);
    assert_int_equal(counter_in_trace(&f, 100, PB_ProcessStats_Process_vm_size_kb, &value), 1);
    assert_int_equal(value, 40);
    assert_int_equal(counter_in_trace(&f, 100, PB_ProcessStats_Process_oom_score_adj, &value), 1);
    assert_int_equal(value, -17);
    assert_int_equal(counter_in_trace(&f, 100, PB_ProcessStats_Process_runtime_user_mode, &value),
                     1);
    assert_int_equal(value, 150 * (1000000000 / sysconf(_SC_CLK_TCK)));
    assert_int_equal(counter_in_trace(&f, 2, PB_ProcessStats_Process_vm_rss_kb, &value), 0);
    assert_int_equal(counter_in_trace(&f, 2, PB_ProcessStats_Process_runtime_kernel_mode, &value),
                     1);
    assert_process(&f, 100, "app"); // named, since the poll met it
    app.rss_kb = 30;
    app.comm = "renamed";
    write_process(&f, app, "renamed", 7);
    fixture_run(&f, 23 * NSEC_PER_MSEC);
    assert_int_equal(counter_in_trace(&f, 100, PB_ProcessStats_Process_vm_rss_kb, &value), 2);
    assert_int_equal(value, 30);
    assert_process(&f, 100, "renamed");
    fixture_done(&f);
}

static void without_a_cache_every_poll_is_written(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.proc_stats_poll_ms = 5;
    write_app(&f, 100);
    struct grid_span span = {.first_min = nsec_now(CLOCK_BOOTTIME)};
    fixture_start(&f, &setup.config);
    int64_t value;
    unsigned n = 0;
    while (n < 6) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < span.first_min + HANG_AFTER);
        fixture_run(&f, 5 * NSEC_PER_MSEC);
        n = counter_in_trace(&f, 100, PB_ProcessStats_Process_vm_rss_kb, &value);
    }
    span.last_max = nsec_now(CLOCK_BOOTTIME);
    assert_in_range(n, 6, grid_points_max(&span, 5 * NSEC_PER_MSEC));
    fixture_done(&f);
}

static void reused_pid_is_another_process(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.proc_stats_poll_ms = 5;
    setup.process_stats.proc_stats_cache_ttl_ms = 60000;
    struct fake app = {.pid = 100, .comm = "app", .n_threads = 1, .rss_kb = 20, .start_ticks = 5};
    struct fake other = {.pid = 50, .comm = "other", .n_threads = 1, .rss_kb = 4};
    write_process(&f, app, "app", 3);
    write_process(&f, other, "other", 5);
    struct err err = {0};
    assert_int_equal(f.class->open(&f.env, &setup.config, &f.source, &err), 0);
    // No descriptors to keep files open: the start time has to tell.
    ((struct process_stats *)f.source)->n_fds_max = 0;
    assert_int_equal(f.class->start(f.source, &err), 0);
    fixture_run(&f, 12 * NSEC_PER_MSEC);
    app.start_ticks = 6;
    other.rss_kb = 5;
    write_process(&f, other, "other", 5); // makes a packet of counters in which 100 then ends
    write_process(&f, app, "second", 6);
    fixture_run(&f, 12 * NSEC_PER_MSEC);
    int64_t value;
    assert_int_equal(counter_in_trace(&f, 100, PB_ProcessStats_Process_vm_rss_kb, &value), 2);
    assert_process(&f, 100, "second");
    assert_int_equal(ends_in_trace(&f, 100), 1);
    assert_int_equal(ends_in_trace(&f, 50), 0);
    fixture_done(&f);
}

// A process whose counters are in the trace has an end there, once.
static void ends_are_told(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.proc_stats_poll_ms = 5;
    struct fake app = {.pid = 100, .comm = "app", .n_threads = 1, .rss_kb = 20, .start_ticks = 5};
    struct fake other = {.pid = 50, .comm = "other", .n_threads = 1, .rss_kb = 4};
    write_process(&f, app, "app", 3);
    write_process(&f, other, "other", 5);
    fixture_start(&f, &setup.config);
    fixture_run(&f, 12 * NSEC_PER_MSEC);
    assert_int_equal(ends_in_trace(&f, 100), 0);
    remove_tree(&f, "proc/100");
    fixture_run(&f, 30 * NSEC_PER_MSEC);
    assert_int_equal(ends_in_trace(&f, 100), 1);
    assert_int_equal(ends_in_trace(&f, 50), 0);
    fixture_done(&f);
}

static void run_until_wraps(struct source_fixture *f, uint64_t n_wraps,
                            struct packet_buffer_stats *ret)
{
    nsec_t end = nsec_now(CLOCK_BOOTTIME) + HANG_AFTER;
    while (packet_buffer_get_stats(f->buffer, ret), ret->wraps < n_wraps) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < end);
        fixture_run(f, NSEC_PER_MSEC);
    }
}

static void names_outlive_the_ring(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 16 << 10);
    setup.process_stats.scan_all_processes_on_start = 1;
    setup.process_stats.record_thread_names = 1;
    setup.process_stats.proc_stats_poll_ms = 1;
    for (int pid = 100; pid < 150; pid++)
        write_process(&f, (struct fake){.pid = pid, .comm = "app", .n_threads = 2, .rss_kb = 20},
                      "a longer name", 13);
    write_thread(&f, 1000, 100, "worker");
    fixture_start(&f, &setup.config);
    struct packet_buffer_stats stats;
    run_until_wraps(&f, 3, &stats);
    for (int pid = 100; pid < 150; pid++)
        assert_process(&f, pid, "a longer name");
    assert_thread(&f, 1000, "worker");
    // A process that has ended is named as long as the ring holds what it did, then no more.
    remove_tree(&f, "proc/100");
    remove_tree(&f, "proc/1000");
    run_until_wraps(&f, stats.wraps + 3, &stats);
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name)), 0);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_threads, 1000, name, sizeof(name)), 0);
    assert_process(&f, 149, "a longer name");
    fixture_done(&f);
}

// An id may be used again. A task whose name nobody knows leaves the name of the task before it.
static void a_task_without_a_name_replaces_no_name(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 16 << 10);
    setup.process_stats.proc_stats_poll_ms = 1;
    write_app(&f, 100);
    fixture_text(&f, "tracefs/saved_cmdlines", "");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 999);
    pid_feed_exit(&f.pids, 999, "first", 16);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 999, "first");
    pid_feed_exit(&f.pids, 999 + N_EXITED, "another", 16); // takes the place of the exit
    pid_feed_forget(&f.pids, 999);
    pid_feed_publish(&f.pids, 999);
    f.class->flush(f.source);
    struct packet_buffer_stats stats;
    run_until_wraps(&f, 3, &stats);
    assert_process(&f, 999, "first");
    fixture_done(&f);
}

static void state_is_written_again(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.scan_all_processes_on_start = 1;
    write_app(&f, 100);
    fixture_start(&f, &setup.config);
    f.class->clear_state(f.source);
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name)), 2);
    fixture_done(&f);
}

static void file_descriptors(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.scan_all_processes_on_start = 1;
    setup.process_stats.resolve_process_fds = 1;
    setup.process_stats.proc_stats_poll_ms = 3;
    write_app(&f, 100);
    char dir[160], link[200];
    snprintf(dir, sizeof(dir), "%s/100/fd", f.proc);
    assert_int_equal(mkdir(dir, 0755), 0);
    for (int fd = 0; fd < 300; fd++) { // more than one packet holds
        snprintf(link, sizeof(link), "%s/%d", dir, fd);
        assert_int_equal(symlink("/a/rather/long/path/to/a/file/that/is/open/somewhere/deep", link),
                         0);
    }
    fixture_start(&f, &setup.config);
    fixture_run(&f, 10 * NSEC_PER_MSEC);
    struct packet_cursor cursor = {0};
    struct packet_view view;
    size_t n_fds = 0;
    while (packet_buffer_next(f.buffer, &cursor, &view)) {
        struct wire_field stats, item;
        if (!message_field(view.data, view.size, PB_TracePacket_process_stats, &stats))
            continue;
        struct wire_reader reader = wire_sub(&stats);
        while (wire_next(&reader, &item))
            if (item.number == PB_ProcessStats_processes)
                n_fds += message_count(item.data, item.size, PB_ProcessStats_Process_fds);
    }
    assert_int_equal(n_fds, 300); // each once
    assert_int_equal(f.writer.packets_dropped, 0);
    fixture_done(&f);
}

// Has the ring pass over everything that is in it now; what it then still keeps.
static uint64_t kept_packets(struct source_fixture *f)
{
    struct packet_meta plain = {.sequence_id = 9};
    struct packet_buffer_stats stats;
    size_t size;
    packet_buffer_get_stats(f->buffer, &stats);
    for (uint64_t bytes = 0; bytes < 2 * stats.size_bytes; bytes += size) {
        assert_non_null(packet_buffer_reserve(f->buffer, 4096, 4096, &size));
        packet_buffer_commit(f->buffer, size, &plain);
    }
    packet_buffer_get_stats(f->buffer, &stats);
    assert_int_equal(stats.retained_dropped, 0);
    return stats.retained_packets;
}

static void names_of_the_dead_are_given_up(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.record_thread_names = 1;
    for (int pid = 100; pid <= 300; pid += 100) {
        write_process(&f, (struct fake){.pid = pid, .comm = "app", .n_threads = 2, .rss_kb = 20},
                      "app", 3);
        write_thread(&f, pid + 1, pid, "worker");
    }
    fixture_start(&f, &setup.config);
    for (int pid = 100; pid <= 300; pid += 100)
        pid_feed_publish(&f.pids, pid + 1);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    // As ftrace tells of an end: changed, then seen in the same event. First a process with its
    // thread, then a thread alone.
    static const int dead[] = {101, 100, 201};
    for (size_t i = 0; i < 3; i++) {
        char path[32];
        snprintf(path, sizeof(path), "proc/%d", dead[i]);
        remove_tree(&f, path);
        pid_feed_forget(&f.pids, dead[i]);
        pid_feed_publish(&f.pids, dead[i]);
    }
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_int_equal(kept_packets(&f), 3); // 200, 300, 301
    fixture_done(&f);
}

// A server with a thread for every request, and nobody who tells that they end.
static void dead_threads_do_not_pile_up(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 4 << 20);
    setup.process_stats.record_thread_names = 1;
    write_process(&f, (struct fake){.pid = 100, .comm = "app", .n_threads = 2, .rss_kb = 20}, "app",
                  3);
    write_thread(&f, 101, 100, "listener");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 101);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    for (int tid = 1000; tid < 1000 + N_KNOWN_MIN + 10; tid++) {
        char path[96];
        struct fake fake = {.pid = tid, .tgid = 100, .comm = "request", .n_threads = 9};
        snprintf(path, sizeof(path), "%s/%d", f.proc, tid);
        assert_int_equal(mkdir(path, 0755), 0);
        snprintf(path, sizeof(path), "proc/%d", tid);
        write_fake(&f, &fake, path);
        pid_feed_publish(&f.pids, tid); // but 100/task does not have it any more
    }
    fixture_run(&f, 200 * NSEC_PER_MSEC);
    f.class->flush(f.source); // what a slow machine has left
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_threads, 1000, name, sizeof(name)), 1);
    uint64_t n_kept = kept_packets(&f);
    assert_true(n_kept >= 2 && n_kept < 100);
    fixture_done(&f);
}

static void names_written_again_are_given_up_too(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    setup.process_stats.scan_all_processes_on_start = 1;
    setup.process_stats.proc_stats_poll_ms = 3;
    write_process(&f, (struct fake){.pid = 100, .comm = "app", .n_threads = 2, .rss_kb = 20}, "app",
                  3);
    write_thread(&f, 101, 100, "worker");
    write_app(&f, 200);
    fixture_start(&f, &setup.config);
    fixture_run(&f, 10 * NSEC_PER_MSEC);
    remove_tree(&f, "proc/100");
    remove_tree(&f, "proc/101");
    f.class->clear_state(f.source);
    fixture_run(&f, 10 * NSEC_PER_MSEC);
    f.class->stop(f.source);
    assert_int_equal(kept_packets(&f), 1);
    fixture_done(&f);
}

static void close_alone_ends_listening(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    begin(&f, &setup, 1 << 20);
    fixture_start(&f, &setup.config);
    assert_non_null(f.pids.seen);
    f.source = f.class->close(f.source); // as after a start that failed
    assert_null(f.pids.seen);
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scan_at_start),
        cmocka_unit_test(pids_of_others_are_looked_up),
        cmocka_unit_test(ended_tasks_have_the_names_of_their_exits),
        cmocka_unit_test(ended_tasks_have_the_kernels_names),
        cmocka_unit_test(each_task_waits_for_its_own_exit),
        cmocka_unit_test(many_tasks_may_end_at_once),
        cmocka_unit_test(full_queue_asks_again),
        cmocka_unit_test(on_demand_can_be_disabled),
        cmocka_unit_test(counters_are_written_when_they_change),
        cmocka_unit_test(without_a_cache_every_poll_is_written),
        cmocka_unit_test(reused_pid_is_another_process),
        cmocka_unit_test(ends_are_told),
        cmocka_unit_test(names_outlive_the_ring),
        cmocka_unit_test(a_task_without_a_name_replaces_no_name),
        cmocka_unit_test(state_is_written_again),
        cmocka_unit_test(file_descriptors),
        cmocka_unit_test(names_of_the_dead_are_given_up),
        cmocka_unit_test(dead_threads_do_not_pile_up),
        cmocka_unit_test(names_written_again_are_given_up_too),
        cmocka_unit_test(close_alone_ends_listening),
    };
    return cmocka_run_group_tests_name("process_stats", tests, NULL, NULL);
}
