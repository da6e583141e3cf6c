// SPDX-License-Identifier: Apache-2.0
//
// Of a conversion: its files, and what is in archives.
#pragma once

#include "converter/cli/conversion_run.h"

// 0: it is taken, or left out with a message. Otherwise a negative errno with text.
int run_take_file(struct run *run, const struct conversion_file *file);
