// SPDX-License-Identifier: Apache-2.0
//
// An event of a CPU counts for all processes on it; the source picks the processes afterwards. The
// timebase also tells which processes begin, end and map code.
//
// Counters of the hardware interrupt everything, and cannot read each clock then: the kernel
// refuses such an event, and the raw clock is used.
#include "producer/sources/perf/perf_open.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"

#define CPUS_MAX   4096
#define WAKE_PART  2 // of a ring that is full to 1 / 2, the source is woken
#define LIST_BYTES 4096

#ifndef __x86_64__
#define REGISTERS 0
#else
// All but the segments' registers.
#define REGISTERS UINT64_C(0xff0fff)
#endif

struct perf_layout perf_events_layout(const struct perf_settings *settings)
{
    bool copies = settings->user_frames == PERF_USER_COPY;
    return (struct perf_layout){
        .n_counts = (uint32_t)settings->n_events,
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
    attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_READ;
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
    attr.exclude_callchain_user = settings->user_frames != PERF_USER_CHAIN;
    attr.mmap = attr.mmap2 = attr.build_id = 1;
    attr.comm = attr.comm_exec = attr.task = 1;
    if (copies) {
        attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = PERF_STACK_BYTES;
    }
    return attr;
}

static int event_open(struct perf_event_attr *attr, uint32_t cpu, int group_fd)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// Leaves out what an older kernel, or a counter of the hardware, does not support.
static int timebase_open(const struct perf_settings *settings, uint32_t cpu, clockid_t *clock)
{
    struct perf_event_attr attr = timebase_attr(settings, *clock);
    int fd = event_open(&attr, cpu, -1);
    if (fd == -EINVAL && attr.build_id) {
        attr.build_id = 0;
        fd = event_open(&attr, cpu, -1);
    }
    if (fd == -EINVAL && *clock != CLOCK_MONOTONIC_RAW) {
        attr = timebase_attr(settings, CLOCK_MONOTONIC_RAW);
        fd = event_open(&attr, cpu, -1);
        if (fd >= 0)
            *clock = CLOCK_MONOTONIC_RAW;
    }
    return fd;
}

static int tell_failure(const struct perf_settings *settings, int r, uint32_t cpu, struct err *err)
{
    err_errno(err, r, "the event cannot be opened on CPU %u", cpu);
    if (r == -EACCES || r == -EPERM)
        return err_hint(err, r, "this takes root or CAP_PERFMON");
    if (r == -ENOENT || r == -EOPNOTSUPP || r == -ENODEV)
        return err_hint(err, r,
                        "this machine does not have the counter, as many virtual machines; "
                        "SW_CPU_CLOCK is always there");
    if (r == -EINVAL && settings->is_frequency)
        return err_hint(err, r, "the frequency may be above kernel.perf_event_max_sample_rate");
    return r;
}

static int cpu_open(const struct perf_settings *settings, struct perf_cpu_events *ret,
                    clockid_t *clock, struct err *err)
{
    for (size_t i = 0; i < settings->n_events; i++) {
        struct perf_event_attr attr = {0};
        set_event(&attr, &settings->events[i]);
        int fd = i == 0 ? timebase_open(settings, ret->cpu, clock)
                        : event_open(&attr, ret->cpu, ret->fds[0]);
        if (fd < 0)
            return tell_failure(settings, fd, ret->cpu, err);
        ret->fds[ret->n++] = fd;
        const char *filter = settings->events[i].filter;
        if (filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) < 0)
            return err_errno(err, -errno, "the filter \"%s\" of the tracepoint", err_name(filter));
    }
    return 0;
}

static void cpu_close(struct perf_cpu_events *events)
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

int perf_events_open(const struct perf_settings *settings, const struct source_roots *roots,
                     struct perf_cpu_events_vec *ret, clockid_t *ret_clock, struct err *err)
{
    char text[LIST_BYTES];
    struct span list = text_file_span(text, sizeof(text), roots->sys, "/devices/system/cpu/online");
    uint64_t first, last;
    int failed = 0;
    *ret_clock = settings->clock;
    while (next_range(&list, &first, &last))
        for (uint64_t cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++) {
            struct perf_cpu_events events = {.cpu = (uint32_t)cpu};
            if (!is_wanted(settings->config, cpu))
                continue;
            int r = cpu_open(settings, &events, ret_clock, err);
            if (r == 0)
                r = perf_cpu_events_vec_push(ret, events);
            if (r < 0) {
                cpu_close(&events);
                failed = r;
                if (!settings->config->ignore_open_failure)
                    return r;
            }
        }
    if (ret->n == 0)
        return failed < 0 ? failed : err_set(err, -ENODEV, "none of the CPUs is there");
    return 0;
}

void perf_events_enable(const struct perf_cpu_events_vec *events, bool enable)
{
    vec_foreach(events, cpu)
        ioctl(cpu->fds[0], enable ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE,
              PERF_IOC_FLAG_GROUP);
}

void perf_events_close(struct perf_cpu_events_vec *events)
{
    vec_foreach(events, cpu)
        cpu_close(cpu);
    perf_cpu_events_vec_done(events);
}
