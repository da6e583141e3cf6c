// SPDX-License-Identifier: Apache-2.0
//
// The views ftrace_NAME: a view for each kind of kernel event in the trace, with the event's own
// columns.
#pragma once

#include <stdbool.h>

struct sqlite3;

#define ARG_VIEW_PREFIX "ftrace_"

// Makes the views of all named kinds in _arg_kind, and drops older views. Returns SQLite's code.
int arg_views_make(struct sqlite3 *handle);

// Returns true if all these views share a column of this name. A view calls an event's field of
// this name "field_NAME".
bool arg_view_shares(const char *column);
