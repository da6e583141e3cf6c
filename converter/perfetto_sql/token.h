// SPDX-License-Identifier: Apache-2.0
//
// SQL as a sequence of tokens. PerfettoSQL only needs the ends of words, texts and comments. SQLite
// checks the rest.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sql_token_kind {
    SQL_END,
    SQL_BLANK,    // white space, or a comment
    SQL_WORD,     // a keyword or a name without quotes
    SQL_STRING,   // 'text'
    SQL_QUOTED,   // a name in double quotes, backquotes or brackets
    SQL_VARIABLE, // $name, ?1, :name, @name
    SQL_NUMBER,
    SQL_SYMBOL, // one character
};

// A part of the text that was read.
struct sql_token {
    enum sql_token_kind kind;
    const char *text; // not terminated
    size_t size;
};

// Returns the token at `at`. A text or comment that has no end extends to `end`.
struct sql_token sql_token_read(const char *at, const char *end);

// Returns the first token at or after *cursor that is not blank, and moves *cursor past it.
struct sql_token sql_token_next(const char **cursor, const char *end);

// Returns whether the token is `word`, without regard to case. `word` is a keyword, or a symbol of
// one character.
bool sql_token_is(struct sql_token token, const char *word);

// If the next token is `word`, moves *cursor past it and returns true.
bool sql_word_take(const char **cursor, const char *end, const char *word);

// Returns the end of the statement at `at`: its semicolon, or `end`. Semicolons in the body of a
// trigger do not end the statement.
const char *sql_statement_end(const char *at, const char *end);

// Returns the first character after blanks and comments.
const char *sql_blanks_skip(const char *at, const char *end);
