// SPDX-License-Identifier: Apache-2.0
//
// Views that depend on what events a trace has: ftrace_NAME for each kind of kernel event, with its
// own columns.
#pragma once

#include <stdbool.h>

struct sqlite3;

#define ARG_VIEW_PREFIX "ftrace_"

// Makes the views of all kinds in _arg_kind that have a name; older ones go. 0 or an SQLite code.
int arg_views_make(struct sqlite3 *handle);

// Whether all these views have a column called so, which makes an event's field "field_NAME".
bool arg_view_shares(const char *column);
