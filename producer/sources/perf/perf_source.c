// SPDX-License-Identifier: Apache-2.0
//
// linux.perf: samples of call stacks by the kernel's perf events.
//
// A timer reads the rings of all CPUs. A sample becomes a stack of frames at once, while its
// process perhaps still lives. It is written when the frames have their names, which a helper reads
// from the files; until then it waits, and not longer than WAIT_MAX.
//
// A copied stack goes to the unwinder. The kernel's chain by frame pointers is the sample's stack
// until the answer comes, and stays if the answer knows less, or if the unwinder has reached its
// limits.
//
// If the user who asked may not trace all processes, a process is judged when its first sample is
// read, a moment after the sample was taken. Another program may run in the process by then: a
// set-uid program may have executed a program of the user's. Such a sample therefore waits until
// all records up to the judgement are read. It is left out if the process executed a program or
// ended in between, or if a record may be lost.
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/memory.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/ground/kernel_functions.h"
#include "producer/ground/proc_text.h"
#include "producer/sources/perf/perf_code.h"
#include "producer/sources/perf/perf_open.h"
#include "producer/sources/perf/perf_ring.h"
#include "producer/sources/perf/perf_settings.h"
#include "producer/sources/perf/perf_tasks.h"
#include "producer/sources/perf/perf_unwind.h"
#include "producer/sources/perf/perf_writer.h"
#include "producer/sources/source.h"
#include "protos/fields.h"

#define WAIT_MAX   (3 * NSEC_PER_SEC)
#define FLUSH_WAIT (500 * NSEC_PER_MSEC)
#define STOP_WAIT  (3 * NSEC_PER_SEC)
#define ERR_MAX    160
#define USER_HZ    1000 // samples a second on each CPU that one user may ask for
#define USER_PAGES 4096 // of rings on each CPU that one user may have
#define MARKS_FROM ((uint64_t)PERF_CONTEXT_MAX) // addresses from here on are marks

extern const struct source_class perf_class;

struct perf_ring_io {
    struct loop_io *io;
};
VEC_DEFINE(perf_ring_io_vec, struct perf_ring_io);

struct perf_source {
    struct source_env env;
    struct perf_settings settings;
    struct perf_layout layout;
    struct perf_opened opened;
    struct perf_ring_vec rings;
    struct perf_ring_io_vec ios;
    struct loop_timer *timer;
    nsec_t to_boot; // the difference from a record's time to boot time
    struct kernel_functions *kernel;
    struct perf_code code;
    struct perf_tasks tasks;
    struct perf_writer writer;
    struct perf_unwinder *unwinder; // owned; NULL: stacks are not copied
    // Waiting samples, one after the other.
    uint8_t *waiting;
    size_t waiting_size, waiting_capacity, sample_size;
    bool is_started, has_ended, is_kernel_read, is_limited;
    uint64_t read_until;  // all records up to this time are read
    int n_doubted;        // rounds whose samples are doubtful, from this one on
    uint64_t hz_taken;    // of `frequencies`
    uint64_t pages_taken; // of `rings`
    uint64_t n_unknown;   // samples that are left out because a ring was full
    uint64_t n_samples, n_lost, n_left_out, n_refused, n_too_many, n_missed;
    uint64_t last_unwind, n_not_unwound;
    char problem[ERR_MAX];
};

// The kernel takes samples in interrupts, which stop the whole machine. All sources of this process
// share the limits.
static struct budget frequencies = {
    .limits = {.what = "samples a second", .each_max = USER_HZ, .all_max = 4 * (uint64_t)USER_HZ}};

// The memory of the rings is the kernel's.
static struct budget rings = {.limits = {.what = "pages of rings on each processor",
                                         .each_max = USER_PAGES,
                                         .all_max = 4 * (uint64_t)USER_PAGES}};

// Samples that wait.

static struct perf_waiting *waiting_at(struct perf_source *perf, size_t offset)
{
    return (struct perf_waiting *)(perf->waiting + offset);
}

