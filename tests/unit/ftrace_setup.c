// SPDX-License-Identifier: Apache-2.0
//
// A folder plays tracefs: instances are plain folders there, settings plain files.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/process_life.h"
#include "producer/sources/ftrace/setup.h"
#include "producer/sources/ftrace/syscall_numbers.h"
#include "tests/unit/temp_folder.h"

#define COMMON                                                                                     \
    "format:\n"                                                                                    \
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                         \
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

struct fixture {
    char root[64]; // holds tracefs/, proc/, run/
    char tracefs[80], proc[80], run[80];
    struct source_roots roots;
    struct strbuf said;
    struct log log;
};

static void hear(void *userdata, enum log_level level, const char *line)
{
    (void)level;
    strbuf_addf(userdata, "%s\n", line);
}

static char *path_of(const struct fixture *f, const char *path)
{
    char *full;
    assert_true(asprintf(&full, "%s/%s", f->root, path) > 0);
    return full;
}

static void make_dir(const struct fixture *f, const char *path)
{
    CLEANUP(freep) char *full = path_of(f, path);
    for (char *p = full + strlen(f->root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(full, 0700);
        *p = '/';
    }
    assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
}

static void put_file(const struct fixture *f, const char *path, const char *text)
{
    CLEANUP(freep) char *full = path_of(f, path);
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_file(const struct fixture *f, const char *path, const char *want)
{
    CLEANUP(freep) char *full = path_of(f, path);
    CLEANUP(fclosep) FILE *file = fopen(full, "re");
    char text[4096] = "";
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    assert_string_equal(text, want);
}

static bool exists(const struct fixture *f, const char *path)
{
    CLEANUP(freep) char *full = path_of(f, path);
    return access(full, F_OK) == 0;
}

static void put_event(const struct fixture *f, const char *group, const char *name, unsigned id)
{
    char path[160], text[512];
    snprintf(path, sizeof(path), "tracefs/events/%s/%s", group, name);
    make_dir(f, path);
    snprintf(path, sizeof(path), "tracefs/events/%s/%s/format", group, name);
    snprintf(text, sizeof(text),
             "name: %s\nID: %u\n" COMMON "\tfield:int member;\toffset:8;\tsize:4;\tsigned:1;\n",
             name, id);
    put_file(f, path, text);
    snprintf(path, sizeof(path), "tracefs/events/%s/%s/enable", group, name);
    put_file(f, path, "0");
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    temp_folder_make(f->root);
    snprintf(f->tracefs, sizeof(f->tracefs), "%s/tracefs", f->root);
    snprintf(f->proc, sizeof(f->proc), "%s/proc", f->root);
    snprintf(f->run, sizeof(f->run), "%s/run", f->root);
    f->roots = (struct source_roots){.proc = f->proc, .tracefs = f->tracefs, .run = f->run};
    f->log = (struct log){.max_level = LOG_LEVEL_DEBUG, .write = hear, .userdata = &f->said};
    make_dir(f, "tracefs/instances");
    make_dir(f, "tracefs/options");
    put_event(f, "kmem", "rss_stat", 10);
    put_event(f, "kmem", "kfree", 11);
    put_event(f, "mine", "special", 12);
    put_event(f, "ftrace", "print", 5);
    put_event(f, "raw_syscalls", "sys_enter", 13);
    put_event(f, "raw_syscalls", "sys_exit", 14);
    // This process, born at 777.
    char dir[64], stat[200];
    snprintf(dir, sizeof(dir), "proc/%d", getpid());
    make_dir(f, dir);
    snprintf(dir, sizeof(dir), "proc/%d/stat", getpid());
    snprintf(stat, sizeof(stat), "%d (a ) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0",
             getpid());
    put_file(f, dir, stat);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_folder_remove(f->root);
    strbuf_done(&f->said);
    test_free(f);
    return 0;
}

static void assert_said(const struct fixture *f, const char *text)
{
    assert_non_null(f->said.text);
    if (!strstr(f->said.text, text))
        fail_msg("\"%s\" is not in:\n%s", text, f->said.text);
}

static void events_are_found_by_group_name_and_pattern(void **state)
{
    struct fixture *f = *state;
    char *wanted[] = {(char *)"kmem/*", (char *)"special", (char *)"kmem/rss_stat",
                      (char *)"kmem/rss_stats", (char *)"kmem/../kfree"};
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    config.ftrace_events = wanted;
    config.n_ftrace_events = 5;
    struct event_set set;
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(set.chosen.n, 3);
    assert_true(event_set_has(&set, "kmem", "kfree"));
    assert_true(event_set_has(&set, "mine", "special"));
    assert_int_equal(set.plans[10]->field_number, 313);
    assert_int_equal(set.plans[12]->field_number, EVENT_PLAN_GENERIC_FIELD + 12);
    assert_null(set.plans[9]);
    assert_int_equal(set.unknown.n, 2);
    assert_string_equal(strset_text(&set.unknown, 0), "kmem/rss_stats");
    assert_said(f, "did you mean kmem/rss_stat?");
    event_set_done(&set);

    config.disable_generic_events = 1;
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(set.chosen.n, 2);
    assert_string_equal(strset_text(&set.failed, 0), "mine/special");
    event_set_done(&set);
}

// sched_process_exit is switched on for the names of tasks, and has a plan only if the config
// selects the event. sched_process_free, if the kernel has the event, tells when an id ends.
static void exits_are_added_for_their_names(void **state)
{
    struct fixture *f = *state;
    char *wanted[] = {(char *)"kmem/rss_stat", (char *)"sched/sched_process_exit"};
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    config.ftrace_events = wanted;
    config.n_ftrace_events = 1;
    struct event_set set;
    struct err err = {0};
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(event_set_add_ends(&set, f->tracefs, &err), -ENOENT);
    put_event(f, "sched", "sched_process_exit", 17);
    assert_int_equal(event_set_add_ends(&set, f->tracefs, &err), -EINVAL);
    assert_int_equal(set.exits.id, 0);
    put_file(f, "tracefs/events/sched/sched_process_exit/format",
             "name: sched_process_exit\nID: 17\n" COMMON
             "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n"
             "\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n");
    assert_int_equal(event_set_add_ends(&set, f->tracefs, &err), -EINVAL);
    assert_int_equal(set.exits.id, 0);
    put_file(f, "tracefs/events/sched/sched_process_exit/format",
             "name: sched_process_exit\nID: 17\n" COMMON
             "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
             "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n");
    assert_int_equal(event_set_add_ends(&set, f->tracefs, &err), 0);
    assert_int_equal(set.exits.id, 17);
    assert_int_equal(set.exits.pid, 24);
    assert_int_equal(set.exits.comm, 8);
    assert_int_equal(set.exits.comm_size, 16);
    assert_true(event_set_has(&set, "sched", "sched_process_exit"));
    assert_true(set.n_plans <= 17 || !set.plans[17]);
    assert_int_equal(set.frees.id, 0);
    event_set_done(&set);

    put_event(f, "sched", "sched_process_free", 18);
    put_file(f, "tracefs/events/sched/sched_process_free/format",
             "name: sched_process_free\nID: 18\n" COMMON
             "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n"
             "\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n");
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(event_set_add_ends(&set, f->tracefs, &err), 0);
    assert_int_equal(set.exits.id, 17);
    assert_int_equal(set.frees.id, 18);
    assert_int_equal(set.frees.pid, 12);
    assert_true(event_set_has(&set, "sched", "sched_process_free"));
    assert_true(set.n_plans <= 18 || !set.plans[18]);
    event_set_done(&set);

    config.n_ftrace_events = 2;
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(event_set_add_ends(&set, f->tracefs, &err), 0);
    assert_int_equal(set.chosen.n, 3);
    assert_non_null(set.plans[17]);
    event_set_done(&set);
}

static void categories_are_sets_of_events(void **state)
{
    struct fixture *f = *state;
    char *categories[] = {(char *)"memory", (char *)"nonsense"};
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    config.atrace_categories = categories;
    config.n_atrace_categories = 2;
    struct event_set set;
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(set.chosen.n, 2);
    assert_true(event_set_has(&set, "kmem", "rss_stat"));
    assert_true(event_set_has(&set, "ftrace", "print"));
    assert_int_equal(set.unknown.n, 0);
    event_set_done(&set);

    config.atrace_userspace_only = 1;
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
    assert_int_equal(set.chosen.n, 1);
    event_set_done(&set);
}

static void borrowed_settings_are_put_back(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "tracefs/instances/theirs/events/kmem/rss_stat");
    make_dir(f, "tracefs/instances/theirs/options");
    make_dir(f, "tracefs/instances/theirs/events/raw_syscalls/sys_enter");
    make_dir(f, "tracefs/instances/theirs/events/raw_syscalls/sys_exit");
    put_file(f, "tracefs/instances/theirs/trace_clock", "[local] global boot\n");
    put_file(f, "tracefs/instances/theirs/tracing_on", "1\n");
    put_file(f, "tracefs/instances/theirs/buffer_size_kb", "7 (expanded: 1408)\n");
    put_file(f, "tracefs/instances/theirs/set_event_pid", "5\n6\n");
    put_file(f, "tracefs/instances/theirs/trace", "old\n");
    put_file(f, "tracefs/instances/theirs/options/stacktrace", "0\n");
    put_file(f, "tracefs/instances/theirs/events/kmem/rss_stat/enable", "0\n");
    for (unsigned i = 0; i < 2; i++) {
        char path[128];
        const char *name = i ? "sys_exit" : "sys_enter";
        snprintf(path, sizeof(path), "tracefs/instances/theirs/events/raw_syscalls/%s/filter",
                 name);
        put_file(f, path, "none\n");
        snprintf(path, sizeof(path), "tracefs/instances/theirs/events/raw_syscalls/%s/enable",
                 name);
        put_file(f, path, "0\n");
    }
    char *wanted[] = {(char *)"kmem/rss_stat"}, *calls[] = {(char *)"sys_openat", (char *)"nocall"};
    Pb__FtraceConfig__TracefsOption option = PB__FTRACE_CONFIG__TRACEFS_OPTION__INIT;
    Pb__FtraceConfig__TracefsOption *options[] = {&option};
    option.name = (char *)"stacktrace";
    option.state = PB__FTRACE_CONFIG__TRACEFS_OPTION__STATE__STATE_ENABLED;
    uint32_t tids[] = {12, 13};
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    config.ftrace_events = wanted;
    config.n_ftrace_events = 1;
    config.syscall_events = calls;
    config.n_syscall_events = 2;
    config.instance_name = (char *)"theirs";
    config.buffer_size_kb = 64;
    config.tracefs_options = options;
    config.n_tracefs_options = 1;
    config.tids_to_trace = tids;
    config.n_tids_to_trace = 2;
    struct event_set set;
    struct setup setup_state;
    struct err err = {0};
    assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, &err), 0);
    assert_int_equal(setup_open(&f->roots, &config, &set, UINT64_MAX, &f->log, &setup_state, &err),
                     0);
    setup_enable(&setup_state, &config, &set, &f->log);
    char filter[32];
    snprintf(filter, sizeof(filter), "id == %ld", syscall_number("openat"));
    // Here a shorter text overwrites only the beginning of a file; the kernel's files take the new
    // text alone.
    assert_file(f, "tracefs/instances/theirs/set_event_pid", "12 13");
    assert_file(f, "tracefs/instances/theirs/trace", "");
    assert_file(f, "tracefs/instances/theirs/events/kmem/rss_stat/enable", "1\n");
    assert_file(f, "tracefs/instances/theirs/options/stacktrace", "1\n");
    assert_file(f, "tracefs/instances/theirs/events/raw_syscalls/sys_exit/filter", filter);
    assert_said(f, "this machine has no nocall");
    assert_true(exists(f, "run"));
    setup_close(&setup_state, &f->log);
    assert_file(f, "tracefs/instances/theirs/set_event_pid", "5\n6\n");
    assert_file(f, "tracefs/instances/theirs/events/kmem/rss_stat/enable", "0\n");
    assert_file(f, "tracefs/instances/theirs/options/stacktrace", "0\n");
    assert_file(f, "tracefs/instances/theirs/tracing_on", "1\n");
    event_set_done(&set);
}

