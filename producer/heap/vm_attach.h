// SPDX-License-Identifier: Apache-2.0
//
// Loads an agent into a running Java VM, in the same way as jcmd.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "common/err.h"

// `library` is a path as this process sees it. A VM that has the agent already is asked to use its
// loaded agent. A VM that sees other files gets a copy, which exists during the load. `options` is
// passed to the agent. The call may take 30 s until the VM listens, and 30 s more until it answers.
// `waiting` (NULL: none) is the signal mask of the waits: a signal that arrives during a wait ends
// the call with clean-up.
//
// Returns 0; -ESRCH if there is no such process; -ENOEXEC if the process is not a Java VM, or is a
// VM that the request would kill; -ETIMEDOUT if the VM does not answer; -EBADMSG if the VM or the
// agent refuses; -EINTR if a signal arrived; or another negative errno. If run as root, the calling
// process must have only one thread.
int vm_attach_load(pid_t pid, const char *library, const char *options, const sigset_t *waiting,
                   struct err *err);
