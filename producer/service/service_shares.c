// SPDX-License-Identifier: Apache-2.0
//
// A share outlives its sessions until its time is free again: a new session does not bring new
// time.
#include "producer/service/service_private.h"

static struct payer_share *find_share(const struct service *service, uint64_t payer)
{
    vec_foreach(&service->shares, share)
        if ((*share)->payer == payer)
            return *share;
    return NULL;
}

static bool is_in_use(const struct payer_share *share, nsec_t now)
{
    return share->n_members > 0 || !loop_share_is_left(&share->time.readings, now) ||
           !loop_share_is_left(&share->time.sessions, now) ||
           !loop_share_is_left(&share->matching, now);
}

static void drop_unused(struct service *service)
{
    size_t n = 0;
    nsec_t now = nsec_now(CLOCK_BOOTTIME);
    vec_foreach(&service->shares, share)
        if (is_in_use(*share, now))
            service->shares.items[n++] = *share;
        else
            free(*share);
    service->shares.n = n;
}

struct payer_share *service_share_of(struct service *service, uint64_t payer)
{
    struct payer_share *share = find_share(service, payer);
    if (share)
        return share;
    drop_unused(service);
    if (payer_share_vec_reserve(&service->shares, service->shares.n + 1) < 0)
        return NULL;
    share = calloc(1, sizeof(*share));
    if (!share)
        return NULL;
    share->payer = payer;
    payer_share_vec_push(&service->shares, share);
    return share;
}

nsec_t service_share_wait(const struct service *service, uint64_t payer)
{
    const struct payer_share *share = find_share(service, payer);
    if (!share)
        return 0;
    // The last flush of a session is never refused, and counts as a reading.
    nsec_t readings = share->time.readings.free_at, sessions = share->time.sessions.free_at;
    nsec_t free_at = readings > sessions ? readings : sessions, now = nsec_now(CLOCK_BOOTTIME);
    return free_at > now ? free_at - now : 0;
}

void service_free_shares(struct service *service)
{
    vec_foreach(&service->shares, share)
        free(*share);
    payer_share_vec_done(&service->shares);
}
