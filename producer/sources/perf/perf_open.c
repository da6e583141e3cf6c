// SPDX-License-Identifier: Apache-2.0
//
// An event of a CPU counts for all processes on it; the source picks the processes afterwards. If
// the config names processes by their pids, each of their threads has events instead, which new
// threads inherit: other processes cost nothing then. The threads share the ring of each CPU.
//
// The timebase also tells which processes begin, end and map code.
//
// Counters of the hardware interrupt all code, even code that blocks interrupts, as tracepoints
// stand in all code. Few clocks can be read there: the kernel refuses the others, and the raw clock
// is used.
#include "producer/sources/perf/perf_open.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"

#define CPUS_MAX    4096
#define LOOKS_MAX   8
#define RATE_LOWEST 1000 // the kernel lowers its limit on slow machines
#define WAKE_PART   2    // the source is woken when a ring is full to 1 / 2
#define LIST_BYTES  4096

#ifndef __x86_64__
#define REGISTERS 0
#else
// All registers except the segment registers.
#define REGISTERS UINT64_C(0xff0fff)
#endif

struct perf_layout perf_events_layout(const struct perf_settings *settings)
{
    bool copies = settings->user_frames == PERF_USER_COPY;
    return (struct perf_layout){
        .n_counts = perf_settings_is_of_tasks(settings) ? 0 : (uint32_t)settings->n_events,
        .has_chain = perf_settings_has_stacks(settings),
        .n_registers = copies ? (uint32_t)__builtin_popcountll(REGISTERS) : 0,
    };
}

static void set_event(struct perf_event_attr *attr, const struct perf_event *event)
{
    attr->size = sizeof(*attr);
    attr->type = event->type;
    attr->config = event->config;
    attr->config1 = event->config1;
    attr->config2 = event->config2;
    attr->exclude_user = event->no_user;
    attr->exclude_kernel = event->no_kernel;
    attr->exclude_hv = event->no_hypervisor;
    attr->read_format = PERF_FORMAT_GROUP;
}

static struct perf_event_attr timebase_attr(const struct perf_settings *settings, clockid_t clock)
{
    struct perf_event_attr attr = {0};
    const struct perf_event *event = &settings->events[0];
    bool copies = settings->user_frames == PERF_USER_COPY;
    set_event(&attr, event);
    attr.disabled = 1;
    attr.use_clockid = 1;
    attr.clockid = clock;
    if (settings->poll_period)
        return attr;
    attr.freq = settings->is_frequency;
    attr.sample_freq = settings->interval; // or sample_period: a union
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
    if (perf_settings_is_of_tasks(settings)) { // older kernels read no event that is inherited
        attr.read_format = 0;
        attr.inherit = 1;
        attr.inherit_thread = !settings->descendants;
    } else {
        attr.sample_type |= PERF_SAMPLE_READ;
    }
    // A CPU without work has no stack worth a sample.
    attr.exclude_idle =
        event->type == PERF_TYPE_SOFTWARE && event->config == PERF_COUNT_SW_CPU_CLOCK;
    attr.sample_id_all = 1;
    attr.watermark = 1;
    attr.wakeup_watermark = settings->ring_pages * (uint32_t)sysconf(_SC_PAGESIZE) / WAKE_PART;
    if (!perf_settings_has_stacks(settings))
        return attr;
    attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attr.exclude_callchain_kernel = !settings->kernel_frames;
    attr.exclude_callchain_user = settings->user_frames == PERF_USER_NONE;
    attr.mmap = attr.mmap2 = attr.build_id = 1;
    attr.comm = attr.comm_exec = attr.task = 1;
    if (copies) {
        attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = PERF_STACK_BYTES;
    }
    return attr;
}

struct event_call {
    struct perf_event_attr attr;
    pid_t tid;
    int cpu, group_fd;
};

