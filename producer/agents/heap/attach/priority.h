// SPDX-License-Identifier: Apache-2.0
//
// A thread that is borrowed waits for the processor like any other, at each of a dozen steps. While
// it is borrowed it comes first, where the helper may arrange that, and then has its own place
// again in any case: should the helper end before, a process that it leaves behind sees to it.
#pragma once

struct priority;

// The helper itself comes first from here on. NULL: it may not arrange anything.
struct priority *priority_new(void);
struct priority *priority_free(struct priority *priority);

// One thread at a time. All take NULL.
void priority_raise(struct priority *priority, int tid);
void priority_restore(struct priority *priority);
