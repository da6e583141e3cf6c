// SPDX-License-Identifier: Apache-2.0
//
// The kernel's documentation (proc.rst, iostats.rst, psi.rst) defines the formats, which only ever
// grow at the end of a line. Every line is read by position, and anything after the known fields
// is ignored. A line that does not begin as expected is left out.
#include "producer/sources/sys_stats/sys_stats_texts.h"

#include "common/elements.h"
#include "protos/fields.h"

static void write_cpu_times(struct span cpu, struct span rest, uint64_t ns_per_tick,
                            struct wire_writer *w)
{
    uint64_t id, ticks;
    if (!span_take_u64(&cpu, &id)) // "cpu" alone is the sum of all
        return;
    size_t mark = wire_begin(w, PB_SysStats_cpu_stat);
    wire_uint(w, PB_SysStats_CpuTimes_cpu_id, (uint32_t)id);
    for (uint32_t field = PB_SysStats_CpuTimes_user_ns; field <= PB_SysStats_CpuTimes_steal_ns;
         field++)
        wire_uint(w, field, span_take_u64(&rest, &ticks) ? ticks * ns_per_tick : 0);
    wire_end(w, mark);
}

struct interrupt_fields {
    uint32_t total, each;
    bool with_zeros;
};

static void write_interrupts(struct span rest, const struct interrupt_fields *fields,
                             struct wire_writer *w)
{
    uint64_t count;
    if (!span_take_u64(&rest, &count))
        return;
    wire_uint(w, fields->total, count);
    for (uint32_t irq = 0; span_take_u64(&rest, &count); irq++) {
        if (count == 0 && !fields->with_zeros)
            continue;
        size_t mark = wire_begin(w, fields->each);
        wire_uint(w, PB_SysStats_InterruptCount_irq, irq);
        wire_uint(w, PB_SysStats_InterruptCount_count, count);
        wire_end(w, mark);
    }
}