static void markers_need_the_main_buffer(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "tracefs/options");
    make_dir(f, "tracefs/instances/theirs/options");
    make_dir(f, "tracefs/events/ftrace/print");
    put_file(f, "tracefs/options/copy_trace_marker", "0\n");
    put_file(f, "tracefs/events/ftrace/print/format",
             "name: print\nID: 5\n" COMMON "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n");
    put_file(f, "tracefs/instances/theirs/options/copy_trace_marker", "0\n");
    put_file(f, "tracefs/instances/theirs/trace_clock", "[boot]\n");
    put_file(f, "tracefs/instances/theirs/tracing_on", "0\n");
    put_file(f, "tracefs/instances/theirs/trace", "");
    char *wanted[] = {(char *)"ftrace/print"};
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    config.ftrace_events = wanted;
    config.n_ftrace_events = 1;
    config.instance_name = (char *)"theirs";
    for (unsigned on = 0; on < 2; on++) {
        struct event_set set;
        struct setup setup_state;
        put_file(f, "tracefs/tracing_on", on ? "1\n" : "0\n");
        strbuf_clear(&f->said);
        assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, NULL), 0);
        assert_int_equal(
            setup_open(&f->roots, &config, &set, UINT64_MAX, &f->log, &setup_state, NULL), 0);
        assert_file(f, "tracefs/instances/theirs/options/copy_trace_marker", "1\n");
        strbuf_add(&f->said, "", 0);
        assert_int_equal(strstr(f->said.text, "main buffer is off") == NULL, on);
        assert_file(f, "tracefs/tracing_on", on ? "1\n" : "0\n");
        setup_close(&setup_state, &f->log);
        event_set_done(&set);
    }
}

