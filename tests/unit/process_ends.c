// SPDX-License-Identifier: Apache-2.0
//
// Tasks that end: their names, and the end of their ids.
#include "common/elements.h"
#include "tests/unit/process_fixture.h"

static void exit_of(struct source_fixture *f, int32_t tid, const char *name)
{
    pid_feed_exit(&f->pids, &(struct task_end){tid, 0, nsec_now(CLOCK_BOOTTIME), name, 16});
}

static void free_of(struct source_fixture *f, int32_t tid)
{
    pid_feed_free(&f->pids, &(struct task_end){tid, 1, nsec_now(CLOCK_BOOTTIME), NULL, 0});
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

// A task that is gone has the name of its exit, also if the exit is read after the task is looked
// up. The last exit of an id counts.
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
    exit_of(&f, 999, "former owner");
    exit_of(&f, 999, "sixteen letters!");
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 999, "sixteen letters");
    assert_thread(&f, 999, "sixteen letters");
    pid_feed_publish(&f.pids, 997);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 997, name, sizeof(name)), 0);
    exit_of(&f, 997, "late");
    exit_of(&f, 997 + N_EXITED, "another");
    exit_of(&f, 997, "late");
    f.class->flush(f.source);
    assert_process(&f, 997, "late");
    f.class->stop(f.source);
    exit_of(&f, 997, "nobody listens");
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
    assert_string_equal(name, ""); // the task is there, without a name
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
    f.pids.n_rounds = 2;
    pid_feed_publish(&f.pids, 997);
    pid_feed_publish(&f.pids, 999);
    fixture_run(&f, 1100 * NSEC_PER_MSEC);
    assert_process(&f, 998, "lost");
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 997, name, sizeof(name)), 0);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 999, name, sizeof(name)), 0);
    exit_of(&f, 999, "right");
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 999, "right");
    exit_of(&f, 997, "right");
    f.class->stop(f.source);
    assert_process(&f, 997, "right");
    fixture_done(&f);
}

// The machine may be so busy that the exits are read long after their time.
static void exits_that_are_read_late_are_awaited(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char name[32], tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "998 lost\n999 wrong\n");
    f.pids.exit_delay = NSEC_PER_MSEC;
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 998);
    pid_feed_publish(&f.pids, 999);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    f.pids.n_rounds = 1; // it may have begun before the look-up
    fixture_run(&f, 1200 * NSEC_PER_MSEC);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 998, name, sizeof(name)), 0);
    exit_of(&f, 999, "right");
    f.pids.n_rounds = 2;
    fixture_run(&f, 200 * NSEC_PER_MSEC);
    assert_process(&f, 998, "lost");
    assert_process(&f, 999, "right");
    f.class->stop(f.source);
    fixture_done(&f);
}

// A thread whose process is known is not a process, and needs no tracefs.
static void an_ended_thread_has_its_process(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char name[32], tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    f.roots.tracefs = NULL;
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 998);
    const struct task_end end = {998, 0, nsec_now(CLOCK_BOOTTIME), "worker", 7, .tgid = 990};
    pid_feed_exit(&f.pids, &end);
    f.class->flush(f.source);
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 998, name, sizeof(name)), 0);
    assert_thread(&f, 998, "worker");
    f.class->stop(f.source);
    fixture_done(&f);
}

static void write_shell(struct source_fixture *f, int pid)
{
    write_process(f, (struct fake){.pid = pid, .comm = "sh", .n_threads = 1, .rss_kb = 20},
                  "sh\0-c", 5);
    pid_feed_publish(&f->pids, pid);
}

static void end_as(struct source_fixture *f, int pid, bool executed, const char *name)
{
    pid_feed_forget(&f->pids, pid, executed);
    pid_feed_publish(&f->pids, pid);
    exit_of(f, pid, name);
}

