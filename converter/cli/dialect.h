// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's additions to SQL: INCLUDE PERFETTO MODULE, and CREATE PERFETTO TABLE, VIEW and
// FUNCTION. Plain CREATE TABLE, VIEW and VIRTUAL TABLE become temporary. The created objects live
// as long as the connection.
#pragma once

struct sqlite3;

// Runs a statement of the dialect at *cursor and moves *cursor behind the statement. Returns 1; 0
// for plain SQL; -1 after an error, which is printed to stderr.
int dialect_run(struct sqlite3 *handle, const char **cursor);

// Returns the text after blanks and comments.
const char *sql_blanks_skip(const char *at);
