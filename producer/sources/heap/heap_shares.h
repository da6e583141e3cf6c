// SPDX-License-Identifier: Apache-2.0
//
// Limits for the programs of one user, and of all users: the number of profiles, and the time of
// the recorder's loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/nsec.h"
#include "producer/foreign/foreign_budget.h"

#define SHARES_LIVING_EACH   512
#define SHARES_LIVING_ALL    4096
#define SHARES_PROFILES_EACH 8192
#define SHARES_PROFILES_ALL  65536
// Microseconds of the loop, at once and per minute: a quarter of one processor.
#define SHARES_TIME_BURST      1000000
#define SHARES_TIME_PER_MINUTE 15000000

// The share of one client. All zero: no share.
struct client_share {
    uint64_t payer;
    bool is_counted, is_living;
};

struct heap_shares {
    struct budget living, profiles, time;
};

// Sets the limits above, or lower ones if there are few descriptors.
void heap_shares_init(struct heap_shares *shares);
void heap_shares_done(struct heap_shares *shares); // all zero is permitted

// Returns the payer of a process that runs as `uid` (payer.h). Returns 0 also for the recorder's
// own user, and for all processes if the sockets belong to one recording (`is_private`).
uint64_t heap_shares_payer(const char *proc, int32_t pid, uid_t uid, bool is_private);

// Takes one more profile. Returns 0, or -EDQUOT with the limit in `err`.
int heap_shares_take(struct heap_shares *shares, uint64_t payer, struct err *err,
                     struct client_share *ret);
void heap_shares_ended(struct heap_shares *shares,
                       struct client_share *share); // may be called twice
void heap_shares_gone(struct heap_shares *shares, struct client_share *share);

// Returns the time that the loop may work for this client now; 0: none. There is no limit if all
// profiles belong to one user and the recorder has nothing else to do (`is_alone`).
nsec_t heap_shares_time(struct heap_shares *shares, const struct client_share *share,
                        bool is_alone);
void heap_shares_spend(struct heap_shares *shares, const struct client_share *share, nsec_t time);
