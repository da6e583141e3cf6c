// SPDX-License-Identifier: Apache-2.0
//
// All pages cost the same, so the best choice is the pages of most worth, one by one. What a pin
// saves is the reads that bring a page back after it was evicted; so that is the worth, and pages
// that were read back come first. What is left of the quota goes to pages that were resident and
// never evicted, the longer the better: the kernel keeps them by itself, for as long as it can. At
// the end come pages that went and were not missed.
#include "producer/pintool/choice.h"

#include "common/cleanup.h"

struct candidate {
    float worth;
    uint32_t page;
};

VEC_DEFINE(candidates, struct candidate);

// Classes do not mix: what was read back is worth more than 1, what stayed at most 1, what went and
// was not missed at most half of that which stayed for one sample.
static float worth(const struct page_evidence *page, uint64_t n_samples)
{
    float share = n_samples ? (float)page->n_resident / (float)n_samples : 0;
    if (page->n_read_back)
        return 1 + page->reads;
    if (!page->n_evicted)
        return share;
    return n_samples ? share / (2 * (float)n_samples) : 0;
}

// The most worthy first; of equals, the first in the file.
static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth > y->worth ? -1 : 1;
    return (x->page > y->page) - (x->page < y->page);
}

static int gather(const struct evidence *evidence, struct candidates *ret)
{
    for (size_t i = 0; i < evidence->pages.n; i++) {
        struct candidate candidate = {worth(&evidence->pages.items[i], evidence->n_samples),
                                      (uint32_t)i};
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
    int r = gather(evidence, &candidates);
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
