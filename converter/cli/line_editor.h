// SPDX-License-Identifier: Apache-2.0
//
// Lines that somebody types: with editing, history and completion where the program is built with
// libedit and speaks to a terminal, plain otherwise. There is one editor in a program.
#pragma once

#include <stdbool.h>

// `words` are what can be completed, ended by NULL and borrowed; `history` is a file, or NULL.
void line_editor_open(const char *const *words, const char *history);

// Other words than before.
void line_editor_words(const char *const *words);

// The next line without its end, freed by the caller; NULL: the end of input.
char *line_editor_read(const char *prompt);

void line_editor_remember(const char *line); // in the history
void line_editor_close(void);                // and the history is saved
