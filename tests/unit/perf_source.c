// SPDX-License-Identifier: Apache-2.0
//
// The parts of linux.perf that need no event of the kernel: the config, names of the kernel, the
// processes and their code. /proc and tracefs are made up.
#include <linux/perf_event.h>

#include "common/elements.h"
#include "producer/ground/kernel_functions.h"
#include "producer/sources/perf/perf_open.h"
#include "producer/sources/perf/perf_settings.h"
#include "producer/sources/perf/perf_tasks.h"
#include "producer/sources/requester.h"
#include "tests/unit/source_fixture.h"

struct parts {
    struct source_fixture f;
    char tracefs[80];
    Pb__PerfEventConfig config;
    Pb__PerfEvents__Timebase timebase;
    Pb__PerfEventConfig__CallstackSampling stacks;
    Pb__PerfEventConfig__Scope scope;
    struct perf_settings settings;
    struct perf_code code;
    struct perf_tasks tasks;
};

static void answered(void *userdata)
{
    (void)userdata;
}

static void parts_init(struct parts *p)
{
    memset(p, 0, sizeof(*p));
    fixture_init(&p->f, "linux.perf", 1u << 20);
    snprintf(p->tracefs, sizeof(p->tracefs), "%s/tracefs", p->f.root);
    p->f.roots.tracefs = p->tracefs;
    pb__perf_event_config__init(&p->config);
    pb__perf_events__timebase__init(&p->timebase);
    pb__perf_event_config__callstack_sampling__init(&p->stacks);
    pb__perf_event_config__scope__init(&p->scope);
    p->config.timebase = &p->timebase;
    p->config.callstack_sampling = &p->stacks;
    p->stacks.scope = &p->scope;
    assert_int_equal(perf_code_init(&p->code, NULL, &p->f.log, p->f.proc), 0);
    p->code.answered = answered;
    p->tasks = (struct perf_tasks){.code = &p->code, .settings = &p->settings, .proc = p->f.proc};
}

static void parts_done(struct parts *p)
{
    perf_tasks_done(&p->tasks);
    perf_code_done(&p->code);
    p->f.class->close(NULL);
    fixture_done(&p->f);
}

static int read_settings(struct parts *p, struct err *err)
{
    *err = (struct err){0};
    return perf_settings_read(&p->f.roots, &p->config, &p->settings, err);
}

static void a_config_without_fields_samples_the_cpu(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    parts_init(&p);
    p.config.timebase = NULL;
    p.config.callstack_sampling = NULL;
    assert_int_equal(read_settings(&p, &err), 0);
    assert_int_equal(p.settings.events[0].type, PERF_TYPE_SOFTWARE);
    assert_int_equal(p.settings.events[0].config, PERF_COUNT_SW_CPU_CLOCK);
    assert_true(p.settings.is_frequency);
    assert_int_equal(p.settings.interval, 10);
    assert_false(perf_settings_has_stacks(&p.settings));
    p.config.all_cpus = true; // the older form
    p.config.sampling_frequency = 50;
    assert_int_equal(read_settings(&p, &err), 0);
    assert_int_equal(p.settings.interval, 50);
    assert_int_equal(p.settings.user_frames, PERF_USER_COPY);
    struct perf_layout layout = perf_events_layout(&p.settings);
    assert_true(layout.has_chain && layout.n_registers > 0);
    p.config.callstack_sampling = &p.stacks;
    p.stacks.user_frames = PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_FRAME_POINTER;
    assert_int_equal(read_settings(&p, &err), 0);
    assert_int_equal(p.settings.user_frames, PERF_USER_CHAIN);
    parts_done(&p);
}

