// SPDX-License-Identifier: Apache-2.0
//
// The spans are in order of time and never touch, so a new span overlaps a run of neighbours. A
// binary search finds the end of the run, because a trace may have any number of spans.
#include "converter/verdict/intervals.h"

// Returns the number of intervals that begin at or before `ts`.
static size_t begun_at(const struct intervals *intervals, int64_t ts)
{
    size_t low = 0, high = intervals->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (intervals->items[middle].ts <= ts)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int intervals_add(struct intervals *intervals, int64_t ts, int64_t end, int64_t gap)
{
    size_t after = begun_at(intervals, end + gap); // the first span after the new span
    size_t first = after;                          // the first span to merge
    while (first > 0 && intervals->items[first - 1].end + gap >= ts)
        first--;
    if (first == after) {
        int r = intervals_push(intervals, (struct interval){0});
        if (r < 0)
            return r;
        memmove(intervals->items + first + 1, intervals->items + first,
                (intervals->n - 1 - first) * sizeof(struct interval));
        intervals->items[first] = (struct interval){ts, end};
        return 0;
    }
    struct interval *merged = &intervals->items[first];
    int64_t last = intervals->items[after - 1].end;
    merged->ts = merged->ts < ts ? merged->ts : ts;
    merged->end = last > end ? last : end;
    memmove(merged + 1, intervals->items + after, (intervals->n - after) * sizeof(struct interval));
    intervals->n -= after - first - 1;
    return 0;
}

bool intervals_are_near(const struct intervals *intervals, int64_t ts, int64_t end, int64_t gap)
{
    size_t n = begun_at(intervals, end + gap);
    return n > 0 && intervals->items[n - 1].end + gap >= ts;
}

int64_t intervals_sum(const struct intervals *intervals)
{
    int64_t sum = 0;
    vec_foreach(intervals, interval)
        sum += interval->end - interval->ts;
    return sum;
}
