// SPDX-License-Identifier: Apache-2.0
//
// The kernel writes `name: value` lines. For clocks that do not count nanoseconds, the lines about
// time have plain numbers.
#include "producer/sources/ftrace/cpu_stats.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/str.h"
#include "producer/ground/proc_text.h"
#include "protos/fields.h"

static double seconds_of(struct span value)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)span_size(value), value.pos);
    return strtod(text, NULL);
}

bool cpu_stats_parse(const char *text, size_t size, struct cpu_stats *ret)
{
    struct span all = span_over(text, size);
    if (!span_size(span_value_of(all, "entries:")))
        return false;
    *ret = (struct cpu_stats){
        .entries = span_number_of(all, "entries:"),
        .overrun = span_number_of(all, "overrun:"),
        .commit_overrun = span_number_of(all, "commit overrun:"),
        .bytes = span_number_of(all, "bytes:"),
        .dropped_events = span_number_of(all, "dropped events:"),
        .read_events = span_number_of(all, "read events:"),
        .oldest_event_ts = seconds_of(span_value_of(all, "oldest event ts:")),
        .now_ts = seconds_of(span_value_of(all, "now ts:")),
    };
    return true;
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
    struct span value = span_trim(span_value_of(span_over(text, size), "now ts:"));
    uint64_t whole, micro;
    if (!str_scan_u64(&value.pos, value.end, &whole))
        return 0;
    if (!span_take_prefix(&value, "."))
        return (int64_t)whole;
    return span_take_u64(&value, &micro) ? (int64_t)whole * 1000000000 + (int64_t)micro * 1000 : 0;
}
