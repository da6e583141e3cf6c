// SPDX-License-Identifier: Apache-2.0
//
// Locks the memory of a recorder.
#pragma once

// Locks all present mappings of this process (program, libraries, buffers), each page when it is
// touched; and future mappings, if no limit on locked memory (RLIMIT_MEMLOCK) applies. Returns 0 if
// all present mappings are locked. Returns a negative errno if the limit is too low: then present
// mappings are locked up to the limit.
int memory_lock(void);
