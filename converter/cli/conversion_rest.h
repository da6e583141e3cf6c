// SPDX-License-Identifier: Apache-2.0
//
// Of a conversion: what is no trace, and what follows from it for the traces.
#pragma once

#include "converter/cli/conversion_run.h"

// When all traces are through. 0 or a negative errno with text.
int run_import_rest(struct run *run);
