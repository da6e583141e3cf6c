// SPDX-License-Identifier: Apache-2.0
//
// How much of something the processes of one user may cause, and those of all users together.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/map.h"
#include "common/nsec.h"
#include "common/vec.h"

// A limit of 0 does not exist. `what` is the noun of the refusal, `how` what raises the limit
// (NULL: nothing does); both are constant.
struct budget_limits {
    const char *what, *how;
    uint64_t each_max, all_max;           // held at one time
    uint64_t each_burst, each_per_minute; // a rate: so many at once, and so many a minute
    uint64_t all_burst, all_per_minute;
};

struct budget_account {
    uint64_t payer, held;
    double tokens; // that may be taken at once
    nsec_t filled; // when `tokens` was right
};
VEC_DEFINE(budget_account_vec, struct budget_account);

#define BUDGET_PAYERS_MAX 1024 // with an account of their own; the others share one

struct budget {
    struct budget_limits limits;
    struct map64 index; // payer -> place in `accounts`
    struct budget_account_vec accounts;
    struct budget_account others, root, all; // `all` is without root
};

// All zero but for the limits. `limits` is copied.
void budget_init(struct budget *budget, const struct budget_limits *limits);
void budget_done(struct budget *budget);

// Takes `n` for `payer` (payer.h) at `now` (any clock that does not stop). 0, or -EDQUOT with a
// sentence in `err` that names the limit and its number; nothing is taken then. Payer 0 (root) has
// all_max and all_burst for itself: nobody else can use them up.
int budget_take(struct budget *budget, uint64_t payer, uint64_t n, nsec_t now, struct err *err);
// For what has been spent already, of a budget with rates alone: the payer may come into debt.
// False: it has used up what it had. Root never does.
bool budget_spend(struct budget *budget, uint64_t payer, uint64_t n, nsec_t now);
// What the payer may spend at once, at `now`. 0: nothing; UINT64_MAX: as much as it likes.
uint64_t budget_left(struct budget *budget, uint64_t payer, nsec_t now);
// What is held no more. Rates are not given back.
void budget_give(struct budget *budget, uint64_t payer, uint64_t n);
// What the payer holds now; those that share an account hold it together.
uint64_t budget_held(const struct budget *budget, uint64_t payer);
