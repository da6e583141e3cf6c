// SPDX-License-Identifier: Apache-2.0
//
// Protection against untrusted databases: a schema is a program that SQLite runs.
#pragma once

struct sqlite3;

// Protects a handle. Must be called for each handle after its pragmas are set. Afterwards, schema
// and SQL cannot damage the file or SQLite's own tables. Views and defaults can call only functions
// without side effects. SQLite checks the cells of damaged pages, loads no extension and maps no
// file. Returns SQLite's code of the first access to the file.
int handle_defend(struct sqlite3 *handle);

// Opens a file that mmsql has made, or an output. Another user may own the folder. Therefore links
// are not followed in the last part of the path and in the names of journals, SQLite does not
// rewrite the path, and no journal can cause the removal of another file. The caller closes *ret,
// also after a failure. Returns SQLite's code.
int handle_open_written(const char *path, int flags, struct sqlite3 **ret);

// Opens a database for reading, protects the handle, and reads the schema, because SQLite opens the
// file only at the first read. Returns SQLite's code. The caller closes *ret, also after a failure.
int handle_open_reading(const char *path, struct sqlite3 **ret);

// As handle_defend(), for a database that is written. Triggers do not fire.
int handle_defend_written(struct sqlite3 *handle);