// A process executes another program, and ends before it is looked up again: it is gone, or a
// zombie. A process that ends with its known name, or renamed itself, keeps its command line.
static void an_ended_process_has_its_last_program(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128], name[64];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_start(&f, &setup.config);
    for (int pid = 300; pid < 306; pid++)
        write_shell(&f, pid);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 300, "sh");
    for (int pid = 300; pid < 304; pid++)
        remove_process(&f, pid);
    write_process(&f, (struct fake){.pid = 304, .comm = "zombie", .n_threads = 1}, "", 0);
    write_process(&f, (struct fake){.pid = 305, .comm = "worker", .n_threads = 1}, "", 0);
    end_as(&f, 300, true, "program");
    end_as(&f, 301, true, "sh");
    end_as(&f, 302, false, "worker");
    exit_of(&f, 303, "former owner");
    end_as(&f, 304, true, "zombie");
    end_as(&f, 305, false, "worker");
    f.class->flush(f.source);
    assert_process(&f, 300, "program");
    assert_process(&f, 304, "zombie");
    const int same[] = {301, 302, 303, 305};
    for (size_t i = 0; i < ELEMENTS(same); i++) {
        assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, same[i], name, sizeof(name)),
                         1);
        assert_string_equal(name, "sh");
    }
    f.class->stop(f.source);
    fixture_done(&f);
}

// More tasks end at once than can wait for their exits: no task is left out.
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
        exit_of(&f, 1000 + i, "by exit");
    f.class->stop(f.source);
    assert_process(&f, 1000, "by list");
    assert_int_equal(name_in_trace(&f, PB_ProcessTree_processes, 1001, name, sizeof(name)), 1);
    assert_string_equal(name, "");
    for (int32_t i = n - N_EXITED; i < n; i += 97)
        assert_process(&f, 1000 + i, "by exit");
    assert_process(&f, 999 + n, "by exit");
    fixture_done(&f);
}

// An id may be used again. A task without a known name does not replace the name of the task before
// it.
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
    exit_of(&f, 999, "first");
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_process(&f, 999, "first");
    exit_of(&f, 999 + N_EXITED, "another"); // takes the place of the exit
    pid_feed_forget(&f.pids, 999, false);
    pid_feed_publish(&f.pids, 999);
    f.class->flush(f.source);
    struct packet_buffer_stats stats;
    run_until_wraps(&f, 3, &stats);
    assert_process(&f, 999, "first");
    fixture_done(&f);
}

struct moment {
    uint64_t time;
    char text[32];
};

static int by_time(const void *a, const void *b)
{
    uint64_t left = ((const struct moment *)a)->time, right = ((const struct moment *)b)->time;
    return left < right ? -1 : left > right;
}

// Sets *ret to the name that the packet gives to the id, or to "-" if the packet says that the id
// is free. Returns false for other packets.
static bool moment_of(const struct packet_view *view, int id, struct moment *ret)
{
    struct wire_field message, item, name;
    if (message_field(view->data, view->size, PB_TracePacket_process_tree, &message) &&
        message_field(message.data, message.size, PB_ProcessTree_processes, &item) &&
        message_number(item.data, item.size, PB_ProcessTree_Process_pid) == (uint64_t)id) {
        bool named = message_field(item.data, item.size, PB_ProcessTree_Process_cmdline, &name);
        ret->time = message_number(view->data, view->size, PB_TracePacket_timestamp);
        snprintf(ret->text, sizeof(ret->text), "%.*s", named ? (int)name.size : 0,
                 named ? (const char *)name.data : "");
        return true;
    }
    if (message_field(view->data, view->size, PB_TracePacket_ftrace_events, &message) &&
        message_field(message.data, message.size, PB_FtraceEventBundle_event, &item) &&
        message_field(item.data, item.size, PB_FtraceEvent_sched_process_free, &name) &&
        message_number(name.data, name.size, PB_SchedProcessFreeFtraceEvent_pid) == (uint64_t)id) {
        ret->time = message_number(item.data, item.size, PB_FtraceEvent_timestamp);
        snprintf(ret->text, sizeof(ret->text), "-");
        return true;
    }
    return false;
}

// Asserts the names of the id in the order of time, with "-" for each end of the id.
static void assert_lives(const struct source_fixture *f, int id, const char *expected)
{
    struct packet_cursor cursor = {0};
    struct packet_view view;
    struct moment moments[16];
    size_t n = 0;
    char found[256] = "";
    while (packet_buffer_next(f->buffer, &cursor, &view)) {
        assert_true(n < ELEMENTS(moments));
        n += moment_of(&view, id, &moments[n]);
    }
    qsort(moments, n, sizeof(moments[0]), by_time);
    for (size_t i = 0; i < n; i++) {
        strncat(found, moments[i].text, sizeof(found) - strlen(found) - 1);
        strncat(found, " ", sizeof(found) - strlen(found) - 1);
    }
    assert_string_equal(found, expected);
}