static void what_is_kept_keeps_its_size(void **state)
{
    struct fixture *f = *state;
    put_file(f, "tracefs/trace_clock", "[boot]\n");
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    config.has_preserve_ftrace_buffer = 1;
    config.preserve_ftrace_buffer = 1;
    // The kernel prints X if CPUs have buffers of different sizes.
    static const char *const sizes[][2] = {{"4096\n", "8192\n"}, {"X\n", "4096\n"}};
    for (size_t i = 0; i < 2; i++) {
        struct event_set set;
        struct setup setup_state;
        struct err err = {0};
        put_file(f, "tracefs/buffer_size_kb", sizes[i][0]);
        put_file(f, "tracefs/buffer_total_size_kb", sizes[i][1]);
        assert_int_equal(event_set_build(f->tracefs, &config, 8, &f->log, &set, &err), 0);
        assert_int_equal(
            setup_open(&f->roots, &config, &set, UINT64_MAX, &f->log, &setup_state, &err), 0);
        assert_int_equal(setup_state.buffer_pages, (4096 << 10) / sysconf(_SC_PAGESIZE));
        setup_close(&setup_state, &f->log);
        assert_file(f, "tracefs/buffer_size_kb", sizes[i][0]);
        event_set_done(&set);
    }
}

static void own_instances_come_and_go(void **state)
{
    struct fixture *f = *state;
    struct tracefs_options options = {.root = f->tracefs, .proc = f->proc, .state_dir = f->run};
    struct tracefs a, b;
    char name[96], path[192];
    assert_int_equal(tracefs_open(&options, &a, NULL), 0);
    assert_int_equal(tracefs_open(&options, &b, NULL), 0);
    snprintf(name, sizeof(name), "tracefs/instances/mmtrace-%d-777-0", getpid());
    assert_true(exists(f, name));
    snprintf(path, sizeof(path), "%s/%s", f->root, name);
    assert_string_equal(a.path, path);
    assert_string_not_equal(a.path, b.path);
    // Instances of living processes are not swept, neither by name nor by journal.
    assert_int_equal(tracefs_sweep(f->tracefs, f->proc, f->run, &f->log), 0);
    tracefs_close(&a, &f->log);
    tracefs_close(&b, &f->log);
    assert_false(exists(f, name));
    assert_int_equal(rmdir(f->run), 0); // no journals are left
}

