// SPDX-License-Identifier: Apache-2.0
//
// The fields of PerfEventConfig have an older form: a frequency and target processes at the top,
// where the newer form has `timebase` and `callstack_sampling`. Each of the old fields asks for
// call stacks. Where both forms are set, the newer one counts.
#include "producer/sources/perf/perf_settings.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "producer/ground/proc_text.h"

#define FREQUENCY_DEFAULT  10
#define READ_PERIOD_MS     250
#define READ_PERIOD_MIN_MS 10
#define PAGES_DEFAULT      64  // of a ring without copied stacks
#define PAGES_OF_COPIES    512 // of a ring with copied stacks
#define PAGES_MAX          (1u << 14)
#define WAITING_KB         8192
#define POLL_PERIOD_MIN_MS 10
#define NAME_BYTES         256

struct counter {
    uint32_t type;
    uint64_t config;
};

#define SOFTWARE(name) PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##name
#define HARDWARE(name) PERF_TYPE_HARDWARE, PERF_COUNT_HW_##name
#define OF(counter)    PB__PERF_EVENTS__COUNTER__##counter

static const struct counter counters[] = {
    [OF(SW_CPU_CLOCK)] = {SOFTWARE(CPU_CLOCK)},
    [OF(SW_PAGE_FAULTS)] = {SOFTWARE(PAGE_FAULTS)},
    [OF(SW_TASK_CLOCK)] = {SOFTWARE(TASK_CLOCK)},
    [OF(SW_CONTEXT_SWITCHES)] = {SOFTWARE(CONTEXT_SWITCHES)},
    [OF(SW_CPU_MIGRATIONS)] = {SOFTWARE(CPU_MIGRATIONS)},
    [OF(SW_PAGE_FAULTS_MIN)] = {SOFTWARE(PAGE_FAULTS_MIN)},
    [OF(SW_PAGE_FAULTS_MAJ)] = {SOFTWARE(PAGE_FAULTS_MAJ)},
    [OF(SW_ALIGNMENT_FAULTS)] = {SOFTWARE(ALIGNMENT_FAULTS)},
    [OF(SW_EMULATION_FAULTS)] = {SOFTWARE(EMULATION_FAULTS)},
    [OF(SW_DUMMY)] = {SOFTWARE(DUMMY)},
    [OF(HW_CPU_CYCLES)] = {HARDWARE(CPU_CYCLES)},
    [OF(HW_INSTRUCTIONS)] = {HARDWARE(INSTRUCTIONS)},
    [OF(HW_CACHE_REFERENCES)] = {HARDWARE(CACHE_REFERENCES)},
    [OF(HW_CACHE_MISSES)] = {HARDWARE(CACHE_MISSES)},
    [OF(HW_BRANCH_INSTRUCTIONS)] = {HARDWARE(BRANCH_INSTRUCTIONS)},
    [OF(HW_BRANCH_MISSES)] = {HARDWARE(BRANCH_MISSES)},
    [OF(HW_BUS_CYCLES)] = {HARDWARE(BUS_CYCLES)},
    [OF(HW_STALLED_CYCLES_FRONTEND)] = {HARDWARE(STALLED_CYCLES_FRONTEND)},
    [OF(HW_STALLED_CYCLES_BACKEND)] = {HARDWARE(STALLED_CYCLES_BACKEND)},
    [OF(HW_REF_CPU_CYCLES)] = {HARDWARE(REF_CPU_CYCLES)},
};

static int read_counter(Pb__PerfEvents__Counter counter, struct perf_event *ret, struct err *err)
{
    if ((size_t)counter >= ELEMENTS(counters) || counter == OF(UNKNOWN_COUNTER))
        return err_set(err, -EINVAL, "there is no counter %d", (int)counter);
    ret->type = counters[counter].type;
    ret->config = counters[counter].config;
    return 0;
}

