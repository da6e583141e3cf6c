// SPDX-License-Identifier: Apache-2.0
//
// Text for people at a terminal.
#pragma once

#include <stdio.h>

// Returns the number of columns of the terminal to which `stream` writes; 0 if it writes to another
// file, or if the terminal does not tell.
unsigned terminal_columns(FILE *stream);

// Prints a paragraph of `size` bytes (UTF-8) and a newline. Each line begins with `indent`. On a
// terminal, lines end between words where the columns allow it; in other files the paragraph is one
// line.
void terminal_print(FILE *to, const char *indent, const char *text, size_t size);
