// SPDX-License-Identifier: Apache-2.0
//
// A payer that holds nothing and has its whole burst again needs no account, so its place can be
// reused. If all places are taken, new payers share one account: many users that misbehave at once
// hinder each other, but not the users that came before them. A payer that holds something in the
// shared account stays there until it has given everything back: it never has the limits of two
// accounts. Turns are for each account, so payers that share one also share its turn.
#include "producer/foreign/foreign_budget.h"

#include <errno.h>
#include <inttypes.h>

#define NSEC_PER_MINUTE (60.0 * NSEC_PER_SEC)
#define TURN_PERIOD     NSEC_PER_SEC
#define TURN_PART       20 // of a burst

void budget_init(struct budget *budget, const struct budget_limits *limits)
{
    *budget = (struct budget){.limits = *limits};
    budget->others.tokens = budget->root.tokens = (double)limits->each_burst;
    budget->root.tokens = budget->all.tokens = (double)limits->all_burst;
}

void budget_done(struct budget *budget)
{
    map64_done(&budget->index);
    map64_done(&budget->sharers);
    budget_account_vec_done(&budget->accounts);
}

static void refill(struct budget_account *account, uint64_t burst, uint64_t per_minute, nsec_t now)
{
    if (now > account->filled && per_minute)
        account->tokens += (double)(now - account->filled) / NSEC_PER_MINUTE * (double)per_minute;
    if (account->tokens > (double)burst)
        account->tokens = (double)burst;
    account->filled = now;
}

static bool is_idle(const struct budget *budget, struct budget_account *account, nsec_t now)
{
    const struct budget_limits *limits = &budget->limits;
    refill(account, limits->each_burst, limits->each_per_minute, now);
    return account->held == 0 && account->tokens >= (double)limits->each_burst;
}

// Returns the place of an account that is no longer needed, or -1.
static int64_t idle_place(struct budget *budget, nsec_t now)
{
    for (size_t i = 0; i < budget->accounts.n; i++)
        if (is_idle(budget, &budget->accounts.items[i], now))
            return (int64_t)i;
    return -1;
}

static struct budget_account *account_new(struct budget *budget, uint64_t payer, nsec_t now)
{
    struct budget_account fresh = {
        .payer = payer, .tokens = (double)budget->limits.each_burst, .filled = now};
    int64_t place = -1;
    if (map64_find(&budget->sharers, payer))
        return &budget->others;
    if (budget->accounts.n >= BUDGET_PAYERS_MAX)
        place = idle_place(budget, now);
    else if (budget_account_vec_push(&budget->accounts, fresh) == 0)
        place = (int64_t)budget->accounts.n - 1;
    if (place < 0)
        return &budget->others;
    struct budget_account *account = &budget->accounts.items[place];
    if (account->payer != payer)
        map64_remove(&budget->index, account->payer);
    *account = fresh;
    if (map64_set(&budget->index, payer, (uint64_t)place) == 0)
        return account;
    account->payer = 0; // root's account is elsewhere, so this place is free
    return &budget->others;
}

static struct budget_account *account_find(const struct budget *budget, uint64_t payer)
{
    const uint64_t *place = map64_find(&budget->index, payer);
    return payer == 0 ? (struct budget_account *)(uintptr_t)&budget->root
           : place    ? &budget->accounts.items[*place]
                      : NULL;
}

static struct budget_account *account_of(struct budget *budget, uint64_t payer, nsec_t now)
{
    struct budget_account *account = account_find(budget, payer);
    if (!account)
        account = account_new(budget, payer, now);
    if (payer != 0)
        refill(account, budget->limits.each_burst, budget->limits.each_per_minute, now);
    return account;
}

static int refuse(const struct budget *budget, uint64_t max, const char *of, struct err *err)
{
    const struct budget_limits *limits = &budget->limits;
    err_set(err, -EDQUOT, "the limit of %" PRIu64 " %s %s is reached", max, limits->what, of);
    return limits->how ? err_hint(err, -EDQUOT, "%s", limits->how) : -EDQUOT;
}

static bool exceeds(uint64_t held, uint64_t n, uint64_t max)
{
    return max && (n > max || held > max - n);
}

// Notes that the payer holds `n` more in the shared account. Returns false if memory ran out.
static bool share(struct budget *budget, uint64_t payer, uint64_t n)
{
    const struct budget_limits *limits = &budget->limits;
    bool is_new;
    if (n == 0 || (!limits->each_max && !limits->all_max))
        return true;
    uint64_t *held = map64_get_or_add(&budget->sharers, payer, 0, &is_new);
    if (held)
        *held += n;
    return held;
}