static void written(struct perf_source *perf, bool is_written)
{
    perf->n_samples += is_written;
    perf->n_refused += !is_written;
}

// Keeps the stack of the frame pointers.
static void not_unwound(struct perf_source *perf, struct perf_waiting *sample)
{
    perf->n_not_unwound++;
    sample->unwind_error = PB_UNWIND_ERROR_THREAD_TIMEOUT;
    sample->unwind = 0;
}

// Returns room for a sample, or NULL if too many samples wait.
static struct perf_waiting *waiting_push(struct perf_source *perf)
{
    size_t size = perf->waiting_size + perf->sample_size;
    if (size > perf->settings.waiting_max ||
        vec_reserve((void **)&perf->waiting, &perf->waiting_capacity, size, 1) < 0)
        return NULL;
    struct perf_waiting *sample = waiting_at(perf, perf->waiting_size);
    perf->waiting_size = size;
    return sample;
}

// Writes the samples that have their names, or all of them.
static void waiting_write(struct perf_source *perf, bool all)
{
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    size_t kept = 0;
    all |= perf_code_is_large(&perf->code);
    for (size_t at = 0; at < perf->waiting_size; at += perf->sample_size) {
        struct perf_waiting *sample = waiting_at(perf, at);
        bool is_ready = all || now >= sample->deadline ||
                        (!sample->unwind && (sample->stack == CODE_STACK_NONE ||
                                             perf_code_is_ready(&perf->code, sample->stack)));
        if (sample->is_doubtful) {
            perf->n_left_out++;
            continue;
        }
        if (is_ready && sample->sure_from <= perf->read_until) {
            if (sample->unwind)
                not_unwound(perf, sample);
            written(perf, perf_write_sample(&perf->writer, sample));
            continue;
        }
        if (kept != at)
            memmove(perf->waiting + kept, perf->waiting + at, perf->sample_size);
        kept += perf->sample_size;
    }
    perf->waiting_size = kept;
    interned_stacks_end(&perf->writer.interned);
    if (kept == 0 && perf_code_is_large(&perf->code)) {
        perf_code_forget(&perf->code);
        perf_writer_renew(&perf->writer);
    }
}

// Returns whether the process executes, begins or ends. A judgement after this record says nothing
// about samples before it.
static bool changes_process(const struct perf_record *record)
{
    return record->kind == PERF_EXECUTED ||
           (record->kind == PERF_FORKED && record->pid != record->forked.parent_pid) ||
           (record->kind == PERF_EXITED && record->pid == record->tid);
}

static void process_doubt(struct perf_source *perf, uint32_t pid, uint64_t time)
{
    if (!perf_tasks_judged_since(&perf->tasks, (int32_t)pid, time))
        return;
    for (size_t at = 0; at < perf->waiting_size; at += perf->sample_size) {
        struct perf_waiting *sample = waiting_at(perf, at);
        sample->is_doubtful |=
            sample->pid == pid && sample->ring_time <= time && time <= sample->sure_from;
    }
}

// If a ring was full, records may be lost in this round and the next one: marks their samples as
// doubtful.
static void round_doubt(struct perf_source *perf, size_t waiting_before)
{
    vec_foreach(&perf->rings, ring)
        if (ring->was_full)
            perf->n_doubted = 2;
    if (!perf->is_limited || perf->n_doubted == 0)
        return;
    perf->n_doubted--;
    for (size_t at = 0; at < perf->waiting_size; at += perf->sample_size) {
        struct perf_waiting *sample = waiting_at(perf, at);
        bool is_unknown = at >= waiting_before || sample->sure_from > perf->read_until;
        perf->n_unknown += is_unknown && !sample->is_doubtful;
        sample->is_doubtful |= is_unknown;
    }
    perf_tasks_doubt(&perf->tasks);
}

static void names_came(void *userdata)
{
    waiting_write(userdata, false);
}

// Samples.

