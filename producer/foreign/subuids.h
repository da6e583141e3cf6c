// SPDX-License-Identifier: Apache-2.0
//
// The subordinate uids of users (subuid(5)).
#pragma once

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/vec.h"
#include "producer/ground/proc_text.h"

struct subuid_range {
    uint64_t first, end;
    uid_t number;      // the first uid of the owner's first range
    struct span owner; // only while the table is read
};

VEC_DEFINE(subuid_range_vec, struct subuid_range);

// A table in memory. All zero: an empty table.
struct subuids {
    struct subuid_range_vec ranges; // in the order of uids, without overlaps
    struct stat of;                 // the file that was read
};

// Replaces the table by that of `text`. Damaged lines are skipped. Returns 0 or -ENOMEM.
int subuids_parse(struct subuids *table, struct span text);

// Reads the file if it has changed. If the file is missing, too large or not a regular file, the
// table is empty.
void subuids_follow(struct subuids *table, const char *path);

// Returns the number that all subordinate uids of an owner have in common, or `uid`.
uid_t subuids_number(const struct subuids *table, uid_t uid);

void subuids_done(struct subuids *table);
