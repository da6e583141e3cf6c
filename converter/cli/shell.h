// SPDX-License-Identifier: Apache-2.0
//
// mmsql query without SQL: somebody asks, and reads, and asks again.
#pragma once

#include <stdbool.h>

#include "converter/cli/result.h"

struct sqlite3;

// Until the end of input, or .quit. Returns an exit code.
int shell_run(struct sqlite3 *handle, const char *name, enum format format, bool timing);
