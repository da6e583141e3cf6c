// SPDX-License-Identifier: Apache-2.0
//
// Views that depend on what events a trace has: ftrace_NAME for each kind of kernel event, with its
// own columns.
#pragma once

struct sqlite3;

// Makes the views of all kinds in _arg_kind that have a name; older ones go. 0 or an SQLite code.
int arg_views_make(struct sqlite3 *handle);
