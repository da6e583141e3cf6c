// SPDX-License-Identifier: Apache-2.0
//
// Loads an agent into a Java VM that runs already, the way that jcmd does.
#pragma once

#include <sys/types.h>

#include "common/err.h"

// `library` is a path here; a VM that sees other files is given a copy that lives while it is
// loaded. `options` is what the agent gets. May take 10 s while the VM gets ready to listen. 0;
// -ESRCH: no such process; -ENOEXEC: no Java VM, or one that would die of being asked; -ETIMEDOUT:
// it does not answer; -EBADMSG: it, or the agent, refuses; other negative errno.
int vm_attach_load(pid_t pid, const char *library, const char *options, struct err *err);

// The process id that the VM itself sees, the innermost of its namespaces. Negative errno.
int vm_attach_own_pid(pid_t pid, pid_t *ret, struct err *err);
