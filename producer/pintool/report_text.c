// SPDX-License-Identifier: Apache-2.0
//
// Prints the same lines as Android's tool, because scripts parse them: the same headings, empty
// lines, and numbers with six digits. Additional data come after these fields on the line, or on
// lines of their own. Names come from untrusted zips, so control characters are not printed to the
// terminal.
#include <inttypes.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "producer/pintool/report.h"

const char *report_name(char ret[static REPORT_NAME_MAX], const char *name)
{
    snprintf(ret, REPORT_NAME_MAX, "%s", name);
    str_make_printable(ret, false);
    return ret;
}

static void print_head(const char *name, uint64_t size, uint64_t covered, bool unknown)
{
    char printable_text[REPORT_NAME_MAX];
    const char *printable = report_name(printable_text, name);
    printf("%s size(B)=%" PRIu64, printable, size);
    if (unknown)
        fputs(" resident(B)=unknown resident(%)=unknown", stdout);
    else
        printf(" resident(B)=%" PRIu64 " resident(%%)=%g", covered,
               coverage_percent(covered, size));
}

static void print_file_ranges(const struct page_ranges *ranges)
{
    vec_foreach(ranges, range)
        printf("file_offset=%" PRIu64 " total_bytes=%" PRIu64 "\n", range->start,
               range->end - range->start);
}

static void print_file(const struct report *report, const struct subject *subject)
{
    bool unknown = subject->origin == PROBE_UNKNOWN;
    print_head(subject->target->path, subject->size_bytes, subject->resident_bytes, unknown);
    if (subject->target->by_process) {
        printf(" mapped(B)=%" PRIu64, subject->mapped_bytes);
        if (unknown)
            fputs(" mapped_resident(B)=unknown", stdout);
        else
            printf(" mapped_resident(B)=%" PRIu64, subject->mapped_resident_bytes);
    }
    putchar('\n');
    if (!subject->target->named && !report->options->dump)
        return;
    if (subject->target->by_process) {
        puts("file mapped ranges");
        print_file_ranges(&subject->mapped);
    }
    puts("file resident ranges");
    print_file_ranges(&subject->resident);
    fputs("\n\n", stdout);
}

static void print_entries(const struct report *report, const struct subject *subject,
                          const struct coverages *entries)
{
    vec_foreach(&entries->items, item) {
        print_head(item->part.name, item->part.size_bytes, item->covered_bytes,
                   subject->origin == PROBE_UNKNOWN);
        putchar('\n');
        if (report->options->verbose)
            printf("file_base_zip_offset=%" PRIu64 "\n", item->part.offset);
        puts("file resident ranges");
        const struct page_range *ranges = coverage_ranges(entries, item);
        for (size_t i = 0; i < item->n_ranges; i++)
            printf("zip_offset=%" PRIu64 " file_offset=%" PRIu64 " total_bytes=%" PRIu64 "\n",
                   ranges[i].start, ranges[i].start - item->part.offset,
                   ranges[i].end - ranges[i].start);
        putchar('\n');
    }
    putchar('\n');
}

static void print_found(const struct subject *subject)
{
    vec_foreach(&subject->zip.entries, entry) {
        char name_text[REPORT_NAME_MAX];
        const char *name = report_name(name_text, entry->name);
        printf("file found. name=%s offset=%" PRIu64 " uncompressed=%" PRIu64 " compressed=%" PRIu64
               "\n\n",
               name, entry->offset, entry->uncompressed_bytes, entry->size_bytes);
    }
}

static void print_probe(const struct report_options *options)
{
    if (options->use_probe)
        printf("Using custom probe file: %s\n", options->use_probe);
    else if (options->gen_probe)
        puts("Generating probe");
}

static void print_pinconfig(const struct report_options *options)
{
    const struct pinconfig *config = options->pinconfig;
    printf("Parsing file: %s\nFinished parsing Pinconfig file\n", options->pinconfig_path);
    vec_foreach(&config->files, file) {
        char pattern_text[REPORT_NAME_MAX];
        const char *pattern = report_name(pattern_text, file->pattern);
        printf("file=%s\n", pattern);
        const struct pinconfig_range *ranges = config->ranges.items + file->first_range;
        for (size_t i = 0; i < file->n_ranges; i++)
            printf("offset=%" PRIu64 " bytes=%" PRIu64 "\n", ranges[i].offset, ranges[i].length);
    }
}

static void print_match(const struct report_options *options, const struct part *part)
{
    char name_text[REPORT_NAME_MAX];
    const char *name = report_name(name_text, part->name);
    char pattern_text[REPORT_NAME_MAX];
    const char *pattern = report_name(pattern_text, part->wanted_by->pattern);
    if (!part->wanted_by->n_ranges)
        printf("No ranges found for file %s creating entire file range\n", name);
    if (!options->verbose)
        return;
    printf("Found a match: file=%s matching filter=%s\n", name, pattern);
    CLEANUP(page_ranges_done) struct page_ranges wanted = {0};
    pinconfig_select(options->pinconfig, part->wanted_by, part->offset, part->size_bytes, &wanted);
    vec_foreach(&wanted, range)
        printf("zip_offset=%" PRIu64 " bytes=%" PRIu64 "\n", range->start,
               range->end - range->start);
}

static void text_subject(struct report *report, const struct subject *subject)
{
    const struct report_options *options = report->options;
    if (!options->zip) {
        print_file(report, subject);
        return;
    }
    if (options->verbose) {
        print_probe(options);
        print_found(subject);
    }
    if (options->verbose && options->pinconfig)
        print_pinconfig(options);
    vec_foreach(&subject->filtered.items, item)
        print_match(options, &item->part);
    if (!options->dump)
        return;
    fputs("\n----Unfiltered file coverages----\n\n", stdout);
    print_entries(report, subject, &subject->entries);
    if (options->pinconfig) {
        fputs("\n----Filtered file coverages----\n\n", stdout);
        print_entries(report, subject, &subject->filtered);
    }
}

static void text_pinlist(struct report *report, const char *path, const struct pinlist *list)
{
    if (report->options->verbose && report->options->zip)
        puts(report->options->pinconfig ? "Writing pinconfig filtered file coverages"
                                        : "Writing regular file coverages.");
    vec_foreach(list, range)
        printf("Pinlist Writing start=%" PRIu32 " bytes=%" PRIu32 "\n", range->offset,
               range->length);
    if (report->options->verbose)
        printf("Finished writing pin file at: %s\n", path);
}

const struct report_kind report_text = {.subject = text_subject, .pinlist = text_pinlist};