// Tasks that are gone before they are looked up, one after another with the same id. The source may
// read the end of an id before it sees the id, or later.
static void owners_of_an_id_are_distinguished(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "999 by list\n");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 999);
    exit_of(&f, 999, "first");
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_lives(&f, 999, "first ");
    free_of(&f, 999);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_lives(&f, 999, "first - ");
    exit_of(&f, 999, "second");
    free_of(&f, 999);
    free_of(&f, 998); // an id that was not published
    pid_feed_publish(&f.pids, 999);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_lives(&f, 999, "first - second - ");
    pid_feed_publish(&f.pids, 999); // an event of another processor, which was read late
    pid_feed_forget(&f.pids, 999, false);
    pid_feed_publish(&f.pids, 999);
    f.class->flush(f.source);
    assert_lives(&f, 999, "first - second - ");
    pid_feed_forget(&f.pids, 999, false);
    pid_feed_publish(&f.pids, 999);
    exit_of(&f, 999, "third");
    f.class->flush(f.source);
    assert_lives(&f, 999, "first - second - third ");
    assert_lives(&f, 998, "");
    f.class->stop(f.source);
    free_of(&f, 999); // nobody listens
    fixture_done(&f);
}

// A late recorder takes the name of a task from saved_cmdlines before it reads the task's exit. The
// end of the id then has an earlier time than the name. The source writes the end only if the exit
// gives another name.
static void late_ends_leave_no_task_without_a_name(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "998 by list\n999 by list\n");
    fixture_start(&f, &setup.config);
    struct task_end exited = {999, 0, nsec_now(CLOCK_BOOTTIME), "by exit", 7};
    struct task_end freed = {999, 0, exited.time + 1, NULL, 0};
    pid_feed_publish(&f.pids, 998);
    pid_feed_publish(&f.pids, 999);
    f.class->flush(f.source);
    freed.tid = 998; // its exit was lost
    pid_feed_free(&f.pids, &freed);
    freed.tid = 999;
    pid_feed_exit(&f.pids, &exited);
    pid_feed_free(&f.pids, &freed);
    f.class->flush(f.source);
    assert_lives(&f, 998, "by list ");
    assert_lives(&f, 999, "by exit - by list ");
    fixture_done(&f);
}

// A process executes another program and ends, and the kernel frees the process: before it is
// looked up, before its exit is read, or after both.
static void a_freed_process_has_its_last_program(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 16 << 10);
    setup.process_stats.proc_stats_poll_ms = 1;
    write_app(&f, 100);
    fixture_start(&f, &setup.config);
    for (int pid = 300; pid < 303; pid++)
        write_shell(&f, pid);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    for (int pid = 300; pid < 303; pid++) {
        pid_feed_forget(&f.pids, pid, true);
        remove_process(&f, pid);
    }
    pid_feed_publish(&f.pids, 300);
    exit_of(&f, 300, "first");
    free_of(&f, 300);
    pid_feed_publish(&f.pids, 301);
    pid_feed_publish(&f.pids, 302);
    fixture_run(&f, 2 * NSEC_PER_MSEC); // the two wait for their exits
    exit_of(&f, 301, "second");
    free_of(&f, 301);
    exit_of(&f, 302, "third");
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    free_of(&f, 302);
    f.class->flush(f.source);
    assert_lives(&f, 300, "sh first - ");
    assert_lives(&f, 301, "sh second - ");
    assert_lives(&f, 302, "sh third - ");
    fixture_done(&f);
}

// Owners of an id are distinguished, too, if processes and threads are looked up while they live.
static void owners_of_a_living_id_are_distinguished(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    fixture_text(&f, "tracefs/saved_cmdlines", "");
    write_app(&f, 100);
    write_thread(&f, 101, 100, "worker");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 100);
    pid_feed_publish(&f.pids, 101);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    remove_tree(&f, "proc/100");
    remove_tree(&f, "proc/101");
    exit_of(&f, 101, "worker");
    free_of(&f, 101);
    exit_of(&f, 100, "app");
    pid_feed_publish(&f.pids, 100); // known: the exit gives it no other name
    free_of(&f, 100);
    write_process(&f, (struct fake){.pid = 100, .comm = "new", .n_threads = 1, .rss_kb = 20}, "new",
                  3);
    pid_feed_publish(&f.pids, 100);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_lives(&f, 100, "app - new ");
    assert_lives(&f, 101, "- ");
    write_app(&f, 200);
    pid_feed_publish(&f.pids, 200);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    remove_tree(&f, "proc/200");
    exit_of(&f, 200, "app");
    free_of(&f, 200);
    pid_feed_publish(&f.pids, 200); // its next owner comes and goes in one round of reading
    exit_of(&f, 200, "second");
    free_of(&f, 200);
    pid_feed_publish(&f.pids, 200);
    exit_of(&f, 200, "third");
    free_of(&f, 200);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_lives(&f, 200, "app - second - third - ");
    pid_feed_publish(&f.pids, 101); // read late
    f.class->flush(f.source);
    assert_lives(&f, 101, "- ");
    assert_thread(&f, 101, "worker");
    fixture_done(&f);
}

