// SPDX-License-Identifier: Apache-2.0
//
// One line per file, so that files can be compared: each bar has the same length, whatever the
// file's size. The bars are of ASCII characters, which look alike in every terminal, log and mail.
#include <inttypes.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/terminal.h"
#include "producer/pintool/report.h"

#define COLUMNS_DEFAULT 100
#define COLUMNS_BESIDE  52 // for numbers and a name beside the bar
#define BAR_MIN         16
#define BAR_MAX         256

static const char levels[] = ".:+*#";
#define FULL 4

static size_t bar_cells(void)
{
    size_t columns = terminal_columns(stdout);
    if (!columns)
        columns = COLUMNS_DEFAULT;
    if (columns < COLUMNS_BESIDE + BAR_MIN)
        return BAR_MIN;
    return columns - COLUMNS_BESIDE < BAR_MAX ? columns - COLUMNS_BESIDE : BAR_MAX;
}

static void format_size(uint64_t bytes, char *ret, size_t room)
{
    static const char units[] = "BKMGTPE";
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof(units) - 1; unit++)
        value /= 1024;
    if (unit == 0)
        snprintf(ret, room, "%" PRIu64 "B", bytes);
    else
        snprintf(ret, room, "%.1f%c", value, units[unit]);
}

static void print_line(struct report *report, const struct subject *subject,
                       const struct report_row *row)
{
    const struct part *part = &row->part;
    (void)report;
    char bar[BAR_MAX + 1], size[16];
    uint8_t cells[BAR_MAX];
    size_t n = bar_cells();
    bool unknown = subject->origin == PROBE_UNKNOWN;
    if (part->size_bytes && !unknown)
        density_levels(row->ranges, row->n_ranges, part->offset, part->size_bytes, FULL, n, cells);
    for (size_t i = 0; i < n; i++)
        bar[i] = unknown ? '?' : part->size_bytes ? levels[cells[i]] : ' ';
    bar[n] = '\0';
    format_size(part->size_bytes, size, sizeof(size));
    char name_text[REPORT_NAME_MAX];
    const char *name = report_name(name_text, part->name);
    printf("%s[%s] ", row->is_entry ? "  " : "", bar);
    if (unknown)
        fputs("unknown", stdout);
    else
        printf("%6.1f%%", coverage_percent(row->covered_bytes, part->size_bytes));
    printf(" %8s  %s\n", size, name);
}

static void map_subject(struct report *report, const struct subject *subject)
{
    report_rows(report, subject, print_line);
}

void report_rows(struct report *report, const struct subject *subject,
                 void (*row)(struct report *report, const struct subject *subject,
                             const struct report_row *row))
{
    const struct report_row whole = {
        .part = {.name = subject->target->path, .size_bytes = subject->size_bytes},
        .ranges = subject->resident.items,
        .n_ranges = subject->resident.n,
        .covered_bytes = subject->resident_bytes,
    };
    const struct coverages *list =
        report->options->pinconfig ? &subject->filtered : &subject->entries;
    if (subject->origin != PROBE_NONE)
        row(report, subject, &whole);
    if (!report->options->zip)
        return;
    vec_foreach(&list->items, item)
        row(report, subject,
            &(struct report_row){item->part, coverage_ranges(list, item), item->n_ranges,
                                 item->covered_bytes, true});
}

const struct report_kind report_map = {.subject = map_subject};