static void what_the_dead_left_is_swept(void **state)
{
    struct fixture *f = *state;
    char name[96];
    make_dir(f, "tracefs/instances/mmtrace-999999-5-0"); // no such process
    snprintf(name, sizeof(name), "tracefs/instances/mmtrace-%d-776-0", getpid());
    make_dir(f, name);                              // the same id, another process
    make_dir(f, "tracefs/instances/mmtrace-notes"); // another program's
    make_dir(f, "tracefs/instances/named");
    put_file(f, "tracefs/trace_clock", "boot");
    put_file(f, "tracefs/kprobe_events", "");
    make_dir(f, "tracefs/instances/recording/events");
    put_file(f, "tracefs/instances/recording/events/enable", "1");
    make_dir(f, "run");
    put_file(f, "run/ftrace-999999-5-0",
             "rmdir\tinstances/named\t\nwrite\ttrace_clock\tglob\\tal\n"
             "rmdir\tinstances/recording\t\n"
             "append\tkprobe_events\t-:g/n\\n\n"
             "append\tkprobe_events\t-:g/of_others\\n\n"
             "cancel\tkprobe_events\t-:g/of_others\\n\n"
             "write\t../../escape\tx\nwrite\tcut");
    put_file(f, "run/other", "rmdir\tinstances\t\n");
    assert_int_equal(tracefs_sweep(f->tracefs, f->proc, f->run, &f->log), 3);
    assert_false(exists(f, "tracefs/instances/mmtrace-999999-5-0"));
    assert_false(exists(f, name));
    assert_true(exists(f, "tracefs/instances/mmtrace-notes"));
    assert_false(exists(f, "tracefs/instances/named"));
    assert_file(f, "tracefs/trace_clock", "glob\tal");
    assert_file(f, "tracefs/kprobe_events", "-:g/n\n");
    assert_file(f, "tracefs/instances/recording/events/enable", "0");
    assert_false(exists(f, "run/ftrace-999999-5-0"));
    assert_true(exists(f, "run/other"));
}

