// SPDX-License-Identifier: Apache-2.0
//
// Doing something in a file system as another user: what is made belongs to that user from its
// first moment, and what that user may not do fails. Nothing is ever given away by chown.
#pragma once

#include <sys/types.h>

// What a recorder lacks that cannot, for messages.
#define FOREIGN_RIGHTS_HINT                                                                        \
    "this takes root with CAP_SYS_PTRACE, CAP_SETUID and CAP_SETGID, as with heap.conf of the "    \
    "systemd unit"

struct foreign_ids {
    uid_t uid;
    gid_t gid;
};

// Of this thread alone, for file systems alone, until foreign_ids_return(). The rights of root over
// files (CAP_DAC_OVERRIDE and the like) rest meanwhile. Supplementary groups are the process's: a
// helper has none. 0, or -EPERM: this process may not become that user; nothing has changed then.
int foreign_ids_take(uid_t uid, gid_t gid, struct foreign_ids *ret_own);
void foreign_ids_return(const struct foreign_ids *own);
