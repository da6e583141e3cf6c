// SPDX-License-Identifier: Apache-2.0
//
// Judges by a program's file whether the program can be profiled.
#pragma once

// Returns why the program cannot be profiled: a sentence about "it". Returns NULL if there is no
// obstacle, or if the file is not ELF. `fd` is borrowed.
const char *heap_program_obstacle(int fd);

// Judges a command. A command without a slash is looked up in PATH.
const char *heap_command_obstacle(const char *command);
