// SPDX-License-Identifier: Apache-2.0
//
// What a recording tells about the pages of one file: how often each was seen resident, was
// evicted, and was read back. Fed in the order of time, from samples of residency or from the page
// cache's own events, not from both.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/nsec.h"
#include "common/vec.h"

#define EVIDENCE_GONE_BUCKETS 128

#define EVIDENCE_PAGES_MAX ((uint64_t)1 << 20) // 4 GiB, as far as a pinlist reaches

struct page_evidence {
    uint32_t n_resident;  // samples that show it
    uint32_t n_evicted;   // times it went
    uint32_t n_read_back; // times it came again after it had gone
    float reads;          // its shares of the reads that brought it back
    float gone_s;         // how long it was gone, in all, after it had been there
    uint32_t since;       // when it came or went last, in ticks since the first event
    uint16_t folio_pages; // that came with it as one, itself included; 0: unknown
    uint8_t gone;         // it was resident and is not now
    uint8_t came;         // `since` is when it came
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
    double gone_reads[EVIDENCE_GONE_BUCKETS]; // reads, by how long the pages had been gone
    double stays_s, n_stays;                  // times from coming to going, where both were seen
};

int evidence_new(uint64_t n_pages, struct evidence *ret); // 0, -EFBIG or -ENOMEM
void evidence_done(struct evidence *evidence);            // fit for CLEANUP()

// Pages outside the file are ignored throughout.

// `n_samples` samples show the pages.
void evidence_resident(struct evidence *evidence, uint64_t start, uint64_t end, uint32_t n_samples);

// A run came in, or went out, between two samples. How many reads it took is not known: as many as
// the kernel's read-ahead would need.
void evidence_came(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end);
void evidence_went(struct evidence *evidence, nsec_t ts, uint64_t start, uint64_t end);

// A folio that begins at `page` was added to the page cache, or deleted from it. Folios that follow
// one another in the file and at once are one read; their sizes are told from where the next
// begins.
void evidence_added(struct evidence *evidence, nsec_t ts, uint64_t page);
void evidence_deleted(struct evidence *evidence, nsec_t ts, uint64_t page);

// Behind the last of all. evidence_seconds() is then how long it took from the first to the last.
void evidence_end(struct evidence *evidence);
double evidence_seconds(const struct evidence *evidence);

// How long a page that is there at the end has been there.
double evidence_stay_seconds(const struct evidence *evidence, uint64_t page);

// Reads of pages that had been gone for less than `seconds`; exact to a quarter of that time.
double evidence_reads_within(const struct evidence *evidence, double seconds);
