// SPDX-License-Identifier: Apache-2.0
//
// In order of time, and never touching: so what is added meets a run of neighbours, which is looked
// for from the end.
#include "converter/verdict/intervals.h"

int intervals_add(struct intervals *intervals, int64_t ts, int64_t end, int64_t gap)
{
    size_t behind = intervals->n; // the first that lies behind the new one
    while (behind > 0 && intervals->items[behind - 1].ts - gap > end)
        behind--;
    size_t first = behind; // the first that is merged
    while (first > 0 && intervals->items[first - 1].end + gap >= ts)
        first--;
    if (first == behind) {
        int r = intervals_push(intervals, (struct interval){0});
        if (r < 0)
            return r;
        memmove(intervals->items + first + 1, intervals->items + first,
                (intervals->n - 1 - first) * sizeof(struct interval));
        intervals->items[first] = (struct interval){ts, end};
        return 0;
    }
    struct interval *merged = &intervals->items[first];
    int64_t last = intervals->items[behind - 1].end;
    merged->ts = merged->ts < ts ? merged->ts : ts;
    merged->end = last > end ? last : end;
    memmove(merged + 1, intervals->items + behind,
            (intervals->n - behind) * sizeof(struct interval));
    intervals->n -= behind - first - 1;
    return 0;
}

int64_t intervals_sum(const struct intervals *intervals)
{
    int64_t sum = 0;
    vec_foreach(intervals, interval)
        sum += interval->end - interval->ts;
    return sum;
}
