// SPDX-License-Identifier: Apache-2.0
//
// Names of system calls. Their numbers depend on the machine, so a trace has to tell which it is.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SYSCALLS_MAX 550 // numbers; what is above is no system call

struct syscall_names {
    size_t n;
    const char *const *names; // NULL where there is none
};

extern const struct syscall_names syscall_names_arm64, syscall_names_arm32, syscall_names_x86_64,
    syscall_names_x86;
