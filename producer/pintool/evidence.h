// SPDX-License-Identifier: Apache-2.0
//
// The evidence of a recording about the pages of one file: how often each page was seen resident,
// was evicted, and was read back. The caller adds events in the order of time, from samples of
// residency or from the page cache's own events, but not from both.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/vec.h"

#define EVIDENCE_GONE_BUCKETS 128

#define EVIDENCE_PAGES_MAX ((uint64_t)1 << 20) // 4 GiB, the range of a pinlist

struct page_evidence {
    uint32_t n_resident;  // samples that show the page
    uint32_t n_evicted;   // evictions
    uint32_t n_read_back; // reads after an eviction
    float reads;          // shares of the reads that brought the page back
    float gone_s;         // seconds of absence, after the page had been present
    uint32_t since;       // last arrival or eviction, in ticks since the first event
    uint16_t folio_pages; // pages of the folio that begins here; 0: unknown
    uint8_t gone;         // the page was resident and is not now
    uint8_t came;         // `since` is the time of an arrival
};

VEC_DEFINE(page_evidences, struct page_evidence);

// Pages that came together, by one read: not yet counted.
struct read_batch {
    uint64_t start, end; // pages; end is the last page known, plus 1
    uint64_t last;       // first page of the last folio
    nsec_t ts;           // of the last folio
};

struct evidence {
    struct page_evidences pages; // owned; one for each page of the file
    struct read_batch batch;
    nsec_t first_ts, last_ts; // of all events
    bool has_ts;
    uint64_t n_samples;
    double n_reads; // that brought pages back
    double n_evictions;
    double gone_reads[EVIDENCE_GONE_BUCKETS]; // reads, by the pages' time of absence
    double stays_s, n_stays;                  // times from arrival to eviction, where both were
                                              // seen
};

// Returns 0, -EFBIG or -ENOMEM.
int evidence_new(uint64_t n_pages, struct evidence *ret);
void evidence_done(struct evidence *evidence); // fit for CLEANUP()

// The functions below ignore pages outside the file.

// Adds `n_samples` samples that show the pages resident.
void evidence_resident(struct evidence *evidence, uint64_t start, uint64_t end, uint32_t n_samples);

// Adds a run of pages that came in, or was evicted, between two samples. The number of reads is
// unknown; the kernel's read-ahead gives the estimate.
void evidence_came(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end);
void evidence_went(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end);

// Adds an event of the page cache: a folio that begins at `page` was added or deleted. Folios that
// follow one another in the file and in time count as one read. The start of the next folio shows
// the size of a folio.
void evidence_added(struct evidence *evidence, nsec_t ts, uint64_t page);
void evidence_deleted(struct evidence *evidence, nsec_t ts, uint64_t page);

// Ends the evidence. evidence_seconds() then returns the time from the first event to the last.
void evidence_end(struct evidence *evidence);
double evidence_seconds(const struct evidence *evidence);

// Returns the time for which a page that is present at the end has been present.
double evidence_stay_seconds(const struct evidence *evidence, uint64_t page);

// Returns the reads of pages that had been evicted for less than `seconds`, exact to a quarter of
// this time.
double evidence_reads_within(const struct evidence *evidence, double seconds);