// A poll may notice the next owner of an id before the end of the owner before is read.
static void polled_owners_are_distinguished(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 1 << 20);
    setup.process_stats.proc_stats_poll_ms = 5;
    struct fake app = {.pid = 100, .comm = "app", .n_threads = 1, .rss_kb = 20, .start_ticks = 5};
    write_process(&f, app, "app", 3);
    fixture_start(&f, &setup.config);
    nsec_t end = nsec_now(CLOCK_BOOTTIME) + HANG_AFTER;
    char name[32];
    while (!name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name))) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < end);
        fixture_run(&f, NSEC_PER_MSEC);
    }
    struct task_end freed = {100, 1, nsec_now(CLOCK_BOOTTIME), NULL, 0};
    remove_tree(&f, "proc/100");
    while (ends_in_trace(&f, 100) == 0) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < end);
        fixture_run(&f, NSEC_PER_MSEC);
    }
    app.comm = "new";
    write_process(&f, app, "new", 3);
    while (name_in_trace(&f, PB_ProcessTree_processes, 100, name, sizeof(name)) < 2) {
        assert_true(nsec_now(CLOCK_BOOTTIME) < end);
        fixture_run(&f, NSEC_PER_MSEC);
    }
    pid_feed_free(&f.pids, &freed);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    assert_lives(&f, 100, "app - new ");
    fixture_done(&f);
}

// All owners of an id keep their names beside a ring, if another buffer has their events.
static void names_of_all_owners_outlive_the_ring(void **state)
{
    (void)state;
    struct source_fixture f;
    struct setup setup;
    char tracefs[128];
    begin_ended(&f, &setup, tracefs, 16 << 10);
    f.env.keeps_ended = true;
    setup.process_stats.proc_stats_poll_ms = 1;
    write_app(&f, 100);
    write_app(&f, 200);
    fixture_text(&f, "tracefs/saved_cmdlines", "");
    fixture_start(&f, &setup.config);
    pid_feed_publish(&f.pids, 200);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    remove_tree(&f, "proc/200");
    exit_of(&f, 200, "app");
    free_of(&f, 200);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    for (int i = 0; i < 2; i++) {
        exit_of(&f, 999, i ? "second" : "first");
        free_of(&f, 999);
        pid_feed_publish(&f.pids, 999);
        fixture_run(&f, 2 * NSEC_PER_MSEC);
    }
    exit_of(&f, 200, "other");
    pid_feed_publish(&f.pids, 200);
    fixture_run(&f, 2 * NSEC_PER_MSEC);
    struct packet_buffer_stats stats;
    run_until_wraps(&f, 3, &stats);
    assert_lives(&f, 999, "first - second - ");
    assert_lives(&f, 200, "app - other ");
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_tasks_have_the_names_of_their_exits),
        cmocka_unit_test(ended_tasks_have_the_kernels_names),
        cmocka_unit_test(each_task_waits_for_its_own_exit),
        cmocka_unit_test(exits_that_are_read_late_are_awaited),
        cmocka_unit_test(an_ended_thread_has_its_process),
        cmocka_unit_test(an_ended_process_has_its_last_program),
        cmocka_unit_test(a_freed_process_has_its_last_program),
        cmocka_unit_test(many_tasks_may_end_at_once),
        cmocka_unit_test(a_task_without_a_name_replaces_no_name),
        cmocka_unit_test(owners_of_an_id_are_distinguished),
        cmocka_unit_test(late_ends_leave_no_task_without_a_name),
        cmocka_unit_test(owners_of_a_living_id_are_distinguished),
        cmocka_unit_test(polled_owners_are_distinguished),
        cmocka_unit_test(names_of_all_owners_outlive_the_ring),
    };
    return cmocka_run_group_tests_name("process_ends", tests, NULL, NULL);
}
