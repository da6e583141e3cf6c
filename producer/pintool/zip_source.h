// SPDX-License-Identifier: Apache-2.0
//
// Reads a zip without leaving a trace in the page cache: the next probe must not find the directory
// and the headers, and with them the first page of each entry, because this one read them.
#pragma once

#include "common/err.h"
#include "common/ranges.h"
#include "common/zipindex.h"
#include "producer/sources/residency/probe.h"

struct zip_source {
    struct residency_probe *probe; // borrowed
    int fd;                        // borrowed
    struct page_ranges found;      // owned, used again for each block
};

// The bytes of an open file of `size_bytes`; `source` must outlive them.
struct zipindex_source zip_source_bytes(struct zip_source *source, uint64_t size_bytes);
void zip_source_done(struct zip_source *source); // fit for CLEANUP()

// As zipindex_read(), from an open file of `size_bytes`.
int zip_source_index(struct residency_probe *probe, int fd, uint64_t size_bytes, const char *name,
                     struct zipindex *ret, struct err *err);
