// SPDX-License-Identifier: Apache-2.0
//
// Explains the choice of `pintool suggest`, as text or as JSON.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/zipindex.h"
#include "producer/pintool/evidence.h"
#include "producer/pintool/gather.h"

// All members but `reasons` are borrowed.
struct explanation {
    const char *path, *pinlist_path; // the latter NULL: none was written
    uint64_t size_bytes, page_size;  // of the file
    const struct evidence *evidence;
    const struct gather_sources *sources;
    const struct page_ranges *chosen; // pages
    const struct zipindex *zip;       // without entries if the file is not a zip
    struct reasons *reasons;          // owned; NULL before explanation_prepare()
};

// Returns the end of a page in bytes, cut at the end of the file.
uint64_t explanation_page_end(const struct explanation *explanation, uint64_t page);

// Allocates the memory for printing. Returns 0, or -ENOMEM with text.
int explanation_prepare(struct explanation *explanation, struct err *err);
void explanation_done(struct explanation *explanation); // fit for CLEANUP()

// Print to standard output: a line for each range if `ranges` is true, and the sums.
void explanation_print(const struct explanation *explanation, bool ranges);
void explanation_print_json(const struct explanation *explanation);