static int event_call(const void *argument, char *bytes, size_t size)
{
    (void)bytes, (void)size;
    const struct event_call *call = argument;
    int fd = (int)syscall(SYS_perf_event_open, &call->attr, call->tid, call->cpu, call->group_fd,
                          PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// The kernel switches an event on when the first program opens it, which waits for all CPUs. On a
// busy machine, this wait is longer than that for a process: an event of this program then waits
// instead.
static int event_open(struct perf_event_attr *attr, const struct perf_cpu_events *events,
                      int group_fd)
{
    const struct event_call call = {*attr, events->tid, (int)events->cpu, group_fd};
    if (events->tid <= 0)
        return event_call(&call, NULL, 0);
    int r = process_call("/proc", events->tid, event_call, &call, sizeof(call), NULL, 0);
    if (r != -ETIMEDOUT)
        return r;
    const struct event_call own = {*attr, 0, (int)events->cpu, -1};
    int own_fd = event_call(&own, NULL, 0);
    r = process_call("/proc", events->tid, event_call, &call, sizeof(call), NULL, 0);
    close_fd(own_fd);
    return r;
}

// Opens the timebase without the features that an older kernel, a counter of the hardware, or this
// user's rights do not permit.
static int timebase_open(const struct perf_settings *settings, const struct perf_cpu_events *events,
                         struct perf_opened *opened)
{
    struct perf_event_attr attr = timebase_attr(settings, opened->clock);
    attr.exclude_kernel |= opened->is_user_only;
    int fd = event_open(&attr, events, -1);
    if (fd == -EACCES && events->tid > 0 && !attr.exclude_kernel) {
        attr.exclude_kernel = attr.exclude_hv = 1;
        fd = event_open(&attr, events, -1);
        opened->is_user_only = fd >= 0;
    }
    if (fd == -EINVAL && attr.build_id) {
        attr.build_id = 0;
        fd = event_open(&attr, events, -1);
    }
    if (fd == -EINVAL && opened->clock != CLOCK_MONOTONIC_RAW) {
        attr = timebase_attr(settings, CLOCK_MONOTONIC_RAW);
        fd = event_open(&attr, events, -1);
        if (fd >= 0)
            opened->clock = CLOCK_MONOTONIC_RAW;
    }
    return fd;
}

static int tell_failure(const struct perf_settings *settings, int r, uint32_t cpu, struct err *err)
{
    err_errno(err, r, "the event cannot be opened on CPU %u", cpu);
    if (r == -EACCES || r == -EPERM)
        return err_hint(err, r,
                        "this needs root or CAP_PERFMON, as with heap.conf of the systemd unit");
    if (r == -ENOENT || r == -EOPNOTSUPP || r == -ENODEV)
        return err_hint(err, r,
                        "this machine does not have the counter, as many virtual machines; "
                        "SW_CPU_CLOCK is always there");
    if (r == -EINVAL && settings->is_frequency && settings->interval > RATE_LOWEST)
        return err_hint(err, r, "the frequency may be above kernel.perf_event_max_sample_rate");
    if (r == -EMFILE)
        return err_hint(err, r, "raise the limit of open files (ulimit -n)");
    return r;
}

static int group_open(const struct perf_settings *settings, struct perf_cpu_events *ret,
                      struct perf_opened *opened, struct err *err)
{
    for (size_t i = 0; i < settings->n_events; i++) {
        struct perf_event_attr attr = {0};
        set_event(&attr, &settings->events[i]);
        attr.use_clockid = 1; // events of a group have one clock
        attr.clockid = opened->clock;
        int fd =
            i == 0 ? timebase_open(settings, ret, opened) : event_open(&attr, ret, ret->fds[0]);
        if (fd < 0)
            return fd == -ESRCH ? fd : tell_failure(settings, fd, ret->cpu, err);
        ret->fds[ret->n++] = fd;
        const char *filter = settings->events[i].filter;
        if (filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) < 0)
            return err_errno(err, -errno, "the filter \"%s\" of the tracepoint", err_name(filter));
    }
    return 0;
}

static void group_close(struct perf_cpu_events *events)
{
    while (events->n > 0)
        close_fd(events->fds[--events->n]);
}

// Reads a list of CPUs, "0-3,5". Returns false at its end.
static bool next_range(struct span *list, uint64_t *first, uint64_t *last)
{
    struct span rest = span_trim(*list);
    const char *at = rest.pos;
    if (!str_scan_u64(&at, rest.end, first))
        return false;
    *last = *first;
    if (at < rest.end && *at == '-') {
        at++;
        if (!str_scan_u64(&at, rest.end, last))
            return false;
    }
    *list = span_over(at + (at < rest.end), (size_t)(rest.end - at - (at < rest.end)));
    return true;
}

static bool is_wanted(const Pb__PerfEventConfig *config, uint64_t cpu)
{
    for (size_t i = 0; i < config->n_target_cpu; i++)
        if (config->target_cpu[i] == cpu)
            return true;
    return config->n_target_cpu == 0;
}

// Returns the event that has the ring of a CPU, or -1.
static int ring_owner(const struct perf_opened *opened, uint32_t cpu)
{
    vec_foreach(&opened->events, events)
        if (events->cpu == cpu && events->output_fd < 0)
            return events->fds[0];
    return -1;
}

static int cpu_open(const struct perf_settings *settings, uint32_t cpu, int32_t tid,
                    struct perf_opened *opened, struct err *err)
{
    struct perf_cpu_events events = {
        .cpu = cpu, .tid = tid, .output_fd = tid < 0 ? -1 : ring_owner(opened, cpu)};
    int r = group_open(settings, &events, opened, err);
    if (r == 0)
        r = perf_cpu_events_vec_push(&opened->events, events);
    if (r < 0)
        group_close(&events);
    return r;
}

// Opens the events of a thread, or of all threads (-1), on all wanted CPUs.
static int cpus_open(const struct perf_settings *settings, const struct source_roots *roots,
                     int32_t tid, struct perf_opened *opened, struct err *err)
{
    char text[LIST_BYTES];
    struct span list = text_file_span(text, sizeof(text), roots->sys, "/devices/system/cpu/online");
    uint64_t first, last;
    int failed = 0;
    while (next_range(&list, &first, &last))
        for (uint64_t cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++) {
            int r = is_wanted(settings->config, cpu)
                        ? cpu_open(settings, (uint32_t)cpu, tid, opened, err)
                        : 0;
            failed = r < 0 ? r : failed;
            if (r < 0 && !settings->config->ignore_open_failure)
                return r;
        }
    return opened->events.n ? 0 : failed;
}

static bool is_open(const struct perf_opened *opened, int32_t tid)
{
    vec_foreach(&opened->events, events)
        if (events->tid == tid)
            return true;
    return false;
}

// Opens the events of threads that have none yet. Returns their number, or a negative errno.
static int threads_open(const struct perf_settings *settings, const struct source_roots *roots,
                        int32_t pid, struct perf_opened *opened, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/task", roots->proc, pid);
    DIR *dir CLEANUP(closedirp) = opendir(path);
    int n = 0, r = 0;
    for (int32_t tid; r == 0 && (tid = process_next(dir));) {
        if (is_open(opened, tid))
            continue;
        r = cpus_open(settings, roots, tid, opened, err);
        n += r == 0;
        r = r == -ESRCH ? 0 : r;
    }
    return r < 0 ? r : n;
}

static bool is_repeated(const struct perf_settings *settings, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (settings->pids[k] == settings->pids[i])
            return true;
    return false;
}

// A thread that begins while events are opened is found by the next look.
static int tasks_open(const struct perf_settings *settings, const struct source_roots *roots,
                      struct perf_opened *opened, struct err *err)
{
    for (size_t i = 0; i < settings->n_pids; i++)
        for (int look = 0, n = !is_repeated(settings, i); look < LOOKS_MAX && n > 0; look++) {
            n = threads_open(settings, roots, settings->pids[i], opened, err);
            if (n < 0)
                return n;
        }
    return opened->events.n ? 0 : err_set(err, -ESRCH, "none of the processes is there");
}

// The kernel refuses a tracepoint late: a refusal costs as much time as an event.
static clockid_t first_clock(const struct perf_settings *settings)
{
    return settings->events[0].type == PERF_TYPE_TRACEPOINT && settings->clock != CLOCK_MONOTONIC
               ? CLOCK_MONOTONIC_RAW
               : settings->clock;
}

int perf_events_open(const struct perf_settings *settings, const struct source_roots *roots,
                     struct perf_opened *ret, struct err *err)
{
    ret->clock = first_clock(settings);
    if (perf_settings_is_of_tasks(settings))
        return tasks_open(settings, roots, ret, err);
    int r = cpus_open(settings, roots, -1, ret, err);
    return r == 0 && ret->events.n == 0 ? err_set(err, -ENODEV, "none of the CPUs is there") : r;
}

int perf_events_connect(const struct perf_opened *opened)
{
    vec_foreach(&opened->events, events)
        if (events->output_fd >= 0 &&
            ioctl(events->fds[0], PERF_EVENT_IOC_SET_OUTPUT, events->output_fd) < 0)
            return -errno;
    return 0;
}

void perf_events_enable(const struct perf_opened *opened, bool enable)
{
    vec_foreach(&opened->events, events)
        ioctl(events->fds[0], enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE,
              PERF_IOC_FLAG_GROUP);
}

void perf_events_close(struct perf_opened *opened)
{
    vec_foreach(&opened->events, events)
        group_close(events);
    perf_cpu_events_vec_done(&opened->events);
}
