// SPDX-License-Identifier: Apache-2.0
//
// FtraceConfig.print_filter: selects the texts of ftrace/print that are recorded. Rules are tried
// in order, and the first match decides. A text without a match is recorded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protos/config/ftrace_config.pb-c.h"

// `text` has `size` bytes and may or may not have a terminator within them.
bool print_filter_allows(const Pb__FtraceConfig__PrintFilter *filter, const char *text,
                         size_t size);
