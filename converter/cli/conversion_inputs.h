// SPDX-License-Identifier: Apache-2.0
//
// The input files of a conversion, and the entries of archives.
#pragma once

#include "converter/cli/conversion_run.h"

// Returns 0 if the file was taken, or was left out with a message; otherwise a negative errno with
// text.
int run_take_file(struct run *run, const struct conversion_file *file);
