// SPDX-License-Identifier: Apache-2.0
//
// The numbers of system calls, by name.
#pragma once

// `name` is "openat" or "sys_openat". Returns -1 if this machine has no such call.
long syscall_number(const char *name);