static void kernel_read(struct perf_source *perf)
{
    perf->is_kernel_read = true;
    int r = kernel_functions_get(perf->env.roots->proc, perf->is_limited ? NSEC_MAX : KERNEL_FRESH,
                                 &perf->kernel);
    if (r == 0)
        return;
    if (r == -EPERM)
        log_warning(perf->env.log, "linux.perf: functions of the kernel have no names: "
                                   "kernel.kptr_restrict hides their addresses");
    else
        log_warning(perf->env.log, "linux.perf: functions of the kernel have no names: "
                                   "/proc/kallsyms cannot be read");
}

static uint32_t error_of(enum unwind_end end)
{
    switch (end) {
    case UNWIND_NO_TABLE:
        return PB_UNWIND_ERROR_UNWIND_INFO;
    case UNWIND_NO_MEMORY:
        return PB_UNWIND_ERROR_MEMORY_INVALID;
    case UNWIND_TOO_LONG:
        return PB_UNWIND_ERROR_MAX_FRAMES_EXCEEDED;
    default:
        return 0;
    }
}

static void unwound(void *userdata, uint64_t number, const uint32_t *frames, size_t n,
                    enum unwind_end end)
{
    struct perf_source *perf = userdata;
    struct perf_waiting *sample = NULL;
    for (size_t at = 0; at < perf->waiting_size && !sample; at += perf->sample_size)
        if (waiting_at(perf, at)->unwind == number)
            sample = waiting_at(perf, at);
    if (!sample) // the answer was late
        return;
    uint32_t whole[PERF_FRAMES_MAX];
    const struct code_stack *chain =
        sample->stack == CODE_STACK_NONE ? NULL : &perf->code.stacks.items[sample->stack];
    size_t n_kernel = chain ? sample->n_kernel : 0, n_chain = chain ? chain->n - n_kernel : 0;
    bool is_better = n > 0 && (end == UNWIND_WHOLE || n >= n_chain);
    sample->unwind = 0;
    if (is_better || n_chain == 0)
        sample->unwind_error = error_of(end);
    if (!is_better)
        return;
    if (n > PERF_FRAMES_MAX - n_kernel)
        n = PERF_FRAMES_MAX - n_kernel;
    if (n_kernel)
        memcpy(whole, perf->code.stack_frames.items + chain->first, n_kernel * sizeof(whole[0]));
    memcpy(whole + n_kernel, frames, n * sizeof(whole[0]));
    sample->stack = perf_code_stack(&perf->code, whole, n_kernel + n);
}

// Adds the frames of the kernel's call chain, innermost first. *ret_kernel is the number of frames
// of the kernel.
static size_t frames_of_chain(struct perf_source *perf, const struct perf_record *record,
                              struct perf_task *task, uint32_t *frames, uint32_t *ret_kernel)
{
    uint64_t context = PERF_CONTEXT_USER;
    bool is_first = true;
    size_t n = 0;
    for (size_t i = 0; i < record->sample.n_chain && n < PERF_FRAMES_MAX; i++) {
        uint64_t address;
        memcpy(&address, record->sample.chain + i, sizeof(address));
        if (address >= MARKS_FROM) {
            context = address;
            is_first = true;
            continue;
        }
        // A return address belongs to the call before it.
        uint64_t pc = address - !is_first;
        uint32_t frame = CODE_STACK_NONE;
        is_first = false;
        if (context == (uint64_t)PERF_CONTEXT_USER && task->pid != 0) {
            frame = perf_task_frame(&perf->tasks, task, pc);
        } else if (context == (uint64_t)PERF_CONTEXT_KERNEL) {
            if (!perf->is_kernel_read)
                kernel_read(perf);
            uint32_t function = kernel_functions_find(perf->kernel, pc);
            const char *name =
                function == KERNEL_NONE ? NULL : kernel_functions_name(perf->kernel, function);
            frame = perf_code_kernel_frame(&perf->code, function, name);
            *ret_kernel += frame != CODE_STACK_NONE;
        }
        if (frame != CODE_STACK_NONE)
            frames[n++] = frame;
    }
    return n;
}

