// SPDX-License-Identifier: Apache-2.0
//
// Protects a recorder of memory pressure from that pressure, and other processes from the recorder.
#pragma once

#include <sys/types.h>

// oom_score_adj of a recorder that may lower it (CAP_SYS_RESOURCE): nearly all other processes are
// killed first. With -1000, a recorder that leaks could not be killed.
#define SELF_GUARD_OOM_SCORE_ADJ (-900)

// Keeps this process going while memory is short, as far as its rights permit. Its memory is locked
// (memory_lock.h). Heap and stack get a reserve. The kernel's OOM killer takes other processes
// first. The process gets the processor even under load. A priority or score that the user chose is
// left alone. For daemon and record, at the end of their setup.
void self_guard_take(void);

// Gives a helper of this process the usual oom_score_adj back, because the helper may work for
// other users and take their memory. The priority is not inherited.
void self_guard_release(pid_t child);
