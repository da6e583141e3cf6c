// SPDX-License-Identifier: Apache-2.0
//
// Expressions that producers' names have to match, from configs: POSIX extended ones that match the
// whole name, as in Perfetto.
#pragma once

#include <stdbool.h>

#include "common/err.h"

// Expressions that one config may have, so that asking all of them takes a bounded time.
#define NAME_REGEXES_MAX 32

// 0, or -EINVAL with text: it is none, or one that could take the process more time, memory or
// stack than a name is worth.
int name_regex_check(const char *pattern, struct err *err);

// False, too, for an expression that name_regex_check() refuses. At most some milliseconds.
bool name_regex_matches(const char *pattern, const char *name);
