// SPDX-License-Identifier: Apache-2.0
//
// Limits on the recorder's costs for the processes of one user, and of all users together.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/map.h"
#include "common/nsec.h"
#include "common/vec.h"

// A limit of 0 means no limit. `what` is the noun in the refusal. `how` says how to raise the
// limit; NULL: not possible. Both are constant.
struct budget_limits {
    const char *what, *how;
    uint64_t each_max, all_max;           // held at the same time
    uint64_t each_burst, each_per_minute; // a rate: the burst at once, and the rest per minute
    uint64_t all_burst, all_per_minute;
};

struct budget_account {
    uint64_t payer, held;
    double tokens; // may be taken at once
    nsec_t filled; // time at which `tokens` was computed
    nsec_t turn;   // when the last turn began (budget_may_spend())
    double turn_left;
};
VEC_DEFINE(budget_account_vec, struct budget_account);

#define BUDGET_PAYERS_MAX 1024 // payers with an account of their own; all others share one

struct budget {
    struct budget_limits limits;
    struct map64 index;   // payer -> place in `accounts`
    struct map64 sharers; // payer -> its part of others.held
    struct budget_account_vec accounts;
    struct budget_account others, root, all; // `all` excludes root
};

// `budget` must be all zero except for the limits. Copies `limits`.
void budget_init(struct budget *budget, const struct budget_limits *limits);
void budget_done(struct budget *budget);

// Takes `n` for `payer` (payer.h) at time `now`, of any clock that does not stop. Returns 0, or
// -EDQUOT with a sentence in `err` that names the limit and its number; then nothing is taken.
// Payer 0 (root) has all_max and all_burst for itself: no other payer can use them up.
int budget_take(struct budget *budget, uint64_t payer, uint64_t n, nsec_t now, struct err *err);
// Counts `n` that have been spent already, in a budget that has only rates. The payer and all
// payers together may get into debt. Returns false if the payer has used up its share; for root
// always true.
bool budget_spend(struct budget *budget, uint64_t payer, uint64_t n, nsec_t now);
// Returns 0 if the payer may spend more, or -EDQUOT with a sentence in `err` that names the limit.
// When all payers together have used up their share, a payer that has its whole burst has a turn
// each second, of a twentieth of the burst: the payers that used up the share do not lock it out.
// There are no turns while all together have a debt of all_burst or more.
int budget_may_spend(struct budget *budget, uint64_t payer, nsec_t now, struct err *err);
// Returns the amount that the payer may spend at once at time `now`, without the limit of all;
// UINT64_MAX means no limit.
uint64_t budget_left(struct budget *budget, uint64_t payer, nsec_t now);
// Gives back `n` of the held amount. Rates are not given back.
void budget_give(struct budget *budget, uint64_t payer, uint64_t n);
// Returns the amount that the payer holds now. Payers that share an account hold it together.
uint64_t budget_held(const struct budget *budget, uint64_t payer);
