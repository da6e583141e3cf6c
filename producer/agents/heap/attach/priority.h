// SPDX-License-Identifier: Apache-2.0
//
// The priority of a borrowed thread. The thread waits for the processor at each of a dozen steps,
// like any other thread. While the thread is borrowed, this module raises its priority if the
// helper may do so. The thread gets its own priority back in every case: if the helper ends early,
// a process that the helper leaves behind restores the priority.
#pragma once

struct priority;

// Raises the priority of the helper itself. Returns NULL if the helper may not change priorities.
struct priority *priority_new(void);
struct priority *priority_free(struct priority *priority);

// priority_raise() raises the priority of one thread, until priority_restore(). Both take NULL.
void priority_raise(struct priority *priority, int tid);
void priority_restore(struct priority *priority);