// Returns whether a part of a name may become a part of a path.
static bool is_plain(const char *text, size_t size)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return size > 0 && strspn(text, letters) >= size;
}

static bool read_number(uint64_t *ret, const char *root, const char *folder, const char *name,
                        const char *file)
{
    char text[64];
    struct span number = text_file_span(text, sizeof(text), root, "/%s/%s/%s", folder, name, file);
    return span_take_u64(&number, ret);
}

// The name is GROUP:EVENT or GROUP/EVENT.
static int read_tracepoint(const struct source_roots *roots,
                           const Pb__PerfEvents__Tracepoint *tracepoint, struct perf_event *ret,
                           struct err *err)
{
    char name[NAME_BYTES];
    const char *text = tracepoint->name ? tracepoint->name : "";
    size_t n = strcspn(text, ":/");
    if (!text[n] || !is_plain(text, n) || !is_plain(text + n + 1, strlen(text + n + 1)) ||
        strlen(text) >= sizeof(name))
        return err_set(err, -EINVAL, "tracepoint \"%s\": the name is not GROUP:EVENT", text);
    snprintf(name, sizeof(name), "%.*s/%s", (int)n, text, text + n + 1);
    if (!roots->tracefs)
        return err_set(err, -ENOENT, "tracepoint %s: tracefs is not mounted", text);
    ret->type = PERF_TYPE_TRACEPOINT;
    if (!read_number(&ret->config, roots->tracefs, "events", name, "id"))
        return err_set(err, -ENOENT,
                       "tracepoint %s: this kernel does not have it, or tracefs is not readable",
                       text);
    ret->filter = tracepoint->filter && tracepoint->filter[0] ? tracepoint->filter : NULL;
    return 0;
}

static int read_raw(const struct source_roots *roots, const Pb__PerfEvents__RawEvent *raw,
                    struct perf_event *ret, struct err *err)
{
    uint64_t type = raw->type;
    if (raw->pmu_name && !is_plain(raw->pmu_name, strlen(raw->pmu_name)))
        return err_set(err, -EINVAL, "pmu_name \"%s\" is not a name", raw->pmu_name);
    if (raw->pmu_name &&
        !read_number(&type, roots->sys, "bus/event_source/devices", raw->pmu_name, "type"))
        return err_set(err, -ENOENT, "pmu_name \"%s\": this machine does not have it",
                       raw->pmu_name);
    ret->type = (uint32_t)type;
    ret->config = raw->config;
    ret->config1 = raw->config1;
    ret->config2 = raw->config2;
    return 0;
}

// Without a modifier, the event counts in every mode of the processor; with modifiers, only in the
// modes that they name.
static void read_modifiers(const Pb__PerfEvents__EventModifier *modifiers, size_t n,
                           struct perf_event *ret)
{
    if (n == 0)
        return;
    ret->no_user = ret->no_kernel = ret->no_hypervisor = true;
    for (size_t i = 0; i < n; i++) {
        ret->no_user &=
            modifiers[i] != PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE;
        ret->no_kernel &=
            modifiers[i] != PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_KERNEL;
        ret->no_hypervisor &=
            modifiers[i] != PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR;
    }
}

static int read_event(const struct source_roots *roots, const Pb__PerfEvents__Timebase *timebase,
                      struct perf_event *ret, struct err *err)
{
    if (!timebase)
        return read_counter(OF(SW_CPU_CLOCK), ret, err);
    read_modifiers(timebase->modifiers, timebase->n_modifiers, ret);
    switch (timebase->event_case) {
    case PB__PERF_EVENTS__TIMEBASE__EVENT_TRACEPOINT:
        return read_tracepoint(roots, timebase->tracepoint, ret, err);
    case PB__PERF_EVENTS__TIMEBASE__EVENT_RAW_EVENT:
        return read_raw(roots, timebase->raw_event, ret, err);
    case PB__PERF_EVENTS__TIMEBASE__EVENT_COUNTER:
        return read_counter(timebase->counter, ret, err);
    default:
        return read_counter(OF(SW_CPU_CLOCK), ret, err);
    }
}

