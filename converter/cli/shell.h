// SPDX-License-Identifier: Apache-2.0
//
// The prompt: mmsql query without SQL.
#pragma once

#include <stdbool.h>

#include "converter/cli/result.h"

struct sql_engine;
struct sqlite3;

// Runs the prompt until the end of input, or .quit. `engine` belongs to `handle`. Returns an exit
// code.
int shell_run(struct sqlite3 *handle, struct sql_engine *engine, const char *name,
              enum format format, bool timing);
