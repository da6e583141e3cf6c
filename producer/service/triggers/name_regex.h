// SPDX-License-Identifier: Apache-2.0
//
// Expressions that producers' names have to match, from configs: POSIX extended ones that match the
// whole name, as in Perfetto.
#pragma once

#include <regex.h>
#include <stdbool.h>

#include "common/err.h"

// 0, and the caller has to regfree() *ret; or -EINVAL with text: it is none, or one that could take
// the process more time or stack than a name is worth.
int name_regex_make(const char *pattern, regex_t *ret, struct err *err);

bool name_regex_matches(const regex_t *regex, const char *name);
