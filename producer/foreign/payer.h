// SPDX-License-Identifier: Apache-2.0
//
// Who answers for what a process costs the recorder.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/ground/ids.h"

// A number for the user who stands behind process `pid`: 0 for root, the real uid for others. A
// process in a user namespace is answered for by the user who made the outermost one of these
// namespaces: all uids inside are his. Where the process is gone it is `uid`. Never blocks.
uint64_t foreign_payer(const char *proc, int32_t pid, uid_t uid);

// The user and group with which the process opens files. 0, or -ESRCH. Never blocks. (The owner of
// /proc/PID is no such thing: it is root for each process that forbids to be traced.)
int foreign_ids_of(const char *proc, int32_t pid, struct foreign_ids *ret);

// Whether somebody who is not root can make mounts in the mount namespace of the process: whatever
// it has open or mapped may be served by a file system of that user's making. A process that has
// such mounts does not get rid of them, so ask when its file is held, and before anything is asked
// of that file. Never blocks.
bool foreign_has_own_mounts(const char *proc, int32_t pid);