void stat_text_write(struct span text, uint32_t counters, uint64_t ns_per_tick,
                     struct wire_writer *w)
{
    static const struct interrupt_fields hard = {PB_SysStats_num_irq_total, PB_SysStats_num_irq,
                                                 false};
    static const struct interrupt_fields soft = {PB_SysStats_num_softirq_total,
                                                 PB_SysStats_num_softirq, true};
    struct span line, word;
    uint64_t value;
    while (span_take_line(&text, &line)) {
        if (!span_take_word(&line, &word))
            continue;
        if (span_take_prefix(&word, "cpu")) {
            if (counters & 1u << PB_STAT_CPU_TIMES)
                write_cpu_times(word, line, ns_per_tick, w);
        } else if (span_eq(word, "intr")) {
            if (counters & 1u << PB_STAT_IRQ_COUNTS)
                write_interrupts(line, &hard, w);
        } else if (span_eq(word, "softirq")) {
            if (counters & 1u << PB_STAT_SOFTIRQ_COUNTS)
                write_interrupts(line, &soft, w);
        } else if (span_eq(word, "processes")) {
            if ((counters & 1u << PB_STAT_FORK_COUNT) && span_take_u64(&line, &value))
                wire_uint(w, PB_SysStats_num_forks, value);
        }
    }
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS"
void psi_text_write(struct span text, uint32_t some, uint32_t full, struct wire_writer *w)
{
    struct span line, word;
    while (span_take_line(&text, &line)) {
        if (!span_take_word(&line, &word))
            continue;
        uint32_t resource = span_eq(word, "some") ? some : span_eq(word, "full") ? full : 0;
        uint64_t total_us;
        while (resource && span_take_word(&line, &word)) {
            if (!span_take_prefix(&word, "total=") || !span_take_u64(&word, &total_us))
                continue;
            size_t mark = wire_begin(w, PB_SysStats_psi);
            wire_uint(w, PB_SysStats_PsiSample_resource, resource);
            wire_uint(w, PB_SysStats_PsiSample_total_ns, total_us * 1000);
            wire_end(w, mark);
            break;
        }
    }
}

// "Node 0, zone   Normal     51      3 ..."
void buddyinfo_text_write(struct span text, struct wire_writer *w)
{
    struct span line, node, zone, word;
    while (span_take_line(&text, &line)) {
        uint64_t n_free;
        if (!span_take_prefix(&line, "Node ") || !span_take_word(&line, &node) ||
            node.end[-1] != ',' || !span_take_word(&line, &word) || !span_eq(word, "zone") ||
            !span_take_word(&line, &zone))
            continue;
        size_t mark = wire_begin(w, PB_SysStats_buddy_info);
        wire_text(w, PB_SysStats_BuddyInfo_node, node.pos, span_size(node) - 1);
        wire_text(w, PB_SysStats_BuddyInfo_zone, zone.pos, span_size(zone));
        while (span_take_u64(&line, &n_free))
            wire_uint(w, PB_SysStats_BuddyInfo_order_pages, (uint32_t)n_free);
        wire_end(w, mark);
    }
}

// The column of each field (from 0, after major, minor and name), in the order of the columns.
struct disk_column {
    uint8_t column;
    uint8_t field;
};

static const struct disk_column disk_columns[] = {
    {2, PB_SysStats_DiskStat_read_sectors},     {3, PB_SysStats_DiskStat_read_time_ms},
    {6, PB_SysStats_DiskStat_write_sectors},    {7, PB_SysStats_DiskStat_write_time_ms},
    {13, PB_SysStats_DiskStat_discard_sectors}, {14, PB_SysStats_DiskStat_discard_time_ms},
    {15, PB_SysStats_DiskStat_flush_count},     {16, PB_SysStats_DiskStat_flush_time_ms},
};

void diskstats_text_write(struct span text, struct wire_writer *w)
{
    struct span line, name;
    while (span_take_line(&text, &line)) {
        uint64_t value;
        if (!span_take_u64(&line, &value) || !span_take_u64(&line, &value) ||
            !span_take_word(&line, &name))
            continue;
        size_t mark = wire_begin(w, PB_SysStats_disk_stat);
        wire_text(w, PB_SysStats_DiskStat_device_name, name.pos, span_size(name));
        const struct disk_column *next = disk_columns, *end = next + ELEMENTS(disk_columns);
        for (unsigned column = 0; next < end && span_take_u64(&line, &value); column++) {
            if (column == next->column) {
                wire_uint(w, next->field, value);
                next++;
            }
        }
        wire_end(w, mark);
    }
}

#define SLAB_COLUMN_PAGES_PER_SLAB 5
#define SLAB_COLUMN_NUM_SLABS      14

// Version 2 of the format. Its two header lines begin with "slabinfo" and "#".
void slabinfo_text_write(struct span text, struct wire_writer *w)
{
    struct span line, name, word;
    while (span_take_line(&text, &line)) {
        struct span rest = line;
        if (span_take_prefix(&line, "slabinfo - version") || !span_take_word(&rest, &name) ||
            *name.pos == '#')
            continue;
        uint64_t pages_per_slab = 0, num_slabs = 0;
        unsigned column = 1;
        for (; column <= SLAB_COLUMN_NUM_SLABS && span_take_word(&rest, &word); column++) {
            if (column == SLAB_COLUMN_PAGES_PER_SLAB && !span_take_u64(&word, &pages_per_slab))
                break;
            if (column == SLAB_COLUMN_NUM_SLABS && !span_take_u64(&word, &num_slabs))
                break;
        }
        if (column <= SLAB_COLUMN_NUM_SLABS)
            continue;
        size_t mark = wire_begin(w, PB_SysStats_slab_info);
        wire_text(w, PB_SysStats_SlabInfo_name, name.pos, span_size(name));
        wire_uint(w, PB_SysStats_SlabInfo_pages_per_slab, (uint32_t)pages_per_slab);
        wire_uint(w, PB_SysStats_SlabInfo_num_slabs, (uint32_t)num_slabs);
        wire_end(w, mark);
    }
}