static void a_tracepoint_is_looked_up(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    Pb__PerfEvents__Tracepoint tracepoint;
    parts_init(&p);
    pb__perf_events__tracepoint__init(&tracepoint);
    fixture_text(&p.f, "tracefs/events/vmscan/mm_vmscan_direct_reclaim_begin/id", "321\n");
    p.timebase.event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_TRACEPOINT;
    p.timebase.tracepoint = &tracepoint;
    tracepoint.name = (char *)"vmscan:mm_vmscan_direct_reclaim_begin";
    assert_int_equal(read_settings(&p, &err), 0);
    assert_int_equal(p.settings.events[0].type, PERF_TYPE_TRACEPOINT);
    assert_int_equal(p.settings.events[0].config, 321);
    assert_false(p.settings.is_frequency);
    assert_int_equal(p.settings.interval, 1);
    static const char *const wrong[] = {"", "vmscan", "vmscan:", ":x", "../../x:id", "a:b/c"};
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        tracepoint.name = (char *)wrong[i];
        assert_int_equal(read_settings(&p, &err), -EINVAL);
        assert_non_null(strstr(err.text, "GROUP:EVENT"));
    }
    tracepoint.name = (char *)"vmscan:nothing";
    assert_int_equal(read_settings(&p, &err), -ENOENT);
    parts_done(&p);
}

static void wrong_numbers_are_refused(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    parts_init(&p);
    p.timebase.interval_case = PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD;
    assert_int_equal(read_settings(&p, &err), -EINVAL); // a period of 0
    p.timebase.period = 1000;
    assert_int_equal(read_settings(&p, &err), 0);
    assert_int_equal(p.settings.interval, 1000);
    p.config.ring_buffer_pages = 3;
    assert_int_equal(read_settings(&p, &err), -EINVAL);
    assert_non_null(strstr(err.text, "power of two"));
    p.config.ring_buffer_pages = 16;
    p.timebase.event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER;
    p.timebase.counter = 1000;
    assert_int_equal(read_settings(&p, &err), -EINVAL);
    parts_done(&p);
}

static void modifiers_leave_out_the_others(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    Pb__PerfEvents__EventModifier user =
        PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE;
    parts_init(&p);
    p.timebase.modifiers = &user;
    p.timebase.n_modifiers = 1;
    assert_int_equal(read_settings(&p, &err), 0);
    assert_false(p.settings.events[0].no_user);
    assert_true(p.settings.events[0].no_kernel);
    parts_done(&p);
}

static void functions_of_the_kernel_are_found(void **state)
{
    (void)state;
    struct parts p;
    struct kernel_functions *kernel, *other;
    parts_init(&p);
    fixture_text(&p.f, "proc/kallsyms",
                 "ffffffff81000200 T second\n"
                 "ffffffff81000100 t first\n"
                 "ffffffff81000150 d data\n"
                 "ffffffffc0000000 t of_module\t[zram]\n");
    assert_int_equal(kernel_functions_get(p.f.proc, 0, &kernel), 0);
    assert_int_equal(kernel->functions.n, 3);
    assert_int_equal(kernel_functions_find(kernel, 0xffffffff810000ff), KERNEL_NONE);
    assert_int_equal(kernel_functions_find(NULL, 0xffffffff81000180), KERNEL_NONE);
    assert_string_equal(
        kernel_functions_name(kernel, kernel_functions_find(kernel, 0xffffffff81000180)), "first");
    assert_string_equal(
        kernel_functions_name(kernel, kernel_functions_find(kernel, 0xffffffffc0000010)),
        "of_module [zram]");
    // The table is shared, unless somebody wants a younger one.
    fixture_text(&p.f, "proc/kallsyms", "ffffffff81000200 T third\n");
    assert_int_equal(kernel_functions_get(p.f.proc, NSEC_MAX, &other), 0);
    assert_ptr_equal(other, kernel);
    assert_null(kernel_functions_put(other));
    assert_int_equal(kernel->functions.n, 3);
    assert_int_equal(kernel_functions_get(p.f.proc, 0, &other), 0);
    assert_int_equal(other->functions.n, 1);
    assert_null(kernel_functions_put(kernel));
    assert_int_equal(kernel_functions_get(p.f.proc, NSEC_MAX, &kernel), 0);
    assert_ptr_equal(other, kernel);
    kernel_functions_put(kernel);
    kernel_functions_put(other);
    // An empty or forbidden file gives no table.
    fixture_text(&p.f, "proc/kallsyms", "0000000000000000 T second\n");
    assert_int_equal(kernel_functions_get(p.f.proc, NSEC_MAX, &kernel), -EPERM);
    fixture_text(&p.f, "proc/kallsyms", "ffffffff81000150 d data\n");
    assert_int_equal(kernel_functions_get(p.f.proc, NSEC_MAX, &kernel), -ENODATA);
    parts_done(&p);
}