static void sample_take(struct perf_source *perf, const struct perf_record *record)
{
    uint32_t frames[PERF_FRAMES_MAX];
    struct perf_task *task = perf_tasks_get(&perf->tasks, (int32_t)record->pid);
    if (!task || task->scope != TASK_SAMPLED) {
        perf->n_left_out++;
        return;
    }
    struct perf_waiting *sample = waiting_push(perf);
    struct perf_waiting *skipped = sample ? NULL : memory_malloc(perf->sample_size);
    struct perf_waiting *to = sample ? sample : skipped;
    if (!to)
        return;
    nsec_t time = (nsec_t)record->time + perf->to_boot;
    *to = (struct perf_waiting){.time = time,
                                .deadline = nsec_now(CLOCK_BOOTTIME) + WAIT_MAX,
                                .cpu = record->cpu,
                                .pid = record->pid,
                                .tid = record->tid,
                                .mode = record->sample.mode,
                                .stack = CODE_STACK_NONE,
                                .ring_time = record->time};
    if (perf->is_limited && task->judged >= record->time)
        to->sure_from = task->judged;
    memcpy(to->counts, record->sample.counts, perf->settings.n_events * sizeof(uint64_t));
    if (skipped) {
        perf->n_too_many++;
        perf_write_skipped(&perf->writer, skipped, PB_PROFILER_SKIP_UNWIND_ENQUEUE);
        free(skipped);
        return;
    }
    bool had_made_code = task->has_made_code;
    size_t n = frames_of_chain(perf, record, task, frames, &to->n_kernel);
    if (n > 0)
        to->stack = perf_code_stack(&perf->code, frames, n);
    // The outermost frame of a whole stack is in a file. Otherwise the frame pointers led into code
    // that was made at run time, or were wrong.
    if (n > to->n_kernel && perf->code.frames.items[frames[n - 1]].file == CODE_NOWHERE)
        to->unwind_error = PB_UNWIND_ERROR_UNWIND_INFO;
    if (perf->unwinder && record->sample.registers && task->code.ranges.n > 0) {
        to->unwind = ++perf->last_unwind;
        if (!perf_unwinder_ask(perf->unwinder, record, task, to->unwind))
            not_unwound(perf, to);
    }
    pid_feed_publish(perf->env.pids, (int32_t)record->pid);
    pid_feed_publish(perf->env.pids, (int32_t)record->tid);
    if (task->has_made_code && !had_made_code) // a perf map has the names of such code
        pid_feed_profiled(perf->env.pids, task->pid);
}

// Publishes the end and the name of a task, which may be gone before process_stats looks it up.
static void end_publish(struct perf_source *perf, const struct perf_record *record)
{
    const struct perf_task *task = perf_tasks_find(&perf->tasks, (int32_t)record->pid);
    const char *name = perf_tasks_name(&perf->tasks, (int32_t)record->tid);
    if (!task || task->scope != TASK_SAMPLED || !name || perf->env.pids->has_exits)
        return;
    const struct task_end end = {.tid = (int32_t)record->tid,
                                 .tgid = (int32_t)record->pid,
                                 .cpu = record->cpu,
                                 .time = (nsec_t)record->time + perf->to_boot,
                                 .name = name,
                                 .size = strlen(name) + 1};
    pid_feed_exit(perf->env.pids, &end);
}

static void record_take(struct perf_source *perf, const struct perf_record *record)
{
    switch (record->kind) {
    case PERF_SAMPLED:
        sample_take(perf, record);
        break;
    case PERF_LOST:
        perf->n_lost += record->n_lost;
        perf_write_lost(&perf->writer, (nsec_t)record->time + perf->to_boot, record->cpu,
                        record->n_lost);
        break;
    default:
        if (perf->is_limited && changes_process(record))
            process_doubt(perf, record->pid, record->time);
        if (record->kind == PERF_EXECUTED || record->kind == PERF_NAMED)
            pid_feed_forget(perf->env.pids, (int32_t)record->tid, record->kind == PERF_EXECUTED);
        if (record->kind == PERF_EXITED)
            end_publish(perf, record);
        perf_tasks_note(&perf->tasks, record);
        break;
    }
}

