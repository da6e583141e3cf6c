// SPDX-License-Identifier: Apache-2.0
//
// Names of system calls. The numbers depend on the machine, so the trace must name the machine.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SYSCALLS_MAX 550 // larger numbers are not system calls

struct syscall_names {
    size_t n;
    const char *const *names; // NULL: no system call
};

extern const struct syscall_names syscall_names_arm64, syscall_names_arm32, syscall_names_x86_64,
    syscall_names_x86;
