// SPDX-License-Identifier: Apache-2.0
//
// A profile of a running process takes at most three descriptors. Half of the descriptors are
// reserved for the recorder's other work.
#include "producer/sources/heap/heap_shares.h"

#include <sys/resource.h>
#include <unistd.h>

#include "producer/foreign/payer.h"

#define FDS_A_PROFILE 3

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void heap_shares_init(struct heap_shares *shares)
{
    struct rlimit fds;
    uint64_t most = SHARES_LIVING_ALL;
    if (getrlimit(RLIMIT_NOFILE, &fds) == 0 && fds.rlim_cur != RLIM_INFINITY)
        most = smaller(most, fds.rlim_cur / 2 / FDS_A_PROFILE);
    uint64_t each = smaller(SHARES_LIVING_EACH, most / 2);
    budget_init(&shares->living, &(struct budget_limits){.what = "profiles of running processes",
                                                         .each_max = each ? each : 1,
                                                         .all_max = most ? most : 1});
    budget_init(&shares->profiles, &(struct budget_limits){.what = "profiles",
                                                           .each_max = SHARES_PROFILES_EACH,
                                                           .all_max = SHARES_PROFILES_ALL});
    budget_init(&shares->time, &(struct budget_limits){.what = "microseconds of the recorder",
                                                       .each_burst = SHARES_TIME_BURST,
                                                       .each_per_minute = SHARES_TIME_PER_MINUTE});
}

void heap_shares_done(struct heap_shares *shares)
{
    budget_done(&shares->living);
    budget_done(&shares->profiles);
    budget_done(&shares->time);
}

uint64_t heap_shares_payer(const char *proc, int32_t pid, uid_t uid, bool is_private)
{
    uint64_t payer = is_private ? 0 : foreign_payer(proc, pid, uid);
    return payer == geteuid() ? 0 : payer;
}

int heap_shares_take(struct heap_shares *shares, uint64_t payer, struct err *err,
                     struct client_share *ret)
{
    int r = budget_take(&shares->living, payer, 1, 0, err);
    if (r < 0)
        return r;
    r = budget_take(&shares->profiles, payer, 1, 0, err);
    if (r < 0)
        budget_give(&shares->living, payer, 1);
    else
        *ret = (struct client_share){.payer = payer, .is_counted = true, .is_living = true};
    return r;
}

void heap_shares_ended(struct heap_shares *shares, struct client_share *share)
{
    if (share->is_living)
        budget_give(&shares->living, share->payer, 1);
    share->is_living = false;
}

void heap_shares_gone(struct heap_shares *shares, struct client_share *share)
{
    heap_shares_ended(shares, share);
    if (share->is_counted)
        budget_give(&shares->profiles, share->payer, 1);
    share->is_counted = false;
}

static bool has_one_payer(const struct budget *living)
{
    size_t n = (living->root.held > 0) + (living->others.held > 0);
    for (size_t i = 0; i < living->accounts.n && n < 2; i++)
        n += living->accounts.items[i].held > 0;
    return n < 2;
}

nsec_t heap_shares_time(struct heap_shares *shares, const struct client_share *share, bool is_alone)
{
    if (is_alone && has_one_payer(&shares->living))
        return NSEC_MAX;
    uint64_t left = budget_left(&shares->time, share->payer, nsec_now(CLOCK_MONOTONIC));
    return left >= SHARES_TIME_BURST ? NSEC_MAX : (nsec_t)left * NSEC_PER_USEC;
}

void heap_shares_spend(struct heap_shares *shares, const struct client_share *share, nsec_t time)
{
    budget_spend(&shares->time, share->payer, (uint64_t)(time / NSEC_PER_USEC),
                 nsec_now(CLOCK_MONOTONIC));
}
