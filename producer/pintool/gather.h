// SPDX-License-Identifier: Apache-2.0
//
// From a recording to the evidence about one file.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "producer/pintool/evidence.h"
#include "producer/pintool/mmsql_rows.h"

struct gather_subject {
    const char *path;       // borrowed: its name in the recording
    uint64_t device, inode; // of the file as it is here
    uint64_t page_size;
};

// What the evidence came from.
struct gather_sources {
    uint64_t n_samples; // exact ones
    uint64_t n_changes; // of residency, between samples
    uint64_t n_events;  // of the page cache
};

// Fills `evidence`, which is new. The page cache's events are taken if the recording has any of the
// file, since samples miss what comes and goes between them. 0; -ENOENT: the recording says nothing
// about the file; or a negative errno; with text.
int gather_evidence(const struct mmsql *mmsql, const struct gather_subject *subject,
                    struct evidence *evidence, struct gather_sources *ret, struct err *err);