// A process that has ended and is not reaped keeps its id.
static void the_dead_need_not_be_reaped(void **state)
{
    struct fixture *f = *state;
    struct process_life life;
    char instance[96], journal[96];
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_life_read("/proc", pid, &life));
    snprintf(instance, sizeof(instance), "tracefs/instances/mmtrace-%d-%llu-0", pid,
             (unsigned long long)life.start_ticks);
    make_dir(f, instance);
    make_dir(f, "tracefs/instances/named");
    make_dir(f, "run");
    snprintf(journal, sizeof(journal), "run/ftrace-%d-%llu-0", pid,
             (unsigned long long)life.start_ticks);
    put_file(f, journal, "rmdir\tinstances/named\t\n");
    assert_int_equal(tracefs_sweep(f->tracefs, "/proc", f->run, &f->log), 2);
    assert_false(exists(f, instance));
    assert_false(exists(f, "tracefs/instances/named"));
    assert_false(exists(f, journal));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

// Nobody holds the journal's lock, so the journal counts as left over, although its process lives.
static void the_lock_decides(void **state)
{
    struct fixture *f = *state;
    char journal[96];
    make_dir(f, "run");
    make_dir(f, "tracefs/instances/named");
    snprintf(journal, sizeof(journal), "run/ftrace-%d-777-0", getpid());
    put_file(f, journal, "rmdir\tinstances/named\t\n");
    assert_int_equal(tracefs_sweep(f->tracefs, f->proc, f->run, &f->log), 1);
    assert_false(exists(f, "tracefs/instances/named"));
}

static void a_journal_that_is_held_stays(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "run");
    make_dir(f, "tracefs/instances/named");
    put_file(f, "run/ftrace-999999-5-0", "rmdir\tinstances/named\t\n");
    CLEANUP(freep) char *path = path_of(f, "run/ftrace-999999-5-0");
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(tracefs_sweep(f->tracefs, f->proc, f->run, &f->log), 0);
    assert_true(exists(f, "tracefs/instances/named"));
}

static void bad_names_are_refused(void **state)
{
    struct fixture *f = *state;
    struct tracefs fs;
    struct err err = {0};
    struct tracefs_options options = {
        .root = f->tracefs, .proc = f->proc, .state_dir = f->run, .instance = "../x"};
    assert_int_equal(tracefs_open(&options, &fs, &err), -EINVAL);
    options.instance = NULL;
    options.root = "/nonexistent";
    assert_int_equal(tracefs_open(&options, &fs, &err), -ENOENT);
}

static void buffer_sizes_follow_the_memory(void **state)
{
    (void)state;
    Pb__FtraceConfig config = PB__FTRACE_CONFIG__INIT;
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 2), 8192);
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(4) << 30, 2), 2048);
    config.buffer_size_kb = 1024;
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 2), 1024);
    config.buffer_size_lower_bound = 1;
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 2), 8192);
    config.buffer_size_kb = 10000;
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 2), 10000);
    config.buffer_size_kb = UINT32_MAX;
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 2), 256 << 10);
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 16), 32 << 10);
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(8) << 30, 4096), 8192);
    assert_int_equal(setup_buffer_kb(&config, UINT64_C(1) << 50, 4), 256 << 10);
    assert_int_equal(setup_buffer_kb(&config, 0, 0), 2048);
}

static void system_calls_have_numbers(void **state)
{
    (void)state;
    assert_true(syscall_number("openat") >= 0);
    assert_int_equal(syscall_number("sys_openat"), syscall_number("openat"));
    assert_int_equal(syscall_number("opena"), -1);
    assert_int_equal(syscall_number(""), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(events_are_found_by_group_name_and_pattern),
        TEST(exits_are_added_for_their_names),
        TEST(categories_are_sets_of_events),
        TEST(borrowed_settings_are_put_back),
        TEST(markers_need_the_main_buffer),
        TEST(what_is_kept_keeps_its_size),
        TEST(own_instances_come_and_go),
        TEST(what_the_dead_left_is_swept),
        TEST(the_dead_need_not_be_reaped),
        TEST(the_lock_decides),
        TEST(a_journal_that_is_held_stays),
        TEST(bad_names_are_refused),
        cmocka_unit_test(buffer_sizes_follow_the_memory),
        cmocka_unit_test(system_calls_have_numbers),
    };
    return cmocka_run_group_tests_name("ftrace_setup", tests, NULL, NULL);
}
