// SPDX-License-Identifier: Apache-2.0
//
// Simulates a full disk: writes beyond a size fail with -EFBIG.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/unit.h"

static inline void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// Removes the limit. Also the teardown of a test that may fail under the limit.
static inline int no_file_limit(void **state)
{
    (void)state;
    set_file_limit(RLIM_INFINITY);
    return 0;
}
