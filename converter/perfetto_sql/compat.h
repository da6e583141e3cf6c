// SPDX-License-Identifier: Apache-2.0
//
// Tables as trace_processor has them, where mmsql's differ on purpose.
#pragma once

struct sqlite3;

// Hides the tables and views that have another answer in trace_processor behind temporary views
// with that answer. Tables that the database does not have are left out. 0, -ENOMEM, or -EINVAL:
// sqlite3_errmsg() says why.
int compat_views_make(struct sqlite3 *handle);
