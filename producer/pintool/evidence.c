// SPDX-License-Identifier: Apache-2.0
//
// A read is what a pinned page saves, and one read brings many pages: so each page of a read gets
// its share, and the shares of a file add up to its reads. The page cache's events come one for
// each folio, without its size. Read-ahead adds folio after folio within a microsecond or so; a
// fault that follows another has at least a page table in between, and usually the disk. Hence a
// read is a chain of folios that follow one another in the file within BATCH_NS, and a folio ends
// where the next one of its chain begins.
#include "producer/pintool/evidence.h"

#include <errno.h>
#include <stdbool.h>

#define BATCH_NS        ((nsec_t)10000)
#define FOLIO_PAGES_MAX 512 // as far as a gap in a chain is taken for a folio
#define READ_PAGES      32  // what one read of unknown origin brings: 128 KiB, the kernel's default

int evidence_new(uint64_t n_pages, struct evidence *ret)
{
    *ret = (struct evidence){0};
    if (n_pages > EVIDENCE_PAGES_MAX)
        return -EFBIG;
    if (!n_pages)
        return 0;
    ret->pages.items = calloc(n_pages, sizeof(*ret->pages.items));
    if (!ret->pages.items)
        return -ENOMEM;
    ret->pages.n = ret->pages.capacity = n_pages;
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

// The pages [start, end) came by one read.
static void count_read(struct evidence *evidence, uint64_t start, uint64_t end)
{
    uint64_t n_back = 0;
    end = clip(evidence, end);
    for (uint64_t i = start; i < end; i++)
        n_back += evidence->pages.items[i].gone;
    if (!n_back)
        return;
    evidence->n_reads += 1;
    for (uint64_t i = start; i < end; i++) {
        struct page_evidence *page = &evidence->pages.items[i];
        if (!page->gone)
            continue;
        page->gone = 0;
        page->n_read_back++;
        page->reads += 1.0f / (float)n_back;
    }
}

void evidence_came(struct evidence *evidence, uint64_t start, uint64_t end)
{
    end = clip(evidence, end);
    for (uint64_t from = start; from < end;) {
        uint64_t to = (from / READ_PAGES + 1) * READ_PAGES;
        to = to < end ? to : end;
        count_read(evidence, from, to);
        from = to;
    }
}

void evidence_went(struct evidence *evidence, uint64_t start, uint64_t end)
{
    end = clip(evidence, end);
    for (uint64_t i = start; i < end; i++) {
        struct page_evidence *page = &evidence->pages.items[i];
        page->n_evicted += !page->gone;
        page->gone = 1;
    }
}

// A gap that can be a folio: a power of two, and aligned to itself.
static bool is_folio(uint64_t start, uint64_t pages)
{
    return pages && pages <= FOLIO_PAGES_MAX && !(pages & (pages - 1)) && start % pages == 0;
}

void evidence_flush(struct evidence *evidence)
{
    struct read_batch *batch = &evidence->batch;
    if (batch->end > batch->start)
        count_read(evidence, batch->start, batch->end);
    *batch = (struct read_batch){0};
}

static void set_folio(struct evidence *evidence, uint64_t page, uint64_t n)
{
    if (page < evidence->pages.n)
        evidence->pages.items[page].folio_pages = (uint16_t)n;
}

void evidence_added(struct evidence *evidence, nsec_t ts, uint64_t page)
{
    struct read_batch *batch = &evidence->batch;
    uint64_t gap = page > batch->last ? page - batch->last : 0;
    bool follows =
        batch->end > batch->start && ts - batch->ts <= BATCH_NS && is_folio(batch->last, gap);
    if (!follows)
        evidence_flush(evidence);
    if (follows)
        set_folio(evidence, batch->last, gap);
    else
        batch->start = page;
    // What the last folio of a chain holds is not seen: its neighbour's size is the best guess.
    uint64_t size = follows && is_folio(page, gap) ? gap : 1;
    set_folio(evidence, page, size);
    batch->last = page;
    batch->end = page + size;
    batch->ts = ts;
}

void evidence_deleted(struct evidence *evidence, uint64_t page)
{
    if (page >= evidence->pages.n)
        return;
    if (page >= evidence->batch.start && page < evidence->batch.end)
        evidence_flush(evidence);
    uint64_t n = evidence->pages.items[page].folio_pages;
    evidence_went(evidence, page, page + (n ? n : 1));
}
