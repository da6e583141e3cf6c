// SPDX-License-Identifier: Apache-2.0
//
// The .sql files of this folder, embedded at build time.
#pragma once

extern const char *const sql_scripts[]; // NULL at the end; run in this order on a new database
