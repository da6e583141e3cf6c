// SPDX-License-Identifier: Apache-2.0
//
// Protection against untrusted databases: a schema is a program that SQLite runs.
#pragma once

struct sqlite3;

// Called for each handle after its pragmas are set. Schema and SQL then cannot damage the file or
// SQLite's own tables. Views and defaults can call only functions without side effects. Cells of
// damaged pages are checked; no extension is loaded and no file is mapped. Returns SQLite's code of
// the first access to the file.
int handle_defend(struct sqlite3 *handle);

// Opens a database for reading, protected, and reads its schema, because SQLite opens the file only
// at the first read. Returns SQLite's code. The caller closes *ret, also after a failure.
int handle_open_reading(const char *path, struct sqlite3 **ret);

// As handle_defend(), for a database that is written: triggers do not fire, either.
int handle_defend_written(struct sqlite3 *handle);
