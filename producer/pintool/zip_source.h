// SPDX-License-Identifier: Apache-2.0
//
// Reads a zip without changing the page cache. Otherwise the next probe would find pages that only
// this reading brought in: the directory, the headers, and with them the first page of each entry.
#pragma once

#include "common/err.h"
#include "common/ranges.h"
#include "common/zipindex.h"
#include "producer/sources/residency/probe.h"

struct zip_source {
    struct residency_probe *probe; // borrowed
    int fd;                        // borrowed
    struct page_ranges found;      // owned; reused for each block
};

// Returns the bytes of an open file of `size_bytes` as a source. `source` must outlive the result.
struct zipindex_source zip_source_bytes(struct zip_source *source, uint64_t size_bytes);
void zip_source_done(struct zip_source *source); // fit for CLEANUP()

// Indexes an open file of `size_bytes` as zipindex_read() does.
int zip_source_index(struct residency_probe *probe, int fd, uint64_t size_bytes, const char *name,
                     struct zipindex *ret, struct err *err);
