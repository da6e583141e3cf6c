// SPDX-License-Identifier: Apache-2.0
#include "producer/ground/fd_limit.h"

void fd_limit_raise(rlim_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (wanted > limit.rlim_max)
        wanted = limit.rlim_max;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}
