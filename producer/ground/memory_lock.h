// SPDX-License-Identifier: Apache-2.0
//
// Locks a recorder's memory.
#pragma once

// Locks everything that this process has mapped or will map, as far as it is touched: program,
// libraries, buffers. Returns 0 if all of it is locked. Returns a negative errno if the limit on
// locked memory (RLIMIT_MEMLOCK) does not allow that: then as much of the present mappings as the
// limit allows is locked.
int memory_lock(void);
