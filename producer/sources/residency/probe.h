// SPDX-License-Identifier: Apache-2.0
//
// Finds, exactly and cheaply, the pages of an open file that are in the page cache. The probe knows
// nothing of data sources or traces; pintool uses it, too. The probe never changes anything: it
// reads no page in, and it does not move access times (open files with residency_open()). A file
// that shrinks meanwhile raises no SIGBUS.
//
//     CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
//     r = residency_probe_new(RESIDENCY_AUTO, &probe);
//     r = residency_open(AT_FDCWD, path, &fd, &st);
//     r = residency_probe_ranges(probe, fd, &counts, &ranges);
//
// "Resident" means that the page cache holds the page. A page that is being read in at this moment
// is resident for cachestat(2) and not for mincore(2). At rest both agree.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/ranges.h"

// The kernel does not answer this caller, because the caller neither owns nor may write the file
// (or the file is on hugetlbfs). Any answer would be made up, especially "all resident".
#define RESIDENCY_E_UNKNOWN 1
// residency_probe_walk() stopped at its deadline: call it again to continue.
#define RESIDENCY_E_AGAIN 2

enum residency_method {
    RESIDENCY_AUTO,      // cachestat(2) first; mincore(2) for small mixed ranges, or if there is no
                         // cachestat
    RESIDENCY_MINCORE,   // mincore only, as on kernels before 6.5
    RESIDENCY_CACHESTAT, // cachestat only, down to single pages
};

struct residency_counts {
    uint64_t pages; // of the file, its size rounded up
    uint64_t cached;
    // Counts from cachestat only, in one look at the whole file; zero unless `has_cachestat`.
    uint64_t dirty, writeback, evicted, recently_evicted;
    bool has_cachestat;
};

// System calls since the probe was made, for benchmarks and tests.
struct residency_probe_stats {
    uint64_t n_cachestats, n_mincores, n_mincore_pages, n_mmaps;
};

struct residency_probe;

// Makes a probe. Memory is constant: about 20 KiB, and address space for one window of the file
// while a walk runs. Returns 0; -ENOMEM; or -ENOSYS if RESIDENCY_CACHESTAT is asked for and the
// kernel does not have it.
int residency_probe_new(enum residency_method method, struct residency_probe **ret);
struct residency_probe *residency_probe_free(struct residency_probe *probe);
DEFINE_CLEANUP(residency_probe_freep, struct residency_probe, residency_probe_free);

size_t residency_page_size(const struct residency_probe *probe); // bytes
bool residency_has_cachestat(const struct residency_probe *probe);
void residency_probe_get_stats(const struct residency_probe *probe,
                               struct residency_probe_stats *ret);

// Opens a regular file for probing: read-only, and O_NOATIME if permitted. Never blocks on a FIFO,
// a device or a lease, and has no side effects on them. `ret_stat` may be NULL. The caller closes
// *ret_fd. Returns 0; -EINVAL if the file is not a regular file; -EBUSY if a process has a lease on
// the file; or another negative errno of opening.
int residency_open(int dir_fd, const char *path, int *ret_fd, struct stat *ret_stat);

// Counts the resident pages among the first `pages`: one cachestat per 65,536 pages, or a mincore
// walk without cachestat. Returns 0, RESIDENCY_E_UNKNOWN or a negative errno.
int residency_probe_counts(struct residency_probe *probe, int fd, uint64_t pages,
                           struct residency_counts *ret);

// Counts in slices, by cachestat only (-ENOSYS without it): adds the pages from *next up to
// counts->pages and advances *next. Returns RESIDENCY_E_AGAIN if `deadline` has passed.
int residency_probe_count(struct residency_probe *probe, int fd, uint64_t *next, nsec_t deadline,
                          struct residency_counts *counts);

// The position of a walk over a file. Zero at the beginning, except `next` and `end`.
struct residency_walk {
    uint64_t next; // first page that was not probed yet
    uint64_t end;
    // Learned during the walk.
    uint64_t span, chunk, balance;
    unsigned n_uniform;
    enum {
        RESIDENCY_MINCORE_UNASKED,
        RESIDENCY_MINCORE_TRUSTED,
        RESIDENCY_MINCORE_REFUSED
    } mincore;
};

// Appends the resident runs of the pages from walk->next up to walk->end to `ranges`, whose last
// run must not end after walk->next. Returns 0 if all pages were probed; RESIDENCY_E_AGAIN if
// `deadline` (CLOCK_MONOTONIC; NSEC_MAX: none) has passed, after at least one step;
// RESIDENCY_E_UNKNOWN; or a negative errno. A step takes far less than a millisecond.
int residency_probe_walk(struct residency_probe *probe, int fd, struct residency_walk *walk,
                         nsec_t deadline, struct page_ranges *ranges);

// Sets *ret_same to whether exactly the pages of `ranges` are resident. `cached` is the number of
// resident pages of the file. Makes one cachestat call per run, and stops at the first difference.
// Returns -ENOSYS without cachestat.
int residency_probe_verify(struct residency_probe *probe, int fd, uint64_t cached,
                           const struct page_ranges *ranges, bool *ret_same);

// Gets the size and the runs of the whole file; `ranges` is cleared first. ret->cached is the
// number of pages in the runs. Counts that only cachestat has are left out, because they need a
// walk of their own.
int residency_probe_ranges(struct residency_probe *probe, int fd, struct residency_counts *ret,
                           struct page_ranges *ranges);

// Converts bytes to pages, rounded up. Sizes below 0 count as 0.
uint64_t residency_pages(int64_t size_bytes, size_t page_size);
