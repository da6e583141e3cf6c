// SPDX-License-Identifier: Apache-2.0
//
// Input lines of a user. If the program is built with libedit and runs in a terminal, lines have
// editing, history and completion. A program has one editor.
#pragma once

#include <stdbool.h>

// Opens the editor. `words`: the words for completion, ended by NULL, borrowed. `history`: the path
// of a file, or NULL.
void line_editor_open(const char *const *words, const char *history);

// Replaces the words for completion.
void line_editor_words(const char *const *words);

// Returns the next line without its newline, or NULL at the end of input. The caller frees the
// line.
char *line_editor_read(const char *prompt);

void line_editor_remember(const char *line); // adds the line to the history
void line_editor_close(void);                // saves the history
