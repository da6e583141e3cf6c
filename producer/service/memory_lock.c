// SPDX-License-Identifier: Apache-2.0
//
// When page cache is reclaimed, the pages of programs go with it, and a recorder that has to wait
// for its own code to be read back from a busy disk misses what it is there to record. Locking
// costs no memory by itself: MCL_ONFAULT leaves untouched pages, most of a large buffer, alone.
// MCL_FUTURE is left out: under a limit on locked memory it would make later mappings fail.
#include "producer/service/memory_lock.h"

#include <errno.h>
#include <sys/mman.h>

int memory_lock(void)
{
    return mlockall(MCL_CURRENT | MCL_ONFAULT) < 0 ? -errno : 0;
}
