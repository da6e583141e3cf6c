// SPDX-License-Identifier: Apache-2.0
//
// The counts that decide whether anything changed come from one cachestat; the counts of an exact
// result come from its runs. If pages move in between, the two disagree: the next look then finds
// changed counts, and probes again.
#include "producer/sources/residency/look.h"

#include "common/vec.h"

bool look_counts_equal(const struct residency_counts *a, const struct residency_counts *b)
{
    return a->pages == b->pages && a->cached == b->cached && a->dirty == b->dirty &&
           a->writeback == b->writeback && a->evicted == b->evicted &&
           a->recently_evicted == b->recently_evicted && a->has_cachestat == b->has_cachestat;
}

// Returns whether the counts give no sign of a page that came or went.
static bool seems_unchanged(const struct residency_counts *now, const struct look_memory *memory)
{
    const struct residency_counts *before = &memory->counts;
    return memory->has_runs && now->pages == before->pages && now->cached == before->cached &&
           now->evicted == before->evicted && now->recently_evicted == before->recently_evicted;
}

static enum look_result fail(struct look *look, int r)
{
    look->stage = LOOK_IDLE;
    if (r == RESIDENCY_E_UNKNOWN)
        return LOOK_UNKNOWN;
    look->error = -r;
    return LOOK_ERROR;
}

static bool spans(const struct page_ranges *ranges, uint64_t pages)
{
    return pages ? ranges->n == 1 && ranges->items[0].start == 0 && ranges->items[0].end == pages
                 : ranges->n == 0;
}

// Ends a look in which no page or all pages are resident: the count alone is exact.
static enum look_result finish_uniform(struct look *look, const struct look_memory *memory)
{
    uint64_t cached = look->counts.cached;
    if (memory->has_runs && spans(&memory->runs, cached))
        return LOOK_SAME;
    int r = page_ranges_append(&look->fresh, 0, cached);
    return r < 0 ? fail(look, r) : LOOK_RUNS;
}

static enum look_result walk(struct look *look, struct residency_probe *probe,
                             const struct look_options *options, int fd, nsec_t deadline)
{
    int r = residency_probe_walk(probe, fd, &look->walk, deadline, &look->fresh);
    if (r == RESIDENCY_E_AGAIN)
        return LOOK_AGAIN;
    if (r)
        return fail(look, r);
    look->stage = LOOK_IDLE;
    look->counts.cached = page_ranges_count(&look->fresh);
    return options->ranges ? LOOK_RUNS : LOOK_COUNTS;
}

static enum look_result begin_walk(struct look *look, struct residency_probe *probe,
                                   const struct look_options *options, int fd, nsec_t deadline)
{
    look->stage = LOOK_WALKING;
    look->walk = (struct residency_walk){.end = look->counts.pages};
    return walk(look, probe, options, fd, deadline);
}

// Continues a look with unchanged counts: verifies the runs, or skips the verification this time.
static enum look_result look_closer(struct look *look, struct residency_probe *probe,
                                    const struct look_options *options,
                                    const struct look_memory *memory, int fd, uint32_t stagger,
                                    nsec_t deadline)
{
    if (memory->runs.n <= LOOK_VERIFY_RUNS_MAX) {
        bool same;
        int r = residency_probe_verify(probe, fd, look->counts.cached, &memory->runs, &same);
        if (r)
            return fail(look, r);
        return same ? LOOK_SAME : begin_walk(look, probe, options, fd, deadline);
    }
    if ((memory->n_looks + stagger) % options->verify_every != 0)
        return LOOK_COUNTS;
    return begin_walk(look, probe, options, fd, deadline);
}

static enum look_result count(struct look *look, struct residency_probe *probe,
                              const struct look_options *options, const struct look_memory *memory,
                              int fd, uint32_t stagger, nsec_t deadline)
{
    int r = residency_probe_count(probe, fd, &look->next, deadline, &look->counts);
    if (r == RESIDENCY_E_AGAIN)
        return LOOK_AGAIN;
    if (r)
        return fail(look, r);
    look->stage = LOOK_IDLE;
    if (!options->ranges)
        return LOOK_COUNTS;
    if (look->counts.cached == 0 || look->counts.cached == look->counts.pages)
        return finish_uniform(look, memory);
    if (seems_unchanged(&look->counts, memory))
        return look_closer(look, probe, options, memory, fd, stagger, deadline);
    return begin_walk(look, probe, options, fd, deadline);
}

enum look_result look_step(struct look *look, struct residency_probe *probe,
                           const struct look_options *options, const struct look_memory *memory,
                           int fd, uint64_t pages, uint32_t stagger, nsec_t deadline)
{
    if (look->stage == LOOK_WALKING)
        return walk(look, probe, options, fd, deadline);
    if (look->stage == LOOK_IDLE) {
        bool counts = residency_has_cachestat(probe);
        look->started = nsec_now(CLOCK_BOOTTIME);
        look->counts = (struct residency_counts){.pages = pages, .has_cachestat = counts};
        page_ranges_clear(&look->fresh);
        if (!counts)
            return begin_walk(look, probe, options, fd, deadline);
        look->stage = LOOK_COUNTING;
        look->next = 0;
    }
    return count(look, probe, options, memory, fd, stagger, deadline);
}

void look_remember(struct look *look, enum look_result result, struct look_memory *memory)
{
    if (result == LOOK_AGAIN)
        return;
    memory->n_looks++;
    if (result == LOOK_UNKNOWN || result == LOOK_ERROR) {
        memory->has_runs = false;
        return;
    }
    if (result == LOOK_RUNS) {
        struct page_ranges before = memory->runs;
        memory->runs = look->fresh;
        look->fresh = before;
        memory->has_runs = true;
    }
    memory->counts = look->counts;
}

void look_cancel(struct look *look)
{
    look->stage = LOOK_IDLE;
}

void look_done(struct look *look)
{
    page_ranges_done(&look->fresh);
}

void look_memory_done(struct look_memory *memory)
{
    page_ranges_done(&memory->runs);
}
