// SPDX-License-Identifier: Apache-2.0
//
// HeapprofdConfig, judged: what the source does with it, or why it does not.
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
    bool native;                      // whether it wants any of their heaps
    uint64_t java_interval_bytes;     // of the Java heap; 0: not wanted
    bool java_named;                  // VMs that run are attached to for it
    nsec_t dump_phase, dump_interval; // 0: one dump at the end
    bool dump_at_max, startup, running;
    uint32_t min_anonymous_kb;
    uint64_t max_memory_kb, max_cpu_secs; // 0: no limit
    const Pb__HeapprofdConfig *config;    // borrowed
};

int heap_settings_read(const Pb__DataSourceConfig *config, struct heap_settings *ret,
                       struct err *err);

// Whether the config names a program with this pid and command line (its first argument,
// terminated).
bool heap_settings_match(const struct heap_settings *settings, int32_t pid, const char *argument);

// Whether functions of the file get no names.
bool heap_settings_skip_names(const struct heap_settings *settings, const char *path);
