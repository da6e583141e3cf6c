// SPDX-License-Identifier: Apache-2.0
//
// A recorder of memory pressure must be neither its victim nor stand in its way.
#pragma once

#include <sys/types.h>

// oom_score_adj of a recorder, where it may lower it (CAP_SYS_RESOURCE): killed after nearly
// everybody else. -1000 would leave a recorder that leaks unkillable.
#define SELF_GUARD_OOM_SCORE_ADJ (-900)

// Keeps this process going while memory is short, as far as its rights go: its memory is locked
// (memory_lock.h), heap and stack have something in reserve, the kernel's OOM killer takes others
// first, and it gets the processor when many want it. A priority and a score that somebody chose
// are left alone. For daemon and record; called when everything is set up.
void self_guard_take(void);

// Takes the score from a helper that such a process has started: it may do work for others, and
// take their memory. Priority is not inherited.
void self_guard_release(pid_t child);
