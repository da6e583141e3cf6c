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

// All borrowed.
struct explanation {
    const char *path, *pinlist_path; // the latter NULL: none was written
    uint64_t size_bytes, page_size;  // of the file
    const struct evidence *evidence;
    const struct gather_sources *sources;
    const struct page_ranges *chosen; // pages
    const struct zipindex *zip;       // without entries if the file is no zip
};

// The end of a page in bytes, cut at the end of the file.
uint64_t explanation_page_end(const struct explanation *explanation, uint64_t page);

// Print to standard output: with `ranges`, a line for each, and always what it comes to. 0 or
// -ENOMEM with text, and nothing was printed.
int explanation_print(const struct explanation *explanation, bool ranges, struct err *err);
int explanation_print_json(const struct explanation *explanation, struct err *err);
