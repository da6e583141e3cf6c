// SPDX-License-Identifier: Apache-2.0
//
// The kernel writes `name: value` lines. For clocks that do not count nanoseconds, the lines about
// time have plain numbers.
#include "producer/sources/ftrace/cpu_stats.h"

#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "protos/fields.h"

struct line {
    const char *name;
    size_t name_size;
    const char *value, *end;
};

static bool next_line(const char **cursor, const char *end, struct line *ret)
{
    while (*cursor < end) {
        const char *start = *cursor;
        const char *newline = memchr(start, '\n', (size_t)(end - start));
        const char *line_end = newline ? newline : end;
        *cursor = newline ? newline + 1 : end;
        const char *colon = memchr(start, ':', (size_t)(line_end - start));
        if (!colon)
            continue;
        *ret = (struct line){start, (size_t)(colon - start), colon + 1, line_end};
        return true;
    }
    return false;
}

static bool is_named(const struct line *line, const char *name)
{
    return strlen(name) == line->name_size && memcmp(line->name, name, line->name_size) == 0;
}

static double seconds_of(const struct line *line)
{
    char text[64];
    size_t size = (size_t)(line->end - line->value);
    if (size >= sizeof(text))
        return 0;
    memcpy(text, line->value, size);
    text[size] = '\0';
    return strtod(text, NULL);
}

bool cpu_stats_parse(const char *text, size_t size, struct cpu_stats *ret)
{
    struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {
        {"entries", &ret->entries},
        {"overrun", &ret->overrun},
        {"commit overrun", &ret->commit_overrun},
        {"bytes", &ret->bytes},
        {"dropped events", &ret->dropped_events},
        {"read events", &ret->read_events},
    };
    *ret = (struct cpu_stats){0};
    bool any = false;
    const char *cursor = text;
    struct line line;
    while (next_line(&cursor, text + size, &line)) {
        for (size_t i = 0; i < ELEMENTS(numbers); i++)
            if (is_named(&line, numbers[i].name))
                any |= str_scan_u64(&line.value, line.end, numbers[i].to);
        if (is_named(&line, "oldest event ts"))
            ret->oldest_event_ts = seconds_of(&line);
        else if (is_named(&line, "now ts"))
            ret->now_ts = seconds_of(&line);
    }
    return any;
}

void cpu_stats_write(const struct cpu_stats *stats, struct wire_writer *w)
{
    size_t mark = wire_begin(w, PB_FtraceStats_cpu_stats);
    wire_uint(w, PB_FtraceCpuStats_cpu, stats->cpu);
    wire_uint(w, PB_FtraceCpuStats_entries, stats->entries);
    wire_uint(w, PB_FtraceCpuStats_overrun, stats->overrun);
    wire_uint(w, PB_FtraceCpuStats_commit_overrun, stats->commit_overrun);
    wire_uint(w, PB_FtraceCpuStats_bytes_read, stats->bytes);
    wire_double(w, PB_FtraceCpuStats_oldest_event_ts, stats->oldest_event_ts);
    wire_double(w, PB_FtraceCpuStats_now_ts, stats->now_ts);
    wire_uint(w, PB_FtraceCpuStats_dropped_events, stats->dropped_events);
    wire_uint(w, PB_FtraceCpuStats_read_events, stats->read_events);
    wire_end(w, mark);
}

int64_t cpu_stats_now(const char *text, size_t size)
{
    const char *cursor = text;
    struct line line;
    while (next_line(&cursor, text + size, &line)) {
        uint64_t whole, micro;
        if (!is_named(&line, "now ts") || !str_scan_u64(&line.value, line.end, &whole))
            continue;
        if (line.value == line.end || *line.value != '.')
            return (int64_t)whole;
        line.value++;
        if (!str_scan_u64(&line.value, line.end, &micro))
            return 0;
        return (int64_t)whole * 1000000000 + (int64_t)micro * 1000;
    }
    return 0;
}
