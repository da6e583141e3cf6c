// SPDX-License-Identifier: Apache-2.0
//
// Why `pintool suggest` chose what it chose, for people and for programs.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/ranges.h"
#include "common/zipindex.h"
#include "producer/pintool/evidence.h"
#include "producer/pintool/gather.h"

// Borrowed but for the reasons.
struct explanation {
    const char *path, *pinlist_path; // the latter NULL: none was written
    uint64_t size_bytes, page_size;  // of the file
    const struct evidence *evidence;
    const struct gather_sources *sources;
    const struct page_ranges *chosen; // pages
    const struct zipindex *zip;       // without entries if the file is no zip
    struct reasons *reasons;          // owned; NULL before explanation_prepare()
};

// The end of a page in bytes, cut at the end of the file.
uint64_t explanation_page_end(const struct explanation *explanation, uint64_t page);

// Takes the memory that printing needs. 0 or -ENOMEM with text.
int explanation_prepare(struct explanation *explanation, struct err *err);
void explanation_done(struct explanation *explanation); // fit for CLEANUP()

// Print to standard output: with `ranges`, a line for each, and always what it comes to.
void explanation_print(const struct explanation *explanation, bool ranges);
void explanation_print_json(const struct explanation *explanation);
