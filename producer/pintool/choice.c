// SPDX-License-Identifier: Apache-2.0
//
// A pin saves the reads that bring a page back after an eviction. A pin costs room: while the page
// would have been evicted, other pages used its place, and these are now read more often. The value
// of a page is therefore
//
//     its reads  -  price * the share of the time for which it was evicted
//
// The price is the number of reads that one page more or less of cache makes. The recording shows
// this price. If the cache had been larger by the quota, each page would have stayed longer, by the
// time in which the kernel evicts as much as the quota. All reads of pages that had been evicted
// for a shorter time would have been saved. Under a cyclic scan, pages come back, but none of them
// soon, and the price is zero. (For pages used at random the price is also right: the price is the
// use of the pages at the edge of the cache.)
//
// A page without positive value is not pinned, because the pin would do harm. The rest of the quota
// goes to pages that were never evicted, and that have stayed LONG_STAYS times as long as unused
// pages stay, according to the evictions. These pages must be in use, so pinning them takes no room
// from others, and keeps them if the pressure grows.
#include "producer/pintool/choice.h"

#include "common/cleanup.h"

#define LONG_STAYS 2

struct candidate {
    float worth;
    uint32_t page;
};

VEC_DEFINE(candidates, struct candidate);

// Properties of all pages.
struct market {
    double price; // reads, for a page that is evicted all the time
    double stay;  // seconds from arrival to eviction
};

static struct market market_of(const struct evidence *evidence, uint64_t n_max)
{
    struct market market = {0};
    if (evidence->n_stays > 0)
        market.stay = evidence->stays_s / evidence->n_stays;
    if (evidence->n_evictions > 0 && n_max > 0) {
        double longer = evidence_seconds(evidence) * (double)n_max / evidence->n_evictions;
        market.price = evidence_reads_within(evidence, longer) / (double)n_max;
    }
    return market;
}

// For pages that stayed the value is at most 0.001: less than any read that was saved.
static double worth(const struct evidence *evidence, const struct market *market, size_t i)
{
    const struct page_evidence *page = &evidence->pages.items[i];
    double seconds = evidence_seconds(evidence);
    if (!page->n_evicted) {
        double stay = evidence_stay_seconds(evidence, i);
        bool used = stay > LONG_STAYS * market->stay;
        return used && seconds > 0 ? 0.001 * stay / seconds : 0;
    }
    if (!page->n_read_back)
        return 0;
    double gone = seconds > 0 ? (double)page->gone_s / seconds : 0;
    double net = (double)page->reads - market->price * gone;
    return net > 0 ? 0.001 + net : 0;
}

// Highest value first; of equal values, the first in the file.
static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth > y->worth ? -1 : 1;
    return (x->page > y->page) - (x->page < y->page);
}

static int gather(const struct evidence *evidence, uint64_t n_max, struct candidates *ret)
{
    struct market market = market_of(evidence, n_max);
    for (size_t i = 0; i < evidence->pages.n; i++) {
        double value = worth(evidence, &market, i);
        struct candidate candidate = {(float)value, (uint32_t)i};
        int r = candidate.worth > 0 ? candidates_push(ret, candidate) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

int choice_make(const struct evidence *evidence, uint64_t n_max, struct page_ranges *ret)
{
    CLEANUP(candidates_done) struct candidates candidates = {0};
    page_ranges_clear(ret);
    int r = gather(evidence, n_max, &candidates);
    if (r < 0)
        return r;
    if (candidates.n)
        qsort(candidates.items, candidates.n, sizeof(*candidates.items), compare);
    if (candidates.n > n_max)
        candidates.n = (size_t)n_max;
    vec_foreach(&candidates, candidate) {
        struct page_range page = {candidate->page, (uint64_t)candidate->page + 1};
        r = page_ranges_push(ret, page);
        if (r < 0)
            return r;
    }
    page_ranges_normalize(ret);
    return 0;
}

struct choice_sum choice_sum(const struct evidence *evidence, const struct page_range *range)
{
    struct choice_sum sum = {0};
    for (uint64_t i = range->start; i < range->end && i < evidence->pages.n; i++) {
        const struct page_evidence *page = &evidence->pages.items[i];
        sum.n_resident += page->n_resident;
        sum.n_evicted += page->n_evicted;
        sum.n_read_back += page->n_read_back;
        sum.reads += (double)page->reads;
    }
    return sum;
}
