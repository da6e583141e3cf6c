// SPDX-License-Identifier: Apache-2.0
//
// FtraceStats: the kernel's counts for the buffer of each CPU, at the start and the end.
#include <string.h>

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

// begin, end and delta of a count are adjacent in the list of stats. Times have no delta.
static const struct {
    uint32_t field;
    enum stat begin;
    bool is_time;
} counts[] = {
    {PB_FtraceCpuStats_entries, STAT_ftrace_cpu_entries_begin, false},
    {PB_FtraceCpuStats_overrun, STAT_ftrace_cpu_overrun_begin, false},
    {PB_FtraceCpuStats_commit_overrun, STAT_ftrace_cpu_commit_overrun_begin, false},
    {PB_FtraceCpuStats_bytes_read, STAT_ftrace_cpu_bytes_begin, false},
    {PB_FtraceCpuStats_dropped_events, STAT_ftrace_cpu_dropped_events_begin, false},
    {PB_FtraceCpuStats_read_events, STAT_ftrace_cpu_read_events_begin, false},
    {PB_FtraceCpuStats_now_ts, STAT_ftrace_cpu_now_ts_begin, true},
    {PB_FtraceCpuStats_oldest_event_ts, STAT_ftrace_cpu_oldest_event_ts_begin, true},
};
_Static_assert(ELEMENTS(counts) == N_FTRACE_COUNTS, "struct ftrace_cpu has a place for each");

static bool is_loss(uint32_t field)
{
    return field == PB_FtraceCpuStats_overrun || field == PB_FtraceCpuStats_commit_overrun ||
           field == PB_FtraceCpuStats_dropped_events;
}

// Returns the counts of a source for a CPU; NULL: the conversion must end.
static struct ftrace_cpu *cpu_of(struct import *im, struct ftrace_machine *machine, uint64_t key)
{
    bool is_new;
    uint64_t *place = import_map_get(im, &machine->cpu_places, key, machine->cpus.n, &is_new);
    if (!place)
        return NULL;
    if (is_new) {
        int r = ftrace_cpu_vec_push(&machine->cpus, (struct ftrace_cpu){.loss = -1});
        import_fail(im, r);
        if (r < 0)
            return NULL;
    }
    return &machine->cpus.items[*place];
}

// Several sources may record the same CPU, each with a buffer of its own, or all with the same
// buffer and the same counts. Therefore the stats are not a sum: the source with the most loss
// stands for the CPU, and of equals the last one.
static bool stands_for_cpu(struct import *im, struct ftrace_machine *machine, uint32_t index,
                           const struct ftrace_cpu *cpu)
{
    uint64_t place = (uint64_t)(cpu - machine->cpus.items);
    uint64_t *shown = import_map_get(im, &machine->cpus_shown, index, place, &(bool){0});
    if (!shown || cpu->loss < machine->cpus.items[*shown].loss || !cpu->has_begin)
        return shown && *shown == place; // an end without a begin says nothing beside others
    *shown = place;
    return true;
}

static void cpu_read(struct import *im, const struct packet *packet, const struct wire_field *field,
                     bool is_end)
{
    MESSAGE(message, FtraceCpuStats, field);
    uint32_t index = (uint32_t)field_u64(&message.cpu);
    struct ftrace_machine *machine = packet->own;
    struct ftrace_cpu *cpu = cpu_of(im, machine, (uint64_t)packet->sequence_id << 32 | index);
    int64_t values[ELEMENTS(counts)];
    uint64_t loss = 0;
    if (!cpu)
        return;
    for (size_t i = 0; i < ELEMENTS(counts); i++) {
        const struct wire_field *value = &message.at[counts[i].field];
        values[i] = counts[i].is_time ? nsec_from_sec(field_double(value)) : field_i64(value);
        if (is_loss(counts[i].field))
            loss += (uint64_t)values[i] - (uint64_t)cpu->begin[i];
    }
    if (!is_end) {
        cpu->has_begin = true;
        memcpy(cpu->begin, values, sizeof(values));
    } else if (cpu->has_begin) {
        cpu->loss = (int64_t)loss > 0 ? (int64_t)loss : 0;
    }
    if (!stands_for_cpu(im, machine, index, cpu))
        return;
    for (size_t i = 0; i < ELEMENTS(counts); i++) {
        enum stat begin = counts[i].begin;
        if (cpu->has_begin)
            stats_set_at(&im->stats, begin, index, cpu->begin[i]);
        if (is_end)
            stats_set_at(&im->stats, begin + 1, index, values[i]);
        if (is_end && cpu->has_begin && !counts[i].is_time)
            stats_set_at(&im->stats, begin + 2, index,
                         (int64_t)((uint64_t)values[i] - (uint64_t)cpu->begin[i]));
    }
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
            cpu_read(im, packet, &field, is_end);
        else if (field.number == PB_FtraceStats_kprobe_stats)
            kprobes_read(im, &field, is_end);
    }
}

const struct importer importer_ftrace_stats = {
    .field = PB_TracePacket_ftrace_stats,
    .now = ftrace_stats_now,
    .shares = &importer_ftrace,
};
