// SPDX-License-Identifier: Apache-2.0
//
// Loads an agent into a running Java VM, in the same way as jcmd.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "common/err.h"

// `library` is a path as this process sees it. If the VM has the agent already, it is asked to use
// that one. If the VM sees other files, it gets a copy, which exists while it is loaded. `options`
// is passed to the agent. This may take 30 s until the VM listens, and 30 s more until it answers.
// `waiting` (NULL: none) is the signal mask of the waits: a signal that arrives then ends the call
// in order.
//
// Returns 0; -ESRCH if there is no such process; -ENOEXEC if it is not a Java VM, or is one that
// the request would kill; -ETIMEDOUT if it does not answer; -EBADMSG if it, or the agent, refuses;
// -EINTR if a signal arrived; or another negative errno. If run as root, the process must have only
// one thread.
int vm_attach_load(pid_t pid, const char *library, const char *options, const sigset_t *waiting,
                   struct err *err);