static int read_follower(const struct source_roots *roots, const Pb__FollowerEvent *follower,
                         struct perf_event *ret, struct err *err)
{
    read_modifiers(follower->modifiers, follower->n_modifiers, ret);
    switch (follower->event_case) {
    case PB__FOLLOWER_EVENT__EVENT_TRACEPOINT:
        return read_tracepoint(roots, follower->tracepoint, ret, err);
    case PB__FOLLOWER_EVENT__EVENT_RAW_EVENT:
        return read_raw(roots, follower->raw_event, ret, err);
    case PB__FOLLOWER_EVENT__EVENT_COUNTER:
        return read_counter(follower->counter, ret, err);
    default:
        return err_set(err, -EINVAL, "a follower has no event");
    }
}

static int read_events(const struct source_roots *roots, struct perf_settings *ret, struct err *err)
{
    const Pb__PerfEventConfig *config = ret->config;
    if (config->n_followers >= PERF_COUNTS_MAX)
        return err_set(err, -EINVAL, "%zu followers: at most %d are possible", config->n_followers,
                       PERF_COUNTS_MAX - 1);
    int r = read_event(roots, config->timebase, &ret->events[0], err);
    ret->n_events = 1;
    for (size_t i = 0; r == 0 && i < config->n_followers; i++)
        r = read_follower(roots, config->followers[i], &ret->events[ret->n_events++], err);
    return r;
}

static int read_interval(struct perf_settings *ret, struct err *err)
{
    const Pb__PerfEventConfig *config = ret->config;
    const Pb__PerfEvents__Timebase *timebase = config->timebase;
    int kind = timebase ? (int)timebase->interval_case : 0;
    ret->is_frequency = true;
    ret->interval = config->sampling_frequency ? config->sampling_frequency : FREQUENCY_DEFAULT;
    if (kind == PB__PERF_EVENTS__TIMEBASE__INTERVAL_FREQUENCY) {
        ret->interval = timebase->frequency;
    } else if (kind == PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD) {
        ret->is_frequency = false;
        ret->interval = timebase->period;
    } else if (kind == PB__PERF_EVENTS__TIMEBASE__INTERVAL_POLL_PERIOD_MS) {
        if (timebase->poll_period_ms < POLL_PERIOD_MIN_MS)
            return err_set(err, -EINVAL, "poll_period_ms is less than %d", POLL_PERIOD_MIN_MS);
        ret->poll_period = timebase->poll_period_ms * NSEC_PER_MSEC;
    } else if (!config->sampling_frequency && ret->events[0].type == PERF_TYPE_TRACEPOINT) {
        ret->is_frequency = false;
        ret->interval = 1;
    }
    return ret->interval ? 0 : err_set(err, -EINVAL, "the period or frequency of timebase is 0");
}

static int read_clock(struct perf_settings *ret, struct err *err)
{
    static const clockid_t clocks[] = {CLOCK_BOOTTIME, CLOCK_REALTIME, CLOCK_MONOTONIC,
                                       CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};
    const Pb__PerfEvents__Timebase *timebase = ret->config->timebase;
    size_t clock = timebase ? (size_t)timebase->timestamp_clock : 0;
    if (clock >= ELEMENTS(clocks))
        return err_set(err, -EINVAL, "there is no timestamp_clock %zu", clock);
    ret->clock = clocks[clock];
    return 0;
}

