// SPDX-License-Identifier: Apache-2.0
//
// One file that pintool examines: its resident bytes, and the resident bytes of each entry if it is
// a zip.
#pragma once

#include "common/err.h"
#include "common/pinconfig.h"
#include "common/zipindex.h"
#include "producer/pintool/coverage.h"
#include "producer/pintool/targets.h"
#include "producer/sources/residency/probe.h"

// The origin of a subject's `resident`.
enum probe_origin {
    PROBE_NONE,    // no origin: every entry counts as covered as a whole
    PROBE_CACHE,   // the page cache, now
    PROBE_PINLIST, // a pinlist
    PROBE_UNKNOWN, // the kernel refuses this user the answer
};

// The plan of an examination. All members are borrowed.
struct subject_plan {
    struct residency_probe *probe;
    enum probe_origin origin;         // not PROBE_UNKNOWN
    const struct page_ranges *listed; // for PROBE_PINLIST: bytes, sorted
    bool counts;                      // for PROBE_CACHE: also the counts that need cachestat
    bool zip;
    const struct pinconfig *pinconfig; // zips only; NULL: none
};

struct subject {
    const struct target *target; // borrowed
    uint64_t size_bytes;
    enum probe_origin origin;
    struct residency_counts counts; // for PROBE_CACHE
    struct page_ranges resident;    // owned; bytes, sorted, clipped to the file
    uint64_t resident_bytes;
    uint64_t beyond_bytes; // named by a pinlist, but beyond the file's last page
    uint64_t mapped_bytes, mapped_resident_bytes; // of a process's file
    struct page_ranges mapped;                    // owned; bytes, clipped to the file
    // Only for a zip. Without a pinconfig `filtered` is empty.
    struct zipindex zip;
    struct coverages entries, filtered;
};

// Examines the target. Returns 0 or a negative errno with text. If the kernel does not tell this
// user about the file, the function succeeds: origin is PROBE_UNKNOWN then, and all coverages are
// empty.
int subject_look(const struct target *target, const struct subject_plan *plan, struct subject *ret,
                 struct err *err);
void subject_done(struct subject *subject); // fit for CLEANUP()

// Converts ranges of pages to ranges of bytes of a file of `size_bytes`, in place.
void subject_pages_to_bytes(struct page_ranges *ranges, uint64_t page_size, uint64_t size_bytes);