// Returns how much of `n` the payer held in the shared account.
static uint64_t unshare(struct budget *budget, uint64_t payer, uint64_t n)
{
    uint64_t *held = map64_find(&budget->sharers, payer);
    uint64_t given = !held ? 0 : n < *held ? n : *held;
    if (held && (*held -= given) == 0)
        map64_remove(&budget->sharers, payer);
    return given;
}

int budget_take(struct budget *budget, uint64_t payer, uint64_t n, nsec_t now, struct err *err)
{
    const struct budget_limits *limits = &budget->limits;
    bool is_root = payer == 0;
    struct budget_account *account = account_of(budget, payer, now);
    struct budget_account *all = is_root ? &budget->root : &budget->all;
    refill(all, limits->all_burst, limits->all_per_minute, now);
    if (!is_root && exceeds(account->held, n, limits->each_max))
        return refuse(budget, limits->each_max, "of one user", err);
    if (exceeds(all->held, n, limits->all_max))
        return refuse(budget, limits->all_max, "of all users", err);
    if (!is_root && limits->each_per_minute && account->tokens < (double)n)
        return refuse(budget, limits->each_per_minute, "a minute of one user", err);
    if (limits->all_per_minute && all->tokens < (double)n)
        return refuse(budget, limits->all_per_minute, "a minute of all users", err);
    if (account == &budget->others && !share(budget, payer, n))
        return err_set(err, -EDQUOT, "there is no memory to count %s", limits->what);
    all->held += n;
    all->tokens -= limits->all_per_minute ? (double)n : 0;
    if (!is_root) {
        account->held += n;
        account->tokens -= limits->each_per_minute ? (double)n : 0;
    }
    return 0;
}

// Notes that the account spends `n` of its turn, which may begin now.
static void spend_turn(const struct budget *budget, struct budget_account *account, double n,
                       nsec_t now)
{
    if (now - account->turn >= TURN_PERIOD) {
        account->turn = now;
        account->turn_left = (double)budget->limits.each_burst / TURN_PART;
    }
    account->turn_left -= n;
}

static bool has_turn(const struct budget *budget, const struct budget_account *account, nsec_t now)
{
    if (budget->all.tokens <= -(double)budget->limits.all_burst)
        return false;
    return now - account->turn >= TURN_PERIOD ? account->tokens >= (double)budget->limits.each_burst
                                              : account->turn_left > 0;
}

// Returns whether all payers together have used up their share.
static bool all_is_spent(struct budget *budget, nsec_t now)
{
    const struct budget_limits *limits = &budget->limits;
    refill(&budget->all, limits->all_burst, limits->all_per_minute, now);
    return limits->all_per_minute && budget->all.tokens <= 0;
}

bool budget_spend(struct budget *budget, uint64_t payer, uint64_t n, nsec_t now)
{
    if (payer == 0 || !budget->limits.each_per_minute)
        return true;
    struct budget_account *account = account_of(budget, payer, now);
    account->tokens -= (double)n;
    if (all_is_spent(budget, now))
        spend_turn(budget, account, (double)n, now);
    budget->all.tokens -= budget->limits.all_per_minute ? (double)n : 0;
    return account->tokens > 0;
}

int budget_may_spend(struct budget *budget, uint64_t payer, nsec_t now, struct err *err)
{
    const struct budget_limits *limits = &budget->limits;
    if (payer == 0 || !limits->each_per_minute)
        return 0;
    const struct budget_account *account = account_of(budget, payer, now);
    if (account->tokens <= 0)
        return refuse(budget, limits->each_per_minute, "a minute of one user", err);
    if (all_is_spent(budget, now) && !has_turn(budget, account, now))
        return refuse(budget, limits->all_per_minute, "a minute of all users", err);
    return 0;
}

uint64_t budget_left(struct budget *budget, uint64_t payer, nsec_t now)
{
    if (payer == 0 || !budget->limits.each_per_minute)
        return UINT64_MAX;
    double tokens = account_of(budget, payer, now)->tokens;
    return tokens > 0 ? (uint64_t)tokens : 0;
}

// Returns how much of `n` the account held.
static uint64_t give(struct budget_account *account, uint64_t n)
{
    uint64_t given = n < account->held ? n : account->held;
    account->held -= given;
    return given;
}

void budget_give(struct budget *budget, uint64_t payer, uint64_t n)
{
    struct budget_account *account = account_find(budget, payer);
    uint64_t given = account ? give(account, n) : give(&budget->others, unshare(budget, payer, n));
    if (payer != 0)
        give(&budget->all, given);
}

uint64_t budget_held(const struct budget *budget, uint64_t payer)
{
    const struct budget_account *account = account_find(budget, payer);
    return account ? account->held : budget->others.held;
}
