// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions for producer names in configs: POSIX extended expressions that must match the
// whole name, as in Perfetto.
#pragma once

#include <stdbool.h>

#include "common/err.h"

// The maximum number of expressions in one config. It bounds the time for matching them all.
#define NAME_REGEXES_MAX 32

// Returns 0, or -EINVAL with text if `pattern` is not an expression, or is one that could take too
// much time, memory or stack.
int name_regex_check(const char *pattern, struct err *err);

// Returns false also for an expression that name_regex_check() refuses. Takes at most some
// milliseconds.
bool name_regex_matches(const char *pattern, const char *name);
