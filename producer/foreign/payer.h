// SPDX-License-Identifier: Apache-2.0
//
// The user who answers for the cost of a process to the recorder.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "producer/ground/ids.h"

// Returns a number for the user behind process `pid`: 0 for root, the real uid for others. For a
// process in a user namespace, this is the user who made the outermost of its namespaces, because
// this user controls all uids inside. If root made it, the process is a container's, and pays as
// the uid that it has outside: only root itself is root. The subordinate uids of a user (subuid(5))
// have one number in common. Returns the number for `uid` if the process is gone. The namespaces of
// a process that holds its locks are not known (process_file.h): then its own uid counts.
uint64_t foreign_payer(const char *proc, int32_t pid, uid_t uid);

// As foreign_payer(), without a look at the namespaces: the processes of a container have the uids
// that they have outside. Returns 0 if the process is gone. Takes no lock of the process.
uint64_t foreign_payer_of_uid(const char *proc, int32_t pid);

// As foreign_payer(), for the client of a socket with the credentials `pid` and `uid`. The client
// may be gone, and another process may have its pid: the other process does not pay. A client who
// is not trusted never counts as a trusted user: not as root, and not as the user of this process.
uint64_t foreign_client_payer(const char *proc, int32_t pid, uid_t uid);

// Gets the user and group with which the process opens files. Returns 0 or -ESRCH. Never blocks.
// (The owner of /proc/PID does not help: the owner is root for each process that forbids tracing.)
int foreign_ids_of(const char *proc, int32_t pid, struct foreign_ids *ret);
