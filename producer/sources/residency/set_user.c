// SPDX-License-Identifier: Apache-2.0
#include "producer/sources/residency/set_user.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "common/memory.h"
#include "common/vec.h"
#include "producer/foreign/mounts.h"
#include "producer/sources/requester.h"
#include "producer/sources/residency/named_files.h"

// Descriptors reserved for the rest of the program and for mounts; and for each set.
#define FDS_RESERVED  (256 + FOREIGN_HELD_MAX)
#define FDS_EACH      8
#define SHARE_MEMBER  4 // a user who is not root takes this part of the others,
#define SHARE_MEMBERS 2 // and all these users together this part

VEC_DEFINE(user_vec, struct set_user *);

static struct user_vec users;
static size_t n_sets, n_open_all, n_open_limited;

static struct set_user *user_of(const struct requester *requester)
{
    bool is_limited = requester && requester->is_limited;
    vec_foreach(&users, user)
        if ((*user)->is_limited == is_limited &&
            (!is_limited || (*user)->payer == requester->payer))
            return *user;
    if (user_vec_reserve(&users, users.n + 1) < 0)
        return NULL;
    struct set_user *made = memory_calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    made->is_limited = is_limited;
    made->payer = is_limited ? requester->payer : 0;
    user_vec_push(&users, made);
    return made;
}

struct set_user *set_user_join(const struct requester *requester)
{
    struct set_user *user = user_of(requester);
    if (!user)
        return NULL;
    user->n_sets++;
    n_sets++;
    return user;
}

void set_user_leave(struct set_user *user)
{
    n_sets--;
    if (--user->n_sets > 0)
        return;
    size_t i = 0;
    while (users.items[i] != user)
        i++;
    users.items[i] = users.items[--users.n];
    free(user);
    if (users.n == 0)
        user_vec_done(&users);
}

// Returns how many files may be open. The rest of the program has its reserve, and so have the
// walks along paths. The sets of a limited user walk one after the other: a stranger makes deep
// folders.
static size_t n_open_max(void)
{
    struct rlimit limit;
    rlim_t reserved = FDS_RESERVED + n_sets * FDS_EACH;
    vec_foreach(&users, user)
        reserved += NAMED_DEPTH_MAX * ((*user)->is_limited ? 1 : (*user)->n_sets);
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > reserved
               ? limit.rlim_cur - reserved
               : 0;
}

bool set_user_may_open(const struct set_user *user)
{
    size_t most = n_open_max();
    return n_open_all < most && (!user->is_limited || (user->n_open < most / SHARE_MEMBER &&
                                                       n_open_limited < most / SHARE_MEMBERS));
}

bool set_user_must_close(const struct set_user *user)
{
    size_t most = n_open_max();
    if (user->is_limited)
        return n_open_all > most || user->n_open > most / SHARE_MEMBER;
    return n_open_all > most && n_open_all - n_open_limited > most / SHARE_MEMBERS;
}

void set_user_count(struct set_user *user, int n)
{
    user->n_open += (size_t)n;
    n_open_all += (size_t)n;
    if (user->is_limited)
        n_open_limited += (size_t)n;
}
