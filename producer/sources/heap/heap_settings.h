// SPDX-License-Identifier: Apache-2.0
//
// HeapprofdConfig, checked: the source's settings, or the reason why the config is refused.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/sources/heap/ring_reader.h"
#include "protos/config/data_source_config.pb-c.h"

#define HEAP_RING_BYTES_DEFAULT (UINT64_C(8) << 20)

struct heap_settings {
    struct ring_options ring;         // of native programs
    bool native;                      // some heaps of native programs are wanted
    uint64_t java_interval_bytes;     // of the Java heap; 0: not sampled
    bool java_named;                  // running VMs are attached to
    nsec_t dump_phase, dump_interval; // 0: one dump, at the end
    bool dump_at_max, startup, running;
    bool children; // children after fork have profiles of their own
    uint32_t min_anonymous_kb;
    uint64_t max_memory_kb, max_cpu_secs; // 0: no limit
    const Pb__HeapprofdConfig *config;    // borrowed
};

int heap_settings_read(const Pb__DataSourceConfig *config, struct heap_settings *ret,
                       struct err *err);

// Returns whether the config selects a program with this pid and this first argument of its command
// line (terminated).
bool heap_settings_match(const struct heap_settings *settings, int32_t pid, const char *argument);

// Returns whether functions of the file get no names.
bool heap_settings_skip_names(const struct heap_settings *settings, const char *path);
