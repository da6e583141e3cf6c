// SPDX-License-Identifier: Apache-2.0
//
// The last step of a conversion: files that are not traces, symbols, and names of frames.
#pragma once

#include "converter/cli/conversion_run.h"

// Must be called after all traces are converted. Returns 0 or a negative errno with text.
int run_import_rest(struct run *run);
