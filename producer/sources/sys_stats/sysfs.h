// SPDX-License-Identifier: Apache-2.0
//
// SysStats values that are spread over many small files of /sys, one value per file. The files are
// found once; a sample reads their values.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/vec.h"
#include "common/wire.h"

enum sysfs_kind {
    SYSFS_CPUFREQ,
    SYSFS_CPUIDLE,
    SYSFS_THERMAL,
    SYSFS_DEVFREQ,
    SYSFS_GPUFREQ,
};

struct sysfs_value {
    const char *path; // owned by the arena, as the names
    const char *name; // thermal zone, device or idle state
    const char *type; // of a thermal zone; otherwise may be NULL
    uint32_t index;   // number of the cpu or zone
    int fd;           // owned; -1: opened for each sample
};

VEC_DEFINE(sysfs_value_vec, struct sysfs_value);

struct sysfs_values {
    enum sysfs_kind kind;
    struct sysfs_value_vec values;
    struct arena arena;
    size_t n_open_max; // further files are not kept open
};

// Finds the files below `sys` ("/sys"). Returns 0, -ENOENT if there are none of this kind, or
// -ENOMEM.
int sysfs_values_open(struct sysfs_values *ret, enum sysfs_kind kind, const char *sys);
void sysfs_values_close(struct sysfs_values *values);

// Appends the present values to an open SysStats message. A file that cannot be read now (an
// offline cpu) is left out; in cpufreq, where the position is the cpu's number, its value is 0.
void sysfs_values_write(struct sysfs_values *values, struct wire_writer *w);

// Returns the current clock in an AMD card's table of clocks ("1: 700Mhz *"); 0 if no clock is
// marked.
uint64_t amd_clock_mhz(const char *text, size_t size);
