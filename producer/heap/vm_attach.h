// SPDX-License-Identifier: Apache-2.0
//
// Loads an agent into a Java VM that runs already, the way that jcmd does.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "common/err.h"

// `library` is a path here. A VM that has the agent already is asked to use that one; one that sees
// other files is given a copy, which lives while it is loaded. `options` is what the agent gets.
// May take 30 s while the VM gets ready to listen, and 30 s more until it answers. `waiting` (NULL:
// none) is the signal mask of the waits: a signal that comes then ends it in good order.
// 0; -ESRCH: no such process; -ENOEXEC: no Java VM, or one that would die of being asked;
// -ETIMEDOUT: it does not answer; -EBADMSG: it, or the agent, refuses; -EINTR: a signal came; other
// negative errno. Only for a process with one thread, when it is root.
int vm_attach_load(pid_t pid, const char *library, const char *options, const sigset_t *waiting,
                   struct err *err);