static void clock_compare(struct perf_source *perf)
{
    perf->to_boot = perf->opened.clock == CLOCK_BOOTTIME
                        ? 0
                        : nsec_now(CLOCK_BOOTTIME) - nsec_now(perf->opened.clock);
}

static void stop_events(struct perf_source *perf);

// Ends the source if this process has grown beyond the config's limit.
static void guard(struct perf_source *perf)
{
    char text[128];
    uint64_t pages = 0;
    if (!perf->settings.memory_max_kb || perf->has_ended)
        return;
    struct span statm = text_file_span(text, sizeof(text), perf->env.roots->proc, "/self/statm");
    if (!span_take_u64(&statm, &pages) || !span_take_u64(&statm, &pages) ||
        pages * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024) <= perf->settings.memory_max_kb)
        return;
    perf->has_ended = true;
    stop_events(perf);
    waiting_write(perf, true);
    perf_write_guardrail(&perf->writer, nsec_now(CLOCK_BOOTTIME));
    snprintf(perf->problem, sizeof(perf->problem),
             "the recorder takes more than max_daemon_memory_kb (%llu): sampling has ended",
             (unsigned long long)perf->settings.memory_max_kb);
    log_warning(perf->env.log, "linux.perf: %s", perf->problem);
}

static void rings_read(void *userdata)
{
    struct perf_source *perf = userdata;
    clock_compare(perf);
    uint64_t time_max = (uint64_t)nsec_now(perf->opened.clock);
    size_t waiting_before = perf->waiting_size;
    perf_rings_begin(&perf->rings, &perf->layout);
    for (struct perf_ring *ring; (ring = perf_rings_next(&perf->rings, &perf->layout, time_max));)
        record_take(perf, &ring->record);
    perf_rings_end(&perf->rings);
    perf->env.pids->n_rounds += !perf->env.pids->has_exits; // else the other source counts
    round_doubt(perf, waiting_before);
    perf->read_until = time_max;
    perf_code_ask(&perf->code);
    waiting_write(perf, false);
    guard(perf);
}

static void counters_read(void *userdata)
{
    struct perf_source *perf = userdata;
    uint64_t values[1 + PERF_COUNTS_MAX];
    perf->n_missed += source_missed(&perf->env);
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    vec_foreach(&perf->opened.events, cpu) {
        ssize_t n = read(cpu->fds[0], values, sizeof(values));
        if (n == (ssize_t)((1 + cpu->n) * sizeof(values[0])))
            written(perf, perf_write_counts(&perf->writer, now, cpu->cpu, values + 1));
    }
    interned_stacks_end(&perf->writer.interned);
}

// The life of the source.

static void perf_check(const Pb__DataSourceConfig *config,
                       void (*warn)(void *userdata, const char *what), void *userdata)
{
    const Pb__PerfEventConfig *own = config->perf_event_config;
    if (own && own->callstack_sampling && own->timebase &&
        own->timebase->interval_case == PB__PERF_EVENTS__TIMEBASE__INTERVAL_POLL_PERIOD_MS)
        warn(userdata, "callstack_sampling: has no effect with poll_period_ms");
}

