// SPDX-License-Identifier: Apache-2.0
//
// What a program's file says about whether it can be profiled.
#pragma once

// Why it cannot: a sentence about "it". NULL: nothing speaks against it, or it is no ELF file. `fd`
// is borrowed.
const char *heap_program_obstacle(int fd);

// The same of a command, which is looked for in PATH where it has no slash.
const char *heap_command_obstacle(const char *command);
