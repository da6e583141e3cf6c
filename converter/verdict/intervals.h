// SPDX-License-Identifier: Apache-2.0
//
// Time spans in order, merged if they overlap or nearly touch. Times are bounded (subject_time()).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

struct interval {
    int64_t ts, end;
};
VEC_DEFINE(intervals, struct interval);

// Adds a span. Spans that are at most `gap` apart are merged. The function is fast if spans come
// nearly in order of time. Returns 0 or -ENOMEM.
int intervals_add(struct intervals *intervals, int64_t ts, int64_t end, int64_t gap);

// Returns true if one of the spans is at most `gap` away from the given span.
bool intervals_are_near(const struct intervals *intervals, int64_t ts, int64_t end, int64_t gap);

int64_t intervals_sum(const struct intervals *intervals);
