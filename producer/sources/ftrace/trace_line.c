// SPDX-License-Identifier: Apache-2.0
//
// A line is "            NAME-PID     [001] .....  6592.385189: EVENT: ARGUMENTS". The name of the
// task is in 16 columns and may contain anything: brackets, a time, even a newline, which cuts the
// line in two. Therefore the time is looked for after the pid, if the pid is at its place. In the
// rest of a cut line, the bounds of the time distinguish the real time from a time in the name.
#include "producer/sources/ftrace/trace_line.h"

#include <string.h>

#include "common/str.h"

#define NAME_WIDTH 16

// Takes "SECONDS.MICROSECONDS: EVENT:ARGUMENTS".
static bool take_event(const char *at, const char *end, struct trace_line *ret)
{
    uint64_t sec, usec;
    if (!is_digit(*at) || !str_scan_u64(&at, end, &sec) ||
        sec > (uint64_t)(INT64_MAX / NSEC_PER_SEC - 1) || end - at < 9 || *at != '.')
        return false;
    const char *fraction = ++at;
    if (!is_digit(*at) || !str_scan_u64(&at, end, &usec) || at - fraction != 6 || end - at < 3 ||
        at[0] != ':' || at[1] != ' ')
        return false;
    const char *event = at + 2, *colon = memchr(event, ':', (size_t)(end - event));
    if (!colon || colon == event)
        return false;
    ret->time = (nsec_t)sec * NSEC_PER_SEC + (nsec_t)usec * NSEC_PER_USEC;
    ret->event = (struct text){event, (size_t)(colon - event)};
    ret->arguments = (struct text){colon + 1, (size_t)(end - colon - 1)};
    return true;
}

// Takes "   NAME-PID   [001]", of which [line, end) has at least the bracket.
static void take_task(const char *line, const char *end, struct trace_line *ret)
{
    const char *bracket = memrchr(line, '[', (size_t)(end - line));
    uint64_t pid;
    if (!bracket)
        return;
    while (line < bracket && *line == ' ')
        line++;
    while (bracket > line && bracket[-1] == ' ')
        bracket--;
    ret->task = (struct text){line, (size_t)(bracket - line)};
    const char *dash = memrchr(line, '-', ret->task.size), *digits = dash ? dash + 1 : bracket;
    if (digits == bracket || !is_digit(*digits) || !str_scan_u64(&digits, bracket, &pid) ||
        digits != bracket || pid > INT32_MAX)
        return;
    ret->pid = (int32_t)pid;
    ret->name = (struct text){line, (size_t)(dash - line)};
}

bool trace_line_parse(const char *line, const char *end, nsec_t earliest, nsec_t latest,
                      struct trace_line *ret)
{
    struct trace_line found = {0};
    const char *start = line;
    if (end - line > NAME_WIDTH + 1 && line[NAME_WIDTH] == '-' && is_digit(line[NAME_WIDTH + 1]))
        start = line + NAME_WIDTH + 1;
    for (const char *at = start; at < end; at++) {
        if ((at > line && at[-1] != ' ') || !take_event(at, end, &found) || found.time > latest ||
            found.time < earliest)
            continue;
        take_task(line, at, &found);
        *ret = found;
        return true;
    }
    return false;
}