static struct perf_record mapped(uint32_t pid, uint64_t start, const char *path)
{
    return (struct perf_record){
        .kind = PERF_MAPPED,
        .pid = pid,
        .mapped = {.start = start, .end = start + 0x1000, .file_offset = 0x500, .path = path}};
}

static const struct code_frame *frame_at(struct parts *p, int32_t pid, uint64_t address)
{
    uint32_t frame = perf_task_frame(&p->tasks, perf_tasks_get(&p->tasks, pid), address);
    assert_int_not_equal(frame, CODE_STACK_NONE);
    return &p->code.frames.items[frame];
}

static void code_is_found_by_records_and_by_proc(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    parts_init(&p);
    assert_int_equal(read_settings(&p, &err), 0);
    // A process that is older than the recording.
    fixture_text(&p.f, "proc/77/cmdline", "/usr/bin/old");
    fixture_text(&p.f, "proc/77/maps",
                 "1000-2000 r-xp 00000500 08:01 5 /usr/bin/old\n"
                 "5000-6000 rw-p 00000000 00:00 0 [heap]\n");
    const struct code_frame *frame = frame_at(&p, 77, 0x1010);
    assert_string_equal(p.code.files.items[frame->file].path, "/usr/bin/old");
    assert_int_equal(frame->offset, 0x510);
    // A child has the code of its parent until it executes another program.
    struct perf_record record = {
        .kind = PERF_FORKED, .pid = 80, .tid = 80, .forked.parent_pid = 77};
    perf_tasks_note(&p.tasks, &record);
    assert_ptr_equal(frame_at(&p, 80, 0x1010), frame);
    record = (struct perf_record){.kind = PERF_EXECUTED, .pid = 80, .named.name = "new"};
    perf_tasks_note(&p.tasks, &record);
    assert_int_equal(frame_at(&p, 80, 0x1010)->file, CODE_NOWHERE);
    assert_false(perf_tasks_get(&p.tasks, 80)->has_made_code);
    record = mapped(80, 0x1000, "/usr/bin/new");
    perf_tasks_note(&p.tasks, &record);
    frame = frame_at(&p, 80, 0x1010);
    assert_string_equal(p.code.files.items[frame->file].path, "/usr/bin/new");
    // Code without a file, and files of memory, keep their addresses.
    record = mapped(80, 0x9000, "/memfd:jit");
    perf_tasks_note(&p.tasks, &record);
    frame = frame_at(&p, 80, 0x9010);
    assert_int_equal(frame->file, CODE_NOWHERE);
    assert_int_equal(frame->offset, 0x9010);
    assert_true(perf_tasks_get(&p.tasks, 80)->has_made_code);
    record = (struct perf_record){.kind = PERF_EXITED, .pid = 80, .tid = 80};
    perf_tasks_note(&p.tasks, &record);
    assert_int_equal(p.tasks.n, 1);
    parts_done(&p);
}