static void read_scope(struct perf_settings *ret)
{
    const Pb__PerfEventConfig *config = ret->config;
    const Pb__PerfEventConfig__Scope *scope =
        config->callstack_sampling ? config->callstack_sampling->scope : NULL;
#define TAKE(member, field)                                                                        \
    (ret->member = scope ? scope->field : config->field,                                           \
     ret->n_##member = scope ? scope->n_##field : config->n_##field)
    TAKE(pids, target_pid);
    TAKE(exclude_pids, exclude_pid);
    TAKE(cmdlines, target_cmdline);
    TAKE(exclude_cmdlines, exclude_cmdline);
#undef TAKE
    ret->n_additional = scope ? scope->additional_cmdline_count : config->additional_cmdline_count;
    ret->descendants = scope && scope->target_descendants;
    ret->n_shards = scope ? scope->process_shard_count : 0;
}

static int read_stacks(struct perf_settings *ret, struct err *err)
{
    const Pb__PerfEventConfig *config = ret->config;
    const Pb__PerfEventConfig__CallstackSampling *stacks = config->callstack_sampling;
    bool is_old = config->all_cpus || config->kernel_frames || config->n_target_pid ||
                  config->n_target_cmdline || config->n_exclude_pid || config->n_exclude_cmdline ||
                  config->additional_cmdline_count;
    if (!stacks && !is_old)
        return 0;
    ret->kernel_frames = stacks ? stacks->kernel_frames : config->kernel_frames;
    switch (stacks ? stacks->user_frames : PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_UNKNOWN) {
    case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_SKIP:
        ret->user_frames = PERF_USER_NONE;
        return 0;
    case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_FRAME_POINTER:
    case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_KERNEL_FRAME_POINTER:
        ret->user_frames = PERF_USER_CHAIN;
        return 0;
    case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_UNKNOWN:
    case PB__PERF_EVENT_CONFIG__UNWIND_MODE__UNWIND_DWARF:
        ret->user_frames = PERF_USER_COPY;
        return 0;
    default:
        return err_set(err, -EINVAL, "there is no user_frames %d", (int)stacks->user_frames);
    }
}

static int read_rings(struct perf_settings *ret, struct err *err)
{
    const Pb__PerfEventConfig *config = ret->config;
    ret->ring_pages = config->ring_buffer_pages            ? config->ring_buffer_pages
                      : ret->user_frames == PERF_USER_COPY ? PAGES_OF_COPIES
                                                           : PAGES_DEFAULT;
    if (ret->ring_pages > PAGES_MAX || (ret->ring_pages & (ret->ring_pages - 1)))
        return err_set(err, -EINVAL, "ring_buffer_pages: %u is not a power of two up to %u",
                       ret->ring_pages, PAGES_MAX);
    uint32_t period = config->ring_buffer_read_period_ms;
    if (period && period < READ_PERIOD_MIN_MS)
        return err_set(err, -EINVAL, "ring_buffer_read_period_ms is less than %d",
                       READ_PERIOD_MIN_MS);
    ret->read_period = (period ? period : READ_PERIOD_MS) * NSEC_PER_MSEC;
    ret->waiting_max =
        config->max_enqueued_footprint_kb ? config->max_enqueued_footprint_kb : WAITING_KB;
    if (ret->waiting_max > UINT32_MAX)
        ret->waiting_max = UINT32_MAX;
    ret->waiting_max *= 1024;
    ret->memory_max_kb = config->max_daemon_memory_kb;
    return 0;
}

int perf_settings_read(const struct source_roots *roots, const Pb__PerfEventConfig *config,
                       struct perf_settings *ret, struct err *err)
{
    static const Pb__PerfEventConfig defaults = PB__PERF_EVENT_CONFIG__INIT;
    struct perf_settings settings = {.config = config ? config : &defaults};
    int r = read_events(roots, &settings, err);
    if (r == 0)
        r = read_interval(&settings, err);
    if (r == 0)
        r = read_clock(&settings, err);
    if (r == 0)
        r = read_stacks(&settings, err);
    if (r == 0)
        r = read_rings(&settings, err);
    if (r < 0)
        return r;
    read_scope(&settings);
    *ret = settings;
    return 0;
}
