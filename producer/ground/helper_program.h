// SPDX-License-Identifier: Apache-2.0
//
// Starts a program that works for a recorder beside it.
#pragma once

#include <sys/types.h>

// Starts `file` in a session of its own, without the recorder's streams, priority and OOM score. A
// reader that waits for the end of the streams therefore does not wait for a hanging helper. `fd`
// (-1: none) becomes `as_fd` in the program. On success *ret is the pid, which the caller waits
// for. Returns 0 or a negative errno.
int helper_program_start(const char *file, char *const *argv, char *const *variables, int fd,
                         int as_fd, pid_t *ret);
