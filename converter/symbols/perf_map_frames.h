// SPDX-License-Identifier: Apache-2.0
//
// Which frames of call chains fall into code that a perf map names.
#pragma once

#include "common/err.h"

struct sqlite3;

// Fills perf_map_frame anew from all perf maps, and names the frames that had no name where all
// processes that use them agree. The database is in a transaction.
int perf_map_frames_name(struct sqlite3 *handle, struct err *err);
