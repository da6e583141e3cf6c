// SPDX-License-Identifier: Apache-2.0
//
// When page cache is reclaimed, the pages of programs go with it, and a recorder that has to wait
// for its own code to be read back from a busy disk misses what it is there to record. Locking
// costs no memory by itself: MCL_ONFAULT leaves untouched pages, most of a large buffer, alone.
//
// What is mapped later, the buffers of the next session, is covered by MCL_FUTURE. Under a limit on
// locked memory that would make later mappings fail, so it takes the right to ignore the limit.
#include "producer/service/memory_lock.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_unlimited(void)
{
    struct rlimit limit;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY)
        return true;
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK));
}

int memory_lock(void)
{
    int future = is_unlimited() ? MCL_FUTURE : 0;
    return mlockall(MCL_CURRENT | MCL_ONFAULT | future) < 0 ? -errno : 0;
}
