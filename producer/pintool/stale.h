// SPDX-License-Identifier: Apache-2.0
//
// Parts of a pinconfig that have become useless: patterns that no entry contains, and ranges beyond
// the entries that take them.
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "common/pinconfig.h"
#include "common/zipindex.h"

struct stale_use {
    uint64_t n_takers;      // entries that took the pattern
    uint64_t n_matches;     // 0: no entry's name contains the pattern, taken or not
    uint64_t largest_bytes; // size of the largest taker: a range beyond this size fits nowhere
    char *largest;          // owned; name of the largest taker
};

VEC_DEFINE(stale_uses, struct stale_use);

// All zero is the initial state.
struct stale {
    struct stale_uses uses; // one for each pattern
    size_t n_zips;
    char *zip_name; // owned; of the first zip
};

// Notes the patterns that the entries of a zip take. Returns 0 or -ENOMEM.
int stale_note(struct stale *stale, const struct pinconfig *config, const struct zipindex *zip,
               const char *zip_name);

// Prints a line for each pattern and range that no zip could use.
void stale_print(const struct stale *stale, const struct pinconfig *config, const char *config_name,
                 const char *program, FILE *out);

void stale_done(struct stale *stale); // fit for CLEANUP()