static void the_config_picks_processes(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    int32_t pids[] = {77}, others[] = {78};
    char *names[] = {(char *)"work*"};
    parts_init(&p);
    p.scope.target_pid = pids;
    p.scope.n_target_pid = 1;
    p.scope.target_cmdline = names;
    p.scope.n_target_cmdline = 1;
    p.scope.exclude_pid = others;
    p.scope.n_exclude_pid = 1;
    assert_int_equal(read_settings(&p, &err), 0);
    fixture_text(&p.f, "proc/78/cmdline", "/usr/bin/worker");
    fixture_text(&p.f, "proc/79/cmdline", "/usr/bin/worker");
    fixture_text(&p.f, "proc/80/cmdline", "/usr/bin/other");
    assert_int_equal(perf_tasks_get(&p.tasks, 77)->scope, TASK_SAMPLED);
    assert_int_equal(perf_tasks_get(&p.tasks, 78)->scope, TASK_LEFT_OUT);
    assert_int_equal(perf_tasks_get(&p.tasks, 79)->scope, TASK_SAMPLED);
    assert_int_equal(perf_tasks_get(&p.tasks, 80)->scope, TASK_LEFT_OUT);
    const struct perf_record forked = {
        .kind = PERF_FORKED, .pid = 81, .tid = 81, .forked.parent_pid = 77};
    perf_tasks_note(&p.tasks, &forked);
    assert_int_equal(perf_tasks_get(&p.tasks, 81)->scope, TASK_LEFT_OUT);
    p.scope.target_descendants = true;
    assert_int_equal(read_settings(&p, &err), 0);
    perf_tasks_note(&p.tasks, &forked);
    assert_int_equal(perf_tasks_get(&p.tasks, 81)->scope, TASK_SAMPLED);
    const struct perf_record executed = {.kind = PERF_EXECUTED, .pid = 81, .named.name = "x"};
    perf_tasks_note(&p.tasks, &executed);
    assert_int_equal(perf_tasks_get(&p.tasks, 81)->scope, TASK_SAMPLED);
    parts_done(&p);
}

static void a_process_that_has_ended_is_known_by_its_records(void **state)
{
    (void)state;
    struct parts p;
    struct err err;
    char *names[] = {(char *)"brief", (char *)"a_name_that_is_long"}, *never[] = {(char *)"no*"};
    parts_init(&p);
    p.scope.target_cmdline = names;
    p.scope.n_target_cmdline = ELEMENTS(names);
    p.scope.exclude_cmdline = never;
    p.scope.n_exclude_cmdline = 1;
    assert_int_equal(read_settings(&p, &err), 0);
    fixture_text(&p.f, "proc/77/comm", "shell\n");
    fixture_text(&p.f, "proc/77/cmdline", "/bin/shell");
    static const struct {
        const char *name;
        enum task_scope scope;
    } programs[] = {
        {"brief", TASK_SAMPLED},
        {"a_name_that_is_", TASK_SAMPLED},
        {"a_name", TASK_LEFT_OUT},
        {"nothing", TASK_LEFT_OUT},
    };
    for (size_t i = 0; i < ELEMENTS(programs); i++) {
        uint32_t pid = 80 + (uint32_t)i;
        struct perf_record record = {
            .kind = PERF_FORKED, .pid = pid, .tid = pid, .forked = {77, 77}};
        perf_tasks_note(&p.tasks, &record);
        assert_string_equal(perf_tasks_name(&p.tasks, (int32_t)pid), "shell");
        record = (struct perf_record){
            .kind = PERF_EXECUTED, .pid = pid, .tid = pid, .named.name = programs[i].name};
        perf_tasks_note(&p.tasks, &record);
        assert_string_equal(perf_tasks_name(&p.tasks, (int32_t)pid), programs[i].name);
        assert_int_equal(perf_tasks_get(&p.tasks, (int32_t)pid)->scope, programs[i].scope);
        // A thread has the name of the thread that made it.
        record =
            (struct perf_record){.kind = PERF_FORKED, .pid = pid, .tid = 90, .forked = {pid, pid}};
        perf_tasks_note(&p.tasks, &record);
        assert_string_equal(perf_tasks_name(&p.tasks, 90), programs[i].name);
        record = (struct perf_record){.kind = PERF_EXITED, .pid = pid, .tid = 90};
        perf_tasks_note(&p.tasks, &record);
        assert_null(perf_tasks_name(&p.tasks, 90));
        assert_non_null(perf_tasks_find(&p.tasks, (int32_t)pid));
    }
    parts_done(&p);
}

