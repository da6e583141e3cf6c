// SPDX-License-Identifier: Apache-2.0
//
// Conversion of files into a database, for `mmsql convert` and for `mmsql query` on a trace. The
// conversion prints damage in the files to stderr; the caller prints the text of a failure.
#pragma once

#include "converter/cli/conversion_order.h"

// Returns 0 or a negative errno with text. After an error, `output` is unchanged.
int conversion_run(const struct conversion *conversion, struct conversion_result *ret,
                   struct err *err);
