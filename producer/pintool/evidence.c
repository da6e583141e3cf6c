// SPDX-License-Identifier: Apache-2.0
//
// A pinned page saves reads, and one read brings many pages: each page of a read gets a share, and
// the shares of a file add up to its reads. The page cache has one event per folio, without the
// folio's size. Read-ahead adds folios about a microsecond apart. A fault that follows another is
// at least 2 us later, plus the time of the disk if it is used. Hence a read is a chain of folios
// that follow one another in the file within BATCH_NS, and a folio ends where the next folio of its
// chain begins.
#include "producer/pintool/evidence.h"

#include <errno.h>

#define BATCH_NS        2000u
#define FOLIO_PAGES_MAX 512 // larger gaps in a chain are not taken for a folio
#define TICK_NS         ((nsec_t)100000)
#define READ_PAGES      32 // pages of a read of unknown origin: 128 KiB, the kernel's default

int evidence_new(uint64_t n_pages, struct evidence *ret)
{
    if (n_pages > EVIDENCE_PAGES_MAX)
        return -EFBIG;
    struct page_evidence *pages = n_pages ? calloc(n_pages, sizeof(*pages)) : NULL;
    if (n_pages && !pages)
        return -ENOMEM;
    *ret = (struct evidence){.pages = {.items = pages, .n = n_pages, .capacity = n_pages}};
    return 0;
}

void evidence_done(struct evidence *evidence)
{
    page_evidences_done(&evidence->pages);
}

static uint64_t clip(const struct evidence *evidence, uint64_t end)
{
    return end < evidence->pages.n ? end : evidence->pages.n;
}

void evidence_resident(struct evidence *evidence, uint64_t start, uint64_t end, uint32_t n_samples)
{
    end = clip(evidence, end);
    for (uint64_t i = start; i < end; i++)
        evidence->pages.items[i].n_resident += n_samples;
}

