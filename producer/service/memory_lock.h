// SPDX-License-Identifier: Apache-2.0
//
// A recorder of memory pressure must not be its victim.
#pragma once

// Keeps what this process has mapped or will map, and has touched or will touch, in memory:
// program, libraries, buffers. Under a limit on locked memory what is mapped later is not covered.
// 0, or a negative errno where the process may not (RLIMIT_MEMLOCK); then nothing changed.
int memory_lock(void);
