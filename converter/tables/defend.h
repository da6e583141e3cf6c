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

// Opens a file of mmsql's own making, or an output. Another user may own the folder: the last part
// of the path, and the names of journals, are not followed if they are links, the path is used as
// it is, and no journal can have another file removed. The caller closes *ret, also after a
// failure. Returns SQLite's code.
int handle_open_written(const char *path, int flags, struct sqlite3 **ret);

// Opens a database for reading, protected, and reads its schema, because SQLite opens the file only
// at the first read. Returns SQLite's code. The caller closes *ret, also after a failure.
int handle_open_reading(const char *path, struct sqlite3 **ret);

// As handle_defend(), for a database that is written: triggers do not fire, either.
int handle_defend_written(struct sqlite3 *handle);
