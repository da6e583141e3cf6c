// SPDX-License-Identifier: Apache-2.0
//
// The probe comes first: pages that are read from a zip afterwards must not count as resident.
//
// After the probe, all ranges are bytes, clipped to the file: the last page counts for as many
// bytes as the file has there, and nothing exceeds 100 %.
#include "producer/pintool/pin_subject.h"

#include <errno.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/pintool/zip_source.h"

// Cuts sorted byte ranges at `size_bytes`, in place.
static void clip(struct page_ranges *ranges, uint64_t size_bytes)
{
    while (ranges->n && ranges->items[ranges->n - 1].start >= size_bytes)
        ranges->n--;
    if (ranges->n && ranges->items[ranges->n - 1].end > size_bytes)
        ranges->items[ranges->n - 1].end = size_bytes;
}

void subject_pages_to_bytes(struct page_ranges *ranges, uint64_t page_size, uint64_t size_bytes)
{
    vec_foreach(ranges, range) {
        range->start *= page_size;
        range->end *= page_size;
    }
    clip(ranges, size_bytes);
}

static int copy(const struct page_ranges *from, struct page_ranges *to)
{
    page_ranges_clear(to);
    int r = page_ranges_reserve(to, from->n);
    vec_foreach(from, range) {
        if (r == 0)
            r = page_ranges_push(to, *range);
    }
    return r;
}

static int look_at_cache(struct subject *subject, const struct subject_plan *plan, int fd)
{
    int r = residency_probe_ranges(plan->probe, fd, &subject->counts, &subject->resident);
    if (r == RESIDENCY_E_UNKNOWN) {
        subject->origin = PROBE_UNKNOWN;
        page_ranges_clear(&subject->resident);
        return 0;
    }
    if (r == 0 && plan->counts && residency_has_cachestat(plan->probe)) {
        uint64_t cached = subject->counts.cached; // pages of the ranges themselves
        r = residency_probe_counts(plan->probe, fd, subject->counts.pages, &subject->counts);
        subject->counts.cached = cached;
    }
    subject_pages_to_bytes(&subject->resident, residency_page_size(plan->probe),
                           subject->size_bytes);
    return r > 0 ? -EIO : r;
}

static int look(struct subject *subject, const struct subject_plan *plan, int fd)
{
    int r = 0;
    if (plan->origin == PROBE_CACHE)
        r = look_at_cache(subject, plan, fd);
    if (plan->origin == PROBE_PINLIST) {
        r = copy(plan->listed, &subject->resident);
        clip(&subject->resident, subject->size_bytes);
    }
    subject->resident_bytes = page_ranges_count(&subject->resident);
    if (plan->origin == PROBE_PINLIST)
        subject->beyond_bytes = page_ranges_count(plan->listed) - subject->resident_bytes;
    if (subject->beyond_bytes < residency_page_size(plan->probe)) // the rest of the last page
        subject->beyond_bytes = 0;
    if (r < 0 || !subject->target->by_process)
        return r;
    CLEANUP(page_ranges_done) struct page_ranges both = {0};
    r = copy(&subject->target->mapped, &subject->mapped);
    clip(&subject->mapped, subject->size_bytes);
    if (r == 0)
        r = page_ranges_and(&subject->mapped, &subject->resident, &both);
    subject->mapped_bytes = page_ranges_count(&subject->mapped);
    subject->mapped_resident_bytes = page_ranges_count(&both);
    return r;
}

static int cover_entries(struct subject *subject, const struct subject_plan *plan)
{
    CLEANUP(page_ranges_done) struct page_ranges wanted = {0};
    const struct page_ranges *set = plan->origin == PROBE_NONE ? NULL : &subject->resident;
    vec_foreach(&subject->zip.entries, entry) {
        struct part part = {.name = entry->name,
                            .offset = entry->offset,
                            .size_bytes = entry->size_bytes,
                            .uncompressed_bytes = entry->uncompressed_bytes,
                            .method = entry->method};
        int r = coverages_add(&subject->entries, &part, set);
        const struct pinconfig_file *file =
            plan->pinconfig ? pinconfig_match(plan->pinconfig, entry->name) : NULL;
        if (r == 0 && file)
            r = pinconfig_select(plan->pinconfig, file, part.offset, part.size_bytes, &wanted);
        part.wanted_by = file;
        if (r == 0 && file)
            r = coverages_add_wanted(&subject->filtered, &part, &wanted, set);
        if (r < 0)
            return r;
    }
    return 0;
}

int subject_look(const struct target *target, const struct subject_plan *plan, struct subject *ret,
                 struct err *err)
{
    CLEANUP(close_fdp) int fd = -1;
    CLEANUP(subject_done) struct subject subject = {.target = target, .origin = plan->origin};
    struct stat st;
    int r = target_open(target, &fd, &st);
    if (r == -EINVAL)
        return err_set(err, r, "%s: not a regular file", target->path);
    if (r == -ESTALE)
        return err_set(err, r, "%s: the process maps an older file of this name", target->path);
    if (r < 0)
        return err_errno(err, r, "%s", target->path);
    subject.size_bytes = (uint64_t)st.st_size;
    r = look(&subject, plan, fd);
    if (r < 0)
        return err_errno(err, r, "%s", target->path);
    if (plan->zip) {
        r = zip_source_index(plan->probe, fd, subject.size_bytes, target->path, &subject.zip, err);
        if (r < 0)
            return r;
        if (cover_entries(&subject, plan) < 0)
            return err_errno(err, -ENOMEM, "%s", target->path);
    }
    *ret = subject;
    subject = (struct subject){0};
    return 0;
}

void subject_done(struct subject *subject)
{
    page_ranges_done(&subject->resident);
    page_ranges_done(&subject->mapped);
    zipindex_done(&subject->zip);
    coverages_done(&subject->entries);
    coverages_done(&subject->filtered);
}
