// SPDX-License-Identifier: Apache-2.0
//
// /proc/cpuinfo and /proc/interrupts. Spans point into the text that was given.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "producer/ground/proc_text.h"

enum cpu_identifier {
    CPU_IMPLEMENTER = 1 << 0,
    CPU_ARCHITECTURE = 1 << 1,
    CPU_VARIANT = 1 << 2,
    CPU_PART = 1 << 3,
    CPU_REVISION = 1 << 4,
    CPU_ALL_IDENTIFIERS = (1 << 5) - 1,
};

struct cpu_info {
    uint32_t number;
    struct span processor; // the name of its kind; empty if the text has none
    unsigned identifiers;  // which of the following five are there
    uint32_t implementer, architecture, variant, part, revision;
    uint64_t features; // CpuInfo.Cpu.features
};

// Walks over the cpus in /proc/cpuinfo. `rest` is the text that is left, `*processor` the name that
// some kernels give once for all cpus; both are the walk's own. False at the end.
bool cpu_info_next(struct span *rest, struct span *processor, struct cpu_info *ret);

struct irq_name {
    uint32_t irq;
    struct span name; // as the handlers call themselves, may hold blanks
};

// How many cpus the headline of /proc/interrupts has; it is taken from `rest`.
unsigned interrupts_take_header(struct span *rest);

// The next numbered interrupt that has a name; false at the end.
bool irq_name_next(struct span *rest, unsigned n_cpus, struct irq_name *ret);
