// SPDX-License-Identifier: Apache-2.0
//
// Parsers of /proc/cpuinfo and /proc/interrupts. Spans point into the given text.
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
    struct span processor; // name of the cpu's kind; empty if the text has none
    unsigned identifiers;  // bits of the following members that are present
    uint32_t implementer, architecture, variant, part, revision;
    uint64_t features; // CpuInfo.Cpu.features
};

// Walks over the cpus in /proc/cpuinfo. `rest` is the remaining text. `*processor` is the name that
// some kernels give once for all cpus. The caller keeps both during the walk. Returns false at the
// end.
bool cpu_info_next(struct span *rest, struct span *processor, struct cpu_info *ret);

struct irq_name {
    uint32_t irq;
    struct span name; // as the handlers name themselves; may have blanks
};

// Takes the headline of /proc/interrupts from `rest` and returns its number of cpus.
unsigned interrupts_take_header(struct span *rest);

// Returns the next numbered interrupt that has a name; false at the end.
bool irq_name_next(struct span *rest, unsigned n_cpus, struct irq_name *ret);
