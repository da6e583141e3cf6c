// SPDX-License-Identifier: Apache-2.0
//
// A recorder's memory stays in memory.
#pragma once

// Keeps what this process has mapped or will map, and has touched or will touch, in memory:
// program, libraries, buffers. 0: all of it. A negative errno: the limit on locked memory
// (RLIMIT_MEMLOCK) does not allow that; then as much as it allows is locked of what is mapped now.
int memory_lock(void);
