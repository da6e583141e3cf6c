// SPDX-License-Identifier: Apache-2.0
//
// The kernel's states of tasks as letters. Their bits depend on the kernel's version.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KERNEL_VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))

#define TASK_STATE_SIZE 32 // letters with separators, and a NUL

// Returns the kernel version, in the form of KERNEL_VERSION(), from a release of uname(2)
// ("6.1.0-13-amd64"). Returns 0 if `release` does not begin with a version.
uint32_t kernel_version_of(const char *release, size_t size);

// Writes prev_state of a sched_switch as letters ("S", "D", "R+") into `ret`, which is terminated.
// `version` 0: not known. `separator` stands between letters; 0: no separator. Returns the size of
// the text, or 0 if this kernel has no such state.
size_t task_state_text(uint32_t version, int64_t prev_state, char separator,
                       char ret[TASK_STATE_SIZE]);
