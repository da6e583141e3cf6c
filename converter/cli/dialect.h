// SPDX-License-Identifier: Apache-2.0
//
// The statements that Perfetto added to SQL: INCLUDE PERFETTO MODULE, CREATE PERFETTO TABLE, VIEW
// and FUNCTION; and plain CREATE TABLE, VIEW and VIRTUAL TABLE, which become temporary. What they
// make lives as long as the connection.
#pragma once

struct sqlite3;

// If a statement of the dialect stands at *cursor, runs it, moves *cursor behind it and returns 1.
// 0: it is plain SQL. -1: it failed, and the error is on stderr.
int dialect_run(struct sqlite3 *handle, const char **cursor);

// Behind blanks and comments.
const char *sql_blanks_skip(const char *at);