static struct source *perf_close(struct source *source)
{
    struct perf_source *perf = (struct perf_source *)source;
    if (!perf)
        return NULL;
    stop_events(perf);
    vec_foreach(&perf->rings, ring)
        perf_ring_unmap(ring);
    perf_ring_vec_done(&perf->rings);
    perf_events_close(&perf->opened);
    perf_unwinder_free(perf->unwinder);
    perf->kernel = kernel_functions_put(perf->kernel);
    perf_tasks_done(&perf->tasks);
    perf_writer_done(&perf->writer);
    perf_code_done(&perf->code);
    free(perf->waiting);
    if (perf->hz_taken)
        budget_give(&frequencies, perf->env.requester->payer, perf->hz_taken);
    if (perf->pages_taken)
        budget_give(&rings, perf->env.requester->payer, perf->pages_taken);
    free(perf);
    return NULL;
}

// Returns whether the kernel lets every user count the event. Other events are probes and
// breakpoints in code of all users, or counters of the whole machine.
static bool is_of_processes(const struct perf_event *event)
{
    return event->type == PERF_TYPE_HARDWARE || event->type == PERF_TYPE_SOFTWARE ||
           event->type == PERF_TYPE_HW_CACHE || event->type == PERF_TYPE_RAW;
}

// A user other than root has the limits of perf_event_paranoid = 2: the user's own processes,
// outside of the kernel.
static int limit(const struct source_env *env, struct perf_settings *settings, struct err *err)
{
    const struct perf_event *timebase = &settings->events[0];
    if (!env->requester || !env->requester->is_limited)
        return 0;
    if (!is_of_processes(timebase) || settings->n_events > 1 || settings->poll_period)
        return err_set(err, -EPERM,
                       "tracepoints, probes, followers and poll_period_ms show all users: only "
                       "root may record them");
    if (!settings->is_frequency)
        return err_set(err, -EPERM,
                       "a period may take any number of samples a second: only root may set a "
                       "period, others set a frequency");
    if (settings->kernel_frames)
        log_warning(env->log, "linux.perf: the kernel's part is left out: only root may record it");
    settings->kernel_frames = false;
    settings->events[0].no_kernel = settings->events[0].no_hypervisor = true;
    return 0;
}

static int take_budgets(struct perf_source *perf, struct err *err)
{
    uint64_t payer = perf->env.requester->payer, hz = perf->settings.interval;
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    int r = budget_take(&frequencies, payer, hz, now, err);
    if (r < 0)
        return r;
    r = budget_take(&rings, payer, perf->settings.ring_pages, now, err);
    if (r < 0) {
        budget_give(&frequencies, payer, hz);
        return r;
    }
    perf->hz_taken = hz;
    perf->pages_taken = perf->settings.ring_pages;
    return 0;
}

static int perf_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                     struct source **ret, struct err *err)
{
    struct perf_settings settings;
    uint32_t random = 0;
    int r = perf_settings_read(env->roots, config->perf_event_config, &settings, err);
    if (r == 0)
        r = limit(env, &settings, err);
    if (r < 0)
        return r;
    struct perf_source *perf = calloc(1, sizeof(*perf));
    if (!perf)
        return -ENOMEM;
    perf->env = *env;
    perf->settings = settings;
    perf->layout = perf_events_layout(&perf->settings);
    perf->is_limited = env->requester && env->requester->is_limited;
    r = perf->is_limited ? take_budgets(perf, err) : 0;
    if (r < 0) {
        free(perf);
        return r;
    }
    perf->sample_size = sizeof(struct perf_waiting) + settings.n_events * sizeof(uint64_t);
    if (settings.n_shards > 1 && getrandom(&random, sizeof(random), GRND_NONBLOCK) > 0)
        random %= settings.n_shards;
    perf->tasks = (struct perf_tasks){.code = &perf->code,
                                      .settings = &perf->settings,
                                      .requester = env->requester,
                                      .proc = env->roots->proc,
                                      .shard = random};
    perf->writer = (struct perf_writer){
        .writer = env->writer, .code = &perf->code, .settings = &perf->settings, .shard = random};
    r = perf_code_init(&perf->code, env->helper, env->log, env->roots->proc);
    if (r < 0) {
        perf_close((struct source *)perf);
        return r;
    }
    perf->code.answered = names_came;
    perf->code.userdata = perf;
    *ret = (struct source *)perf;
    return 0;
}

