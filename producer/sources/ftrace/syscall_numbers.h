// SPDX-License-Identifier: Apache-2.0
//
// Numbers of system calls, by name.
#pragma once

// "openat" or "sys_openat"; -1: this machine has no such call.
long syscall_number(const char *name);
