// SPDX-License-Identifier: Apache-2.0
//
// Judges by a program's file whether the program can be profiled.
#pragma once

// Returns why the program cannot be profiled: a sentence with the subject "it". Returns NULL if
// there is no obstacle, or if the file is not ELF. `fd` is borrowed.
const char *heap_program_obstacle(int fd);

// Returns heap_program_obstacle() of the file that `command` runs. A command without a slash is
// looked up in PATH. Returns NULL if there is no such file.
const char *heap_command_obstacle(const char *command);
