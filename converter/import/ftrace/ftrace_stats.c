// SPDX-License-Identifier: Apache-2.0
//
// FtraceStats: the kernel's counts for the buffer of each CPU, at the start and the end.
#include "common/elements.h"
#include "converter/import/ftrace/ftrace.h"
#include "protos/fields.h"

static int64_t nsec_from_sec(double sec)
{
    double ns = sec * 1e9;
    if (ns >= (double)INT64_MAX)
        return INT64_MAX;
    return ns > (double)INT64_MIN ? (int64_t)ns : INT64_MIN;
}

// begin, end and delta of a count are adjacent in the list of stats.
static const struct {
    uint32_t field;
    enum stat begin;
} counts[] = {
    {PB_FtraceCpuStats_entries, STAT_ftrace_cpu_entries_begin},
    {PB_FtraceCpuStats_overrun, STAT_ftrace_cpu_overrun_begin},
    {PB_FtraceCpuStats_commit_overrun, STAT_ftrace_cpu_commit_overrun_begin},
    {PB_FtraceCpuStats_bytes_read, STAT_ftrace_cpu_bytes_begin},
    {PB_FtraceCpuStats_dropped_events, STAT_ftrace_cpu_dropped_events_begin},
    {PB_FtraceCpuStats_read_events, STAT_ftrace_cpu_read_events_begin},
};

static void cpu_read(struct import *im, const struct wire_field *field, bool is_end)
{
    MESSAGE(cpu, FtraceCpuStats, field);
    uint32_t index = (uint32_t)field_u64(&cpu.cpu);
    struct stats *stats = &im->stats;
    for (size_t i = 0; i < ELEMENTS(counts); i++) {
        int64_t value = field_i64(&cpu.at[counts[i].field]), begin;
        stats_set_at(stats, counts[i].begin + is_end, index, value);
        if (is_end && stats_get_at(stats, counts[i].begin, index, &begin))
            stats_set_at(stats, counts[i].begin + 2, index,
                         (int64_t)((uint64_t)value - (uint64_t)begin));
    }
    stats_set_at(stats, STAT_ftrace_cpu_now_ts_begin + is_end, index,
                 nsec_from_sec(field_double(&cpu.now_ts)));
    stats_set_at(stats, STAT_ftrace_cpu_oldest_event_ts_begin + is_end, index,
                 nsec_from_sec(field_double(&cpu.oldest_event_ts)));
}

static void kprobes_read(struct import *im, const struct wire_field *field, bool is_end)
{
    MESSAGE(kprobes, FtraceKprobeStats, field);
    const struct {
        enum stat begin;
        const struct wire_field *field;
    } sums[] = {{STAT_ftrace_kprobe_hits_begin, &kprobes.hits},
                {STAT_ftrace_kprobe_misses_begin, &kprobes.misses}};
    for (size_t i = 0; i < ELEMENTS(sums); i++) {
        uint64_t value = field_u64(sums[i].field);
        stats_set(&im->stats, sums[i].begin + is_end, (int64_t)value);
        if (is_end)
            stats_set(&im->stats, sums[i].begin + 2,
                      (int64_t)(value - (uint64_t)stats_get(&im->stats, sums[i].begin)));
    }
}

static void errors_read(struct import *im, const struct wire_field *message)
{
    struct values errors = values_of(message, PB_FtraceStats_ftrace_parse_errors);
    uint64_t error;
    while (values_next(&errors, &error))
        if (error == PB_FTRACE_STATUS_ABI_ZERO_DATA_LENGTH)
            stats_add(&im->stats, STAT_ftrace_abi_errors_skipped_zero_data_length, 1);
        else if (error != PB_FTRACE_STATUS_OK && error != PB_FTRACE_STATUS_UNSPECIFIED)
            stats_add_at(&im->stats, STAT_mmsql_ftrace_abi_errors, (uint32_t)error, 1);
}

static bool setup_error(struct import *im, const char *what, const struct wire_field *field)
{
    if (!field->size)
        return false;
    struct strbuf text = {0};
    strbuf_addf(&text, "%s: ", what);
    strbuf_add(&text, field_text(field), field->size);
    struct slice_name kept = slice_name_of(&im->strings, import_strbuf_keep(im, &text));
    strbuf_done(&text);
    struct arg message = arg_name("message", kept);
    import_log(im, STAT_ftrace_setup_errors, NULL, &message, 1);
    return true;
}

// Logs the events that could not be switched on, once for each sequence.
static void setup_errors_read(struct import *im, struct ftrace_machine *machine,
                              const struct packet *packet)
{
    static const struct {
        uint32_t field;
        const char *what;
    } errors[] = {
        {PB_FtraceStats_failed_ftrace_events, "cannot be switched on"},
        {PB_FtraceStats_unknown_ftrace_events, "unknown event"},
        {PB_FtraceStats_atrace_errors, "atrace"},
        {PB_FtraceStats_exclusive_feature_error, "in use by another recording"},
    };
    if (map64_find(&machine->told, packet->sequence_id))
        return;
    bool is_told = false;
    for (size_t i = 0; i < ELEMENTS(errors); i++)
        for (struct fields each = fields_of(packet->message, errors[i].field); fields_next(&each);)
            is_told |= setup_error(im, errors[i].what, &each.field);
    if (is_told)
        import_map_set(im, &machine->told, packet->sequence_id, 0);
}

static void ftrace_stats_now(struct import *im, const struct packet *packet)
{
    MESSAGE(head, FtraceStats, packet->message);
    uint64_t phase = field_u64(&head.phase);
    if (phase != PB_START_OF_TRACE && phase != PB_END_OF_TRACE)
        return;
    bool is_end = phase == PB_END_OF_TRACE;
    errors_read(im, packet->message);
    struct ftrace_machine *machine = packet->own;
    if (!is_end && field_u64(&head.preserve_ftrace_buffer))
        machine->keeps_old = true;
    if (!is_end)
        setup_errors_read(im, machine, packet);
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_FtraceStats_cpu_stats)
            cpu_read(im, &field, is_end);
        else if (field.number == PB_FtraceStats_kprobe_stats)
            kprobes_read(im, &field, is_end);
    }
}

const struct importer importer_ftrace_stats = {
    .field = PB_TracePacket_ftrace_stats,
    .now = ftrace_stats_now,
    .shares = &importer_ftrace,
};