// Without an unwinder, frame pointers are followed.
static void unwinder_open(struct perf_source *perf)
{
    const struct perf_unwinder_env env = {.loop = perf->env.loop,
                                          .helper = perf->env.helper,
                                          .log = perf->env.log,
                                          .code = &perf->code,
                                          .done = unwound,
                                          .userdata = perf,
                                          .waiting_max = perf->settings.waiting_max};
    struct err err = {0};
    if (perf->settings.user_frames != PERF_USER_COPY ||
        perf_unwinder_new(&env, &perf->unwinder, &err) == 0)
        return;
    log_warning(perf->env.log, "linux.perf: stacks are followed by frame pointers: %s", err.text);
    perf->settings.user_frames = PERF_USER_CHAIN;
    perf->layout = perf_events_layout(&perf->settings);
}

static int perf_prepare(struct source *source, struct err *err)
{
    struct perf_source *perf = (struct perf_source *)source;
    if (perf->opened.events.n > 0)
        return 0;
    unwinder_open(perf);
    int r = perf_events_open(&perf->settings, perf->env.roots, &perf->opened, err);
    if (r < 0)
        perf_events_close(&perf->opened);
    else if (perf->opened.is_user_only)
        log_warning(perf->env.log, "linux.perf: the kernel's part is left out: this needs root or "
                                   "CAP_PERFMON");
    return r;
}

static int ring_add(struct perf_source *perf, int fd)
{
    struct perf_ring ring;
    int r = perf_ring_map(&ring, fd, perf->settings.ring_pages);
    if (r == 0 && (r = perf_ring_vec_push(&perf->rings, ring)) < 0)
        perf_ring_unmap(&ring);
    struct perf_ring_io io = {0};
    if (r == 0)
        r = loop_add_io(perf->env.loop, fd, EPOLLIN, rings_read, perf, &io.io);
    if (r == 0 && (r = perf_ring_io_vec_push(&perf->ios, io)) < 0)
        loop_remove_io(io.io);
    return r;
}

static int perf_start(struct source *source, struct err *err)
{
    struct perf_source *perf = (struct perf_source *)source;
    bool polls = perf->settings.poll_period > 0;
    nsec_t period = polls ? perf->settings.poll_period : perf->settings.read_period;
    int r = perf_prepare(source, err);
    if (r < 0)
        return r;
    perf->tasks.clock = perf->opened.clock;
    if (!polls && perf->env.pids->exit_delay < period)
        perf->env.pids->exit_delay = period;
    perf_tasks_begin(&perf->tasks);
    for (size_t i = 0; r == 0 && !polls && i < perf->opened.events.n; i++)
        if (perf->opened.events.items[i].output_fd < 0)
            r = ring_add(perf, perf->opened.events.items[i].fds[0]);
    if (r == 0)
        r = perf_events_connect(&perf->opened);
    if (r < 0)
        return err_errno(err, r, "the ring of %u pages", perf->settings.ring_pages);
    r = source_add_timer(&perf->env, nsec_now(CLOCK_BOOTTIME) + period, period,
                         polls ? counters_read : rings_read, perf, &perf->timer);
    if (r < 0)
        return err_errno(err, r, "event loop");
    perf_events_enable(&perf->opened, true);
    perf->is_started = true;
    return 0;
}

static void stop_events(struct perf_source *perf)
{
    perf->timer = loop_remove_timer(perf->timer);
    vec_foreach(&perf->ios, io)
        loop_remove_io(io->io);
    perf_ring_io_vec_done(&perf->ios);
    if (perf->is_started)
        perf_events_enable(&perf->opened, false);
    perf->is_started = false;
}

