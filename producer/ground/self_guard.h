// SPDX-License-Identifier: Apache-2.0
//
// Keeps a recorder going under the memory pressure that it records, without harm to other
// processes.
#pragma once

#include <sys/types.h>

// oom_score_adj of a recorder that may lower it (CAP_SYS_RESOURCE): the OOM killer takes nearly all
// other processes first. With -1000, a leaking recorder could not be killed.
#define SELF_GUARD_OOM_SCORE_ADJ (-900)

// Keeps this process going while memory is short, as far as its rights permit. Its memory is locked
// (memory_lock.h). Heap and stack get a reserve. The OOM killer takes other processes first. The
// process gets the processor even under load. A priority or score that the user chose stays.
// Called by daemon and record at the end of their setup.
void self_guard_take(void);

// Resets oom_score_adj of a helper of this process to 0, because the helper may work for other
// users and allocate memory for them. The priority is not inherited.
void self_guard_release(pid_t child);
