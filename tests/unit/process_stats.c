// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/process_fixture.h"

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
    pid_feed_forget(&f.pids, 101, false);
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
    f.class->flush(f.source); // does what a slow machine has not done yet
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

static void without_a_cache_every_poll_is_written_or_counted(void **state)
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
    nanosleep(&(struct timespec){.tv_nsec = 30 * NSEC_PER_MSEC}, NULL);
    fixture_run(&f, NSEC_PER_MSEC);
    n = counter_in_trace(&f, 100, PB_ProcessStats_Process_vm_rss_kb, &value);
    struct source_counts counts;
    f.class->counts(f.source, &counts);
    uint64_t n_most =
        grid_points_max(&(struct grid_span){span.first_min, .last_max = nsec_now(CLOCK_BOOTTIME)},
                        5 * NSEC_PER_MSEC);
    assert_in_range(counts.readings_missed, 5, n_most - n);
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
    // Without descriptors for open files, the source knows a new process by its start time.
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
static void ends_are_reported(void **state)
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
    // The name of an ended process stays as long as the ring has packets about the process.
    remove_tree(&f, "proc/100");
    remove_tree(&f, "proc/1000");
    run_until_wraps(&f, stats.wraps + 3, &stats);
    char name[32];
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name)), 0);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_threads, 1000, name, sizeof(name)), 0);
    assert_process(&f, 149, "a longer name");
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

// Overwrites everything that is in the ring now. Returns the number of packets that are kept.
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
    // An exit in ftrace: the id is forgotten, then published by the same event. First a process
    // ends with its thread, then a thread alone.
    static const int dead[] = {101, 100, 201};
    for (size_t i = 0; i < 3; i++) {
        remove_process(&f, dead[i]);
        pid_feed_forget(&f.pids, dead[i], false);
        pid_feed_publish(&f.pids, dead[i]);
    }
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_int_equal(kept_packets(&f), 3); // 200, 300, 301
    fixture_done(&f);
}

// A server has a thread for each request. No event reports the ends of the threads.
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
    f.class->flush(f.source); // does what a slow machine has not done yet
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
        cmocka_unit_test(full_queue_asks_again),
        cmocka_unit_test(on_demand_can_be_disabled),
        cmocka_unit_test(counters_are_written_when_they_change),
        cmocka_unit_test(without_a_cache_every_poll_is_written_or_counted),
        cmocka_unit_test(reused_pid_is_another_process),
        cmocka_unit_test(ends_are_reported),
        cmocka_unit_test(names_outlive_the_ring),
        cmocka_unit_test(state_is_written_again),
        cmocka_unit_test(file_descriptors),
        cmocka_unit_test(names_of_the_dead_are_given_up),
        cmocka_unit_test(dead_threads_do_not_pile_up),
        cmocka_unit_test(names_written_again_are_given_up_too),
        cmocka_unit_test(close_alone_ends_listening),
    };
    return cmocka_run_group_tests_name("process_stats", tests, NULL, NULL);
}
