// SPDX-License-Identifier: Apache-2.0
//
// From files to a database: what `mmsql convert` does, and `mmsql query` on a trace. Reports what
// is wrong in files to stderr as it goes; a failure's text is left to the caller.
#pragma once

#include "converter/cli/conversion_order.h"

// 0: done. Otherwise a negative errno, and `output` is as it was.
int conversion_run(const struct conversion *conversion, struct conversion_result *ret,
                   struct err *err);
