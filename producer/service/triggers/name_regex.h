// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions for producer names in configs: POSIX extended expressions that must match the
// whole name, as in Perfetto.
#pragma once

#include <stdbool.h>

#include "common/err.h"

// Maximum number of expressions in one config, which limits the time for their matches.
#define NAME_REGEXES_MAX 32

// Returns 0, or -EINVAL with text if `pattern` is not an expression, or could take too much time,
// memory or stack.
int name_regex_check(const char *pattern, struct err *err);

// Returns whether the whole name matches. Returns false also for an expression that
// name_regex_check() refuses. Takes at most some milliseconds.
bool name_regex_matches(const char *pattern, const char *name);
