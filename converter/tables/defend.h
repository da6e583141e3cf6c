// SPDX-License-Identifier: Apache-2.0
//
// A database may come from a stranger, and its schema is a program that SQLite runs.
#pragma once

struct sqlite3;

// To be called for each handle when its pragmas are set. The schema and SQL cannot damage the file
// or SQLite's own tables, and views and defaults cannot call functions that do more than compute;
// cells of damaged pages are checked; no extension is loaded and no file mapped. Returns SQLite's
// code: of the first access to the file.
int handle_defend(struct sqlite3 *handle);

// Opens a database for reading, defended, and looks into its schema: SQLite opens the file when
// something is read. SQLite's code. The caller closes *ret, also on failure.
int handle_open_reading(const char *path, struct sqlite3 **ret);

// As handle_defend() for a database that is written to: its triggers do not fire either.
int handle_defend_written(struct sqlite3 *handle);
