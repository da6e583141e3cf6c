// SPDX-License-Identifier: Apache-2.0
//
// Gathers the evidence about one file from a recording.
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "producer/pintool/evidence.h"
#include "producer/pintool/mmsql_rows.h"

struct gather_subject {
    const char *path;       // borrowed: its name in the recording
    uint64_t device, inode; // of the file on this machine
    uint64_t page_size;
};

// The numbers of rows behind the evidence.
struct gather_sources {
    uint64_t n_samples; // exact samples of residency
    uint64_t n_changes; // of residency, between samples
    uint64_t n_events;  // of the page cache
};

// Fills `evidence`, which is new. If the recording has events of the page cache for the file, these
// are used, because samples miss pages that come and go in between. Returns 0, or a negative errno
// with text: -ENOENT if the recording has nothing about the file.
int gather_evidence(const struct mmsql *mmsql, const struct gather_subject *subject,
                    struct evidence *evidence, struct gather_sources *ret, struct err *err);
