// SPDX-License-Identifier: Apache-2.0
//
// What of a pinconfig is of no use any more: patterns that no entry has, and ranges beyond the
// entries that take them.
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "common/pinconfig.h"
#include "common/zipindex.h"

struct stale_use {
    uint64_t n_takers;  // entries that took the pattern
    uint64_t n_matches; // entries whose name has it, taken or not
    uint64_t
        largest_bytes; // the largest of those that took it: what fits nowhere does not fit there
    char *largest;     // owned; its name
};

VEC_DEFINE(stale_uses, struct stale_use);

// All zero is the start.
struct stale {
    struct stale_uses uses; // one for each pattern
    size_t n_zips;
    char *zip_name; // owned; of the first zip
};

// Notes what the entries of a zip take. 0 or -ENOMEM.
int stale_note(struct stale *stale, const struct pinconfig *config, const struct zipindex *zip,
               const char *zip_name);

// Prints a line for each pattern and range that no zip had a use for.
void stale_print(const struct stale *stale, const struct pinconfig *config, const char *config_name,
                 const char *program, FILE *out);

void stale_done(struct stale *stale); // fit for CLEANUP()
