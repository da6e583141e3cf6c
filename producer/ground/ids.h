// SPDX-License-Identifier: Apache-2.0
//
// Acts in a file system as another user. New files belong to the user from the start, and
// operations without the user's permission fail. No file changes its owner by chown.
#pragma once

#include <sys/types.h>

// The rights that a recorder needs to take other ids, for messages.
#define FOREIGN_RIGHTS_HINT                                                                        \
    "this needs root with CAP_SYS_PTRACE, CAP_SETUID and CAP_SETGID, as with heap.conf of the "    \
    "systemd unit"

struct foreign_ids {
    uid_t uid;
    gid_t gid;
};

// Changes the ids of this thread, for file systems only, until foreign_ids_return(). Meanwhile
// root's rights over files (CAP_DAC_OVERRIDE and the like) are inactive. The supplementary groups
// of the process stay; a helper has none. Returns 0, or -EPERM, with nothing changed, if this
// process may not take the ids.
int foreign_ids_take(uid_t uid, gid_t gid, struct foreign_ids *ret_own);
void foreign_ids_return(const struct foreign_ids *own);