static void a_user_records_no_counters_of_others(void **state)
{
    (void)state;
    struct parts p;
    struct err err = {0};
    struct requester user = {.is_limited = true, .uid = 1000, .gid = 1000};
    Pb__DataSourceConfig config;
    parts_init(&p);
    pb__data_source_config__init(&config);
    config.perf_event_config = &p.config;
    p.f.env.requester = &user;
    p.stacks.kernel_frames = true;
    p.timebase.interval_case = PB__PERF_EVENTS__TIMEBASE__INTERVAL_POLL_PERIOD_MS;
    p.timebase.poll_period_ms = 100;
    assert_int_equal(p.f.class->open(&p.f.env, &config, &p.f.source, &err), -EPERM);
    assert_non_null(strstr(err.text, "only root may record"));
    p.timebase.interval_case = PB__PERF_EVENTS__TIMEBASE__INTERVAL__NOT_SET;
    // Breakpoints, and probes by the number that the kernel gives them.
    Pb__PerfEvents__RawEvent raw = PB__PERF_EVENTS__RAW_EVENT__INIT;
    p.timebase.event_case = PB__PERF_EVENTS__TIMEBASE__EVENT_RAW_EVENT;
    p.timebase.raw_event = &raw;
    for (raw.type = PERF_TYPE_BREAKPOINT; raw.type < 12; raw.type++) {
        raw.has_type = true;
        assert_int_equal(p.f.class->open(&p.f.env, &config, &p.f.source, &err), -EPERM);
    }
    p.timebase.event_case = PB__PERF_EVENTS__TIMEBASE__EVENT__NOT_SET;
    assert_int_equal(p.f.class->open(&p.f.env, &config, &p.f.source, &err), 0);
    assert_non_null(strstr(p.f.log_text.text, "the kernel's part is left out"));
    parts_done(&p);
}

static void equal_stacks_are_one(void **state)
{
    (void)state;
    struct parts p;
    parts_init(&p);
    uint32_t one = perf_code_kernel_frame(&p.code, 1, "one");
    uint32_t two = perf_code_kernel_frame(&p.code, 2, "two");
    const uint32_t frames[] = {one, two}, turned[] = {two, one};
    uint32_t stack = perf_code_stack(&p.code, frames, 2);
    assert_int_equal(perf_code_kernel_frame(&p.code, 1, "one"), one);
    assert_int_equal(perf_code_stack(&p.code, frames, 2), stack);
    assert_int_not_equal(perf_code_stack(&p.code, turned, 2), stack);
    assert_true(perf_code_is_ready(&p.code, stack));
    assert_string_equal(perf_code_name(&p.code, &p.code.frames.items[two]), "two");
    parts_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_config_without_fields_samples_the_cpu),
        cmocka_unit_test(a_tracepoint_is_looked_up),
        cmocka_unit_test(wrong_numbers_are_refused),
        cmocka_unit_test(modifiers_leave_out_the_others),
        cmocka_unit_test(functions_of_the_kernel_are_found),
        cmocka_unit_test(code_is_found_by_records_and_by_proc),
        cmocka_unit_test(the_config_picks_processes),
        cmocka_unit_test(a_process_that_has_ended_is_known_by_its_records),
        cmocka_unit_test(equal_stacks_are_one),
        cmocka_unit_test(a_user_records_no_counters_of_others),
    };
    return cmocka_run_group_tests_name("perf_source", tests, NULL, NULL);
}
