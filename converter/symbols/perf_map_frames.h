// SPDX-License-Identifier: Apache-2.0
//
// Names of frames in code that a perf map names.
#pragma once

#include "common/err.h"

struct sqlite3;

// Fills perf_map_frame anew from all perf maps. A frame without a name gets a name if all processes
// that use the frame agree. The database must be in a transaction. Returns 0 or a negative errno
// with text.
int perf_map_frames_name(struct sqlite3 *handle, struct err *err);
