// SPDX-License-Identifier: Apache-2.0
//
// FtraceConfig.print_filter: which texts of ftrace/print are recorded. Rules are tried in order;
// the first that matches decides, and what none matches is recorded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protos/config/ftrace_config.pb-c.h"

// `text` has `size` bytes and may or may not be terminated within them.
bool print_filter_allows(const Pb__FtraceConfig__PrintFilter *filter, const char *text,
                         size_t size);
