// SPDX-License-Identifier: Apache-2.0
//
// Which pages of an open file are in the page cache, exactly and cheaply. Knows nothing of data
// sources or traces; pintool uses it, too. Looks, never touches: no page is read in, no access
// time moves (open with residency_open()), a file that shrinks meanwhile raises no SIGBUS.
//
//     CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
//     r = residency_probe_new(RESIDENCY_AUTO, &probe);
//     r = residency_open(AT_FDCWD, path, &fd, &st);
//     r = residency_probe_ranges(probe, fd, &counts, &ranges);
//
// What "resident" means: the page cache holds the page. A page that is being read in at that very
// moment counts as resident for cachestat(2) and not for mincore(2); at rest both agree.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/ranges.h"

// The kernel does not tell this caller, who neither owns the file nor may write to it (or the file
// lies on hugetlbfs). Any answer, "all resident" above all, would be made up.
#define RESIDENCY_E_UNKNOWN 1
// residency_probe_walk() stopped at its deadline; call again to go on.
#define RESIDENCY_E_AGAIN 2

enum residency_method {
    RESIDENCY_AUTO,      // cachestat(2) first, mincore(2) for small mixed ranges or if it is all
                         // there is
    RESIDENCY_MINCORE,   // mincore only, as on kernels before 6.5
    RESIDENCY_CACHESTAT, // cachestat only, down to single pages
};

struct residency_counts {
    uint64_t pages; // of the file, its size rounded up
    uint64_t cached;
    // What only cachestat counts; zero unless `has_cachestat`. One look at the whole file.
    uint64_t dirty, writeback, evicted, recently_evicted;
    bool has_cachestat;
};

// System calls since the probe was made: what a bench or a test wants to see.
struct residency_probe_stats {
    uint64_t n_cachestats, n_mincores, n_mincore_pages, n_mmaps;
};

struct residency_probe;

// -ENOMEM, or -ENOSYS if RESIDENCY_CACHESTAT is asked for and missing. Memory is constant: about
// 20 KiB, and address space for one window of the file while a walk runs.
int residency_probe_new(enum residency_method method, struct residency_probe **ret);
struct residency_probe *residency_probe_free(struct residency_probe *probe);
DEFINE_CLEANUP(residency_probe_freep, struct residency_probe, residency_probe_free);

size_t residency_page_size(const struct residency_probe *probe); // bytes
bool residency_has_cachestat(const struct residency_probe *probe);
void residency_probe_get_stats(const struct residency_probe *probe,
                               struct residency_probe_stats *ret);

// Opens a regular file for probing: read-only, O_NOATIME where allowed, never blocking on a fifo, a
// device or a lease, without side effects on what is no regular file. `ret_stat` may be NULL. The
// caller closes *ret_fd. -EINVAL: not a regular file; otherwise open's errno.
int residency_open(int dir_fd, const char *path, int *ret_fd, struct stat *ret_stat);

// Counts of the first `pages` pages: one cachestat for each 65,536, or a mincore walk without it.
// 0, RESIDENCY_E_UNKNOWN or a negative errno.
int residency_probe_counts(struct residency_probe *probe, int fd, uint64_t pages,
                           struct residency_counts *ret);

// The same in slices, by cachestat only (-ENOSYS without): adds the pages from *next up to
// counts->pages; *next advances. RESIDENCY_E_AGAIN: `deadline` has passed.
int residency_probe_count(struct residency_probe *probe, int fd, uint64_t *next, nsec_t deadline,
                          struct residency_counts *counts);

// Where a walk over a file is. Zeroed but for `next` and `end` at the begin.
struct residency_walk {
    uint64_t next; // first page that was not looked at
    uint64_t end;
    // What it learned on its way.
    uint64_t span, chunk, balance;
    unsigned n_uniform;
    enum {
        RESIDENCY_MINCORE_UNASKED,
        RESIDENCY_MINCORE_TRUSTED,
        RESIDENCY_MINCORE_REFUSED
    } mincore;
};

// Appends the resident runs of pages walk->next up to walk->end to `ranges`, whose last run must
// not end behind walk->next. 0: all were looked at; RESIDENCY_E_AGAIN: `deadline` (CLOCK_MONOTONIC;
// NSEC_MAX for none) has passed, at least one step was made; RESIDENCY_E_UNKNOWN; or a negative
// errno. Steps are short: well below a millisecond.
int residency_probe_walk(struct residency_probe *probe, int fd, struct residency_walk *walk,
                         nsec_t deadline, struct page_ranges *ranges);

// True in *ret_same if exactly the pages of `ranges` are resident among the first `pages`, given
// that `cached` pages are in all: one cachestat a run. Stops at the first difference. -ENOSYS
// without cachestat.
int residency_probe_verify(struct residency_probe *probe, int fd, uint64_t cached,
                           const struct page_ranges *ranges, bool *ret_same);

// Size and runs of the whole file (`ranges` is cleared first); ret->cached is the pages in them,
// and what only cachestat counts is left out, since counting costs a walk of its own.
int residency_probe_ranges(struct residency_probe *probe, int fd, struct residency_counts *ret,
                           struct page_ranges *ranges);

// Bytes to pages, rounded up; sizes below 0 count as 0.
uint64_t residency_pages(int64_t size_bytes, size_t page_size);