static void settle(struct perf_source *perf, nsec_t time)
{
    if (perf->settings.poll_period || perf->has_ended)
        return;
    rings_read(perf);
    if (perf->is_limited && perf->is_started) // a second round decides the doubtful samples
        rings_read(perf);
    nsec_t deadline = source_wait_until(&perf->env, time);
    perf_unwinder_settle(perf->unwinder, deadline);
    while (perf->waiting_size > 0 && perf->code.n_calls > 0 &&
           nsec_now(CLOCK_MONOTONIC) < deadline &&
           foreign_helper_settle(perf->env.helper, deadline))
        waiting_write(perf, false);
    waiting_write(perf, true);
}

static void perf_flush(struct source *source)
{
    settle((struct perf_source *)source, FLUSH_WAIT);
}

static void perf_stop(struct source *source)
{
    struct perf_source *perf = (struct perf_source *)source;
    if (perf->is_limited && perf->is_started && !perf->settings.poll_period) { // see settle()
        rings_read(perf);
        rings_read(perf);
    }
    stop_events(perf);
    settle(perf, STOP_WAIT);
    uint64_t n_damaged = 0;
    vec_foreach(&perf->rings, ring)
        n_damaged += ring->n_damaged;
    if (n_damaged)
        log_warning(perf->env.log, "linux.perf: %llu records of the kernel were malformed",
                    (unsigned long long)n_damaged);
    if (perf->n_lost)
        log_warning(perf->env.log,
                    "linux.perf: the kernel's rings were full: %llu records are lost (raise "
                    "ring_buffer_pages, or lower the frequency)",
                    (unsigned long long)perf->n_lost);
    if (perf->n_unknown)
        log_warning(perf->env.log,
                    "linux.perf: %llu samples are left out: a ring of the kernel was full, so that "
                    "their processes are not known for sure (raise ring_buffer_pages, or lower the "
                    "frequency)",
                    (unsigned long long)perf->n_unknown);
    if (perf->n_not_unwound)
        log_warning(perf->env.log,
                    "linux.perf: %llu of %llu stacks are followed by frame pointers only: the "
                    "unwinder had used its share of a processor, or too many stacks waited (lower "
                    "the frequency, or raise max_enqueued_footprint_kb)",
                    (unsigned long long)perf->n_not_unwound, (unsigned long long)perf->n_samples);
    if (perf->n_too_many)
        log_warning(perf->env.log,
                    "linux.perf: %llu samples have no stack: too many waited for their names "
                    "(raise max_enqueued_footprint_kb)",
                    (unsigned long long)perf->n_too_many);
}

static void perf_counts(const struct source *source, struct source_counts *ret)
{
    const struct perf_source *perf = (const struct perf_source *)source;
    *ret = (struct source_counts){.events = perf->n_samples,
                                  .events_lost = perf->n_lost + perf->n_refused + perf->n_too_many,
                                  .readings_missed = perf->n_missed,
                                  .problem = perf->problem[0] ? perf->problem : NULL};
}

static void perf_clear_state(struct source *source)
{
    ((struct perf_source *)source)->writer.has_begun = false;
}

#define UNREAD(field, why)                                                                         \
    {                                                                                              \
        &pb__perf_event_config__descriptor, field, false, why, 0                                   \
    }

static const struct config_unread unread[] = {
    UNREAD("remote_descriptor_timeout_ms", "no process is asked for its descriptors"),
    UNREAD("unwind_state_clear_period_ms", "the state of processes is small"),
    {&pb__perf_event_config__descriptor, "target_installed_by", true,
     "there are no packages of Android here", 0},
    {&pb__perf_event_config__descriptor, "cpuid", true, "events are opened on each machine", 0},
    {0},
};

const struct source_class perf_class = {
    .name = "linux.perf",
    .summary = "call stacks: of CPU time, page faults, and any event of the kernel",
    .config = SOURCE_CONFIG(perf_event_config),
    .unread = unread,
    .check = perf_check,
    .open = perf_open,
    .prepare = perf_prepare,
    .start = perf_start,
    .flush = perf_flush,
    .stop = perf_stop,
    .close = perf_close,
    .counts = perf_counts,
    .clear_state = perf_clear_state,
};
