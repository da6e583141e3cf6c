// SPDX-License-Identifier: Apache-2.0
//
// The descriptors of all sets of files (file_set.h), by user: a user who is not root does not take
// those of others, however many sets the user has.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct requester;

// The user of some sets. All sets without limits have one user.
struct set_user {
    bool is_limited;
    uint64_t payer;
    size_t n_sets, n_open; // open files
    const void *walker;    // the only set of a limited user that walks along a path now
};

// Returns the user of the sets with this requester, which gets another set, or NULL if memory ran
// out.
struct set_user *set_user_join(const struct requester *requester);
void set_user_leave(struct set_user *user);

// Counts an open file; `n` is 1 or -1.
void set_user_count(struct set_user *user, int n);

// Returns whether another file of the user may stay open.
bool set_user_may_open(const struct set_user *user);
// Returns whether a file of the user must be closed, because there are more sets than before.
bool set_user_must_close(const struct set_user *user);
