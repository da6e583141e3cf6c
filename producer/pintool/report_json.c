// SPDX-License-Identifier: Apache-2.0
//
// One object with "files", and "pinlist" if one was made. Numbers that the kernel does not tell are
// null, so that no reader takes them for numbers.
#include "producer/pintool/report.h"

static const char *const origins[] = {
    [PROBE_NONE] = "none",
    [PROBE_CACHE] = "cache",
    [PROBE_PINLIST] = "pinlist",
    [PROBE_UNKNOWN] = "unknown",
};

static void put_resident(struct json *json, const struct subject *subject, uint64_t covered,
                         uint64_t size)
{
    if (subject->origin == PROBE_UNKNOWN) {
        json_null(json, "resident_bytes");
        json_null(json, "resident_percent");
        return;
    }
    json_u64(json, "resident_bytes", covered);
    json_double(json, "resident_percent", coverage_percent(covered, size));
}

static void put_ranges(struct json *json, const char *key, const struct page_ranges *ranges)
{
    json_array_begin(json, key);
    vec_foreach(ranges, range)
        json_range(json, "file_offset", range->start, range->end - range->start);
    json_array_end(json);
}

static void put_entry(struct json *json, const struct subject *subject,
                      const struct coverages *list, const struct coverage *item)
{
    json_object_begin(json, NULL);
    json_text(json, "name", item->part.name);
    json_u64(json, "zip_offset", item->part.offset);
    json_u64(json, "size_bytes", item->part.size_bytes);
    json_u64(json, "uncompressed_bytes", item->part.uncompressed_bytes);
    json_u64(json, "method", item->part.method);
    put_resident(json, subject, item->covered_bytes, item->part.size_bytes);
    json_array_begin(json, "ranges");
    const struct page_range *ranges = coverage_ranges(list, item);
    for (size_t i = 0; i < item->n_ranges; i++) {
        json_object_begin(json, NULL);
        json_u64(json, "zip_offset", ranges[i].start);
        json_u64(json, "file_offset", ranges[i].start - item->part.offset);
        json_u64(json, "bytes", ranges[i].end - ranges[i].start);
        json_object_end(json);
    }
    json_array_end(json);
    json_object_end(json);
}

static void put_entries(struct json *json, const char *key, const struct subject *subject,
                        const struct coverages *list)
{
    json_array_begin(json, key);
    vec_foreach(&list->items, item)
        put_entry(json, subject, list, item);
    json_array_end(json);
}

static void put_counts(struct json *json, const struct residency_counts *counts)
{
    json_object_begin(json, "pages");
    json_u64(json, "total", counts->pages);
    json_u64(json, "cached", counts->cached);
    if (counts->has_cachestat) {
        json_u64(json, "dirty", counts->dirty);
        json_u64(json, "writeback", counts->writeback);
        json_u64(json, "evicted", counts->evicted);
        json_u64(json, "recently_evicted", counts->recently_evicted);
    }
    json_object_end(json);
}

static void json_report_begin(struct report *report)
{
    report->json = (struct json){.out = stdout};
    json_object_begin(&report->json, NULL);
    json_array_begin(&report->json, "files");
}

static void json_report_subject(struct report *report, const struct subject *subject)
{
    struct json *json = &report->json;
    json_object_begin(json, NULL);
    json_text(json, "path", subject->target->path);
    json_u64(json, "size_bytes", subject->size_bytes);
    json_text(json, "probe", origins[subject->origin]);
    if (subject->origin != PROBE_NONE)
        put_resident(json, subject, subject->resident_bytes, subject->size_bytes);
    if (subject->origin == PROBE_CACHE)
        put_counts(json, &subject->counts);
    if (subject->target->by_process) {
        json_u64(json, "mapped_bytes", subject->mapped_bytes);
        if (subject->origin == PROBE_UNKNOWN)
            json_null(json, "mapped_resident_bytes");
        else
            json_u64(json, "mapped_resident_bytes", subject->mapped_resident_bytes);
        put_ranges(json, "mapped_ranges", &subject->mapped);
    }
    if (subject->origin != PROBE_NONE)
        put_ranges(json, "ranges", &subject->resident);
    if (report->options->zip)
        put_entries(json, "entries", subject, &subject->entries);
    if (report->options->pinconfig)
        put_entries(json, "filtered", subject, &subject->filtered);
    json_object_end(json);
}

// A pinlist means that there is exactly one subject, so the files are complete.
static void json_report_pinlist(struct report *report, const char *path, const struct pinlist *list)
{
    json_array_end(&report->json);
    json_pinlist(&report->json, "pinlist", path, list);
}

static int json_report_end(struct report *report, struct err *err)
{
    (void)err;
    if (report->json.depth == 2)
        json_array_end(&report->json);
    json_object_end(&report->json);
    return 0;
}

const struct report_kind report_json = {
    .begin = json_report_begin,
    .subject = json_report_subject,
    .pinlist = json_report_pinlist,
    .end = json_report_end,
};
