// SPDX-License-Identifier: Apache-2.0
//
// Judges the seccomp filters of a thread: whether they permit the system calls of attaching and of
// a profile. The filters of a container usually do.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

// Returns the action of one filter for a system call: a SECCOMP_RET_* value with its data, or
// SECCOMP_RET_KILL_PROCESS if the program is malformed.
uint32_t jail_filter_run(const struct sock_filter *program, size_t n,
                         const struct seccomp_data *data);

// Judges a thread that is stopped by ptrace and has filters (Seccomp: 2). Returns 0 if they permit
// all calls, or a negative errno with the reason in `err`: the call that they forbid, or why they
// cannot be read.
int jail_judge(int tid, struct err *err);
