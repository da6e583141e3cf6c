// SPDX-License-Identifier: Apache-2.0
//
// Locks the memory of a recorder.
#pragma once

// Locks all present and future mappings of this process (program, libraries, buffers), each page
// when it is touched. Returns 0 if all mappings are locked. Returns a negative errno if the limit
// on locked memory (RLIMIT_MEMLOCK) is too low: then present mappings are locked up to the limit.
int memory_lock(void);
