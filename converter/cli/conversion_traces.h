// SPDX-License-Identifier: Apache-2.0
//
// Of a conversion: its traces.
#pragma once

#include "converter/cli/conversion_run.h"

// Takes over nothing. 0: it is converted, or left out with a message. -EDQUOT with text: there is
// no room for any of it, and the working file is as it was. Another negative errno: it failed.
int run_convert_trace(struct run *run, const struct content *content, struct source *source);