// Returns the ticks from the first event to the time `ts`; 32 bits last for 119 hours.
static uint32_t tick(struct evidence *evidence, nsec_t ts)
{
    if (!evidence->has_ts)
        evidence->first_ts = evidence->last_ts = ts;
    evidence->has_ts = true;
    if (ts > evidence->last_ts)
        evidence->last_ts = ts;
    uint64_t passed = (uint64_t)ts - (uint64_t)evidence->first_ts; // cannot overflow for any ts
    uint64_t ticks = ts > evidence->first_ts ? passed / (uint64_t)TICK_NS : 0;
    return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

static float seconds_since(const struct page_evidence *page, uint32_t now)
{
    uint32_t ticks = now > page->since ? now - page->since : 0;
    return (float)((double)ticks * (double)TICK_NS / (double)NSEC_PER_SEC);
}

// Returns the bucket of an absence of `ticks`: there are four buckets per power of two.
static unsigned bucket_of(uint32_t ticks)
{
    if (ticks < 4)
        return ticks;
    unsigned magnitude = 31 - (unsigned)__builtin_clz(ticks);
    return 4 * (magnitude - 1) + (ticks >> (magnitude - 2) & 3);
}

// Counts one read that brought the pages [start, end).
static void count_read(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end)
{
    uint32_t now = tick(evidence, ts);
    uint64_t n_back = 0;
    end = clip(evidence, end);
    for (uint64_t i = start; i < end; i++)
        n_back += evidence->pages.items[i].gone;
    evidence->n_reads += n_back > 0;
    for (uint64_t i = start; i < end; i++) {
        struct page_evidence *page = &evidence->pages.items[i];
        bool gone = page->gone;
        if (gone) {
            page->gone_s += seconds_since(page, now);
            uint32_t ticks = now > page->since ? now - page->since : 0;
            evidence->gone_reads[bucket_of(ticks)] += 1.0 / (double)n_back;
        }
        page->gone = 0;
        page->came = 1;
        page->since = now;
        if (!gone)
            continue;
        page->n_read_back++;
        page->reads += 1.0f / (float)n_back;
    }
}

static void flush(struct evidence *evidence)
{
    struct read_batch *batch = &evidence->batch;
    if (batch->end > batch->start)
        count_read(evidence, batch->ts, batch->start, batch->end);
    *batch = (struct read_batch){0};
}

void evidence_came(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end)
{
    flush(evidence);
    end = clip(evidence, end);
    for (uint64_t from = start; from < end;) {
        uint64_t to = (from / READ_PAGES + 1) * READ_PAGES;
        to = to < end ? to : end;
        count_read(evidence, ts, from, to);
        from = to;
    }
}

static void leave(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end)
{
    uint32_t now = tick(evidence, ts);
    end = clip(evidence, end);
    for (uint64_t i = start; i < end; i++) {
        struct page_evidence *page = &evidence->pages.items[i];
        if (page->gone)
            continue;
        if (page->came) {
            evidence->stays_s += (double)seconds_since(page, now);
            evidence->n_stays++;
        }
        page->came = 0;
        page->gone = 1;
        page->since = now;
        page->n_evicted++;
        evidence->n_evictions++;
    }
}

void evidence_went(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end)
{
    flush(evidence);
    leave(evidence, ts, start, end);
}

// Returns whether a gap can be a folio: a power of two, aligned to its size.
static bool is_folio(uint64_t start, uint64_t pages)
{
    return pages && pages <= FOLIO_PAGES_MAX && !(pages & (pages - 1)) && start % pages == 0;
}

static void set_folio(struct evidence *evidence, uint64_t page, uint64_t n)
{
    if (page < evidence->pages.n)
        evidence->pages.items[page].folio_pages = (uint16_t)n;
}

void evidence_added(struct evidence *evidence, nsec_t ts, uint64_t page)
{
    struct read_batch *batch = &evidence->batch;
    tick(evidence, ts);
    uint64_t gap = page > batch->last ? page - batch->last : 0;
    bool follows = batch->end > batch->start && (uint64_t)ts - (uint64_t)batch->ts <= BATCH_NS &&
                   is_folio(batch->last, gap);
    if (!follows)
        flush(evidence);
    if (follows)
        set_folio(evidence, batch->last, gap);
    else
        batch->start = page;
    // The size of the last folio of a chain is unknown: its neighbour's size is the best estimate.
    uint64_t size = follows && is_folio(page, gap) ? gap : 1;
    set_folio(evidence, page, size);
    batch->last = page;
    batch->end = page + size;
    batch->ts = ts;
}

void evidence_deleted(struct evidence *evidence, nsec_t ts, uint64_t page)
{
    if (page >= evidence->pages.n)
        return;
    if (page >= evidence->batch.start && page < evidence->batch.end)
        flush(evidence);
    uint64_t n = evidence->pages.items[page].folio_pages;
    leave(evidence, ts, page, page + (n ? n : 1));
}

void evidence_end(struct evidence *evidence)
{
    flush(evidence);
    uint32_t now = tick(evidence, evidence->last_ts);
    vec_foreach(&evidence->pages, page)
        if (page->gone)
            page->gone_s += seconds_since(page, now);
}

double evidence_stay_seconds(const struct evidence *evidence, uint64_t page)
{
    const struct page_evidence *p = &evidence->pages.items[page];
    double seconds = evidence_seconds(evidence);
    if (p->came)
        return seconds - (double)p->since * (double)TICK_NS / (double)NSEC_PER_SEC;
    if (p->gone || !evidence->n_samples)
        return 0;
    return seconds * (double)p->n_resident / (double)evidence->n_samples;
}

double evidence_seconds(const struct evidence *evidence)
{
    return ((double)evidence->last_ts - (double)evidence->first_ts) / (double)NSEC_PER_SEC;
}

double evidence_reads_within(const struct evidence *evidence, double seconds)
{
    double ticks = seconds * (double)NSEC_PER_SEC / (double)TICK_NS, reads = 0;
    unsigned end = bucket_of(ticks < (double)UINT32_MAX ? (uint32_t)ticks : UINT32_MAX);
    for (unsigned i = 0; i < end; i++)
        reads += evidence->gone_reads[i];
    return reads;
}
