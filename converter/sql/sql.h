// SPDX-License-Identifier: Apache-2.0
//
// The .sql files of this folder, embedded at build time.
#pragma once

struct sql_view {
    const char *name, *doc;
    const char *table; // table with the docs of columns that `columns` lacks
    // The view's own columns: name, doc, and the type to which the view casts the column, or "".
    // NULL at the end.
    const char *const (*columns)[3];
};
extern const struct sql_view sql_views[]; // name NULL at the end

// Modules of the library: the text of the files in library/, with their comments.
struct sql_module {
    const char *name, *sql;
};
extern const struct sql_module sql_modules[]; // name NULL at the end

extern const char *const sql_scripts[]; // NULL at the end; run in this order on a new database

// The internal tables of trace_processor, in PerfettoSQL.
extern const char sql_intrinsics[];
