// SPDX-License-Identifier: Apache-2.0
//
// PerfEventConfig, checked: the source's settings, or the reason why the config is refused.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/sources/perf/perf_ring_record.h"
#include "producer/sources/source.h"
#include "protos/config/data_source_config.pb-c.h"

// An event of the kernel, as perf_event_open() takes it.
struct perf_event {
    uint32_t type;
    uint64_t config, config1, config2;
    const char *filter; // of a tracepoint; borrowed from the config; NULL: none
    bool no_user, no_kernel, no_hypervisor;
};

enum perf_user_frames {
    PERF_USER_NONE,
    PERF_USER_CHAIN, // the kernel follows frame pointers
    PERF_USER_COPY,  // the stack is copied, too, and followed by unwind tables
};

struct perf_settings {
    const Pb__PerfEventConfig *config;         // borrowed
    struct perf_event events[PERF_COUNTS_MAX]; // the first is the timebase
    size_t n_events;
    bool is_frequency;
    uint64_t interval;  // a frequency in Hz, or a number of events
    nsec_t poll_period; // the counters are only read, in this period; 0: there are samples
    clockid_t clock;
    bool kernel_frames;
    enum perf_user_frames user_frames;
    uint32_t ring_pages;
    nsec_t read_period;
    uint64_t waiting_max;               // bytes of samples that wait for their names
    uint64_t memory_max_kb;             // of this process; 0: no limit
    const int32_t *pids, *exclude_pids; // borrowed from the config, as the next members
    char *const *cmdlines, *const *exclude_cmdlines;
    size_t n_pids, n_exclude_pids, n_cmdlines, n_exclude_cmdlines;
    bool descendants;      // processes that chosen processes start are sampled, too
    uint32_t n_additional; // this many further programs are sampled, the first to appear
    uint32_t n_shards;     // one of this many parts of all processes is sampled; 0: all
};

int perf_settings_read(const struct source_roots *roots, const Pb__PerfEventConfig *config,
                       struct perf_settings *ret, struct err *err);

static inline bool perf_settings_has_stacks(const struct perf_settings *settings)
{
    return settings->kernel_frames || settings->user_frames != PERF_USER_NONE;
}

// Returns whether the events are opened for the chosen processes alone. Otherwise they count for
// all processes, and the source picks the samples of the chosen processes.
static inline bool perf_settings_is_of_tasks(const struct perf_settings *settings)
{
    return settings->n_pids > 0 && settings->n_cmdlines == 0 && settings->n_additional == 0 &&
           settings->n_shards <= 1 && settings->n_events == 1 && !settings->poll_period;
}

// Returns whether the config names the processes that are sampled.
static inline bool perf_settings_names_some(const struct perf_settings *settings)
{
    return settings->n_pids > 0 || settings->n_cmdlines > 0;
}
