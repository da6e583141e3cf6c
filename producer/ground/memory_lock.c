// SPDX-License-Identifier: Apache-2.0
//
// Reclaim of page cache also takes the pages of programs. A recorder whose code must be read back
// from a busy disk misses events meanwhile. Locking itself costs no memory: MCL_ONFAULT leaves
// untouched pages alone, which are most pages of a large buffer.
//
// MCL_FUTURE covers later mappings, for example the buffers of the next session. Under a limit on
// locked memory, later mappings would fail. Therefore MCL_FUTURE is set only if no limit applies.
//
// The kernel counts whole mappings against the limit, touched or not. If all mappings together
// exceed the limit, mlockall() locks nothing. Then the mappings are locked one by one, mappings of
// files first: reclaim takes a program's code and file-backed data, and without swap nothing else.
#include "producer/ground/memory_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

#define MAPS_LINE_MAX 512

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

// Locks the mappings with a file (`of_files`) or without. A mapping that exceeds the limit is left
// out.
static void lock_mappings(bool of_files)
{
    char line[MAPS_LINE_MAX], access[8];
    FILE *maps CLEANUP(fclosep) = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof(line), maps)) {
        uintptr_t start, end;
        uint64_t inode;
        int n_fields = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %" SCNu64, &start, &end,
                              access, &inode);
        for (size_t size = strlen(line);
             size && line[size - 1] != '\n';) // skips the rest of a long path
            if (!fgets(line, sizeof(line), maps) || !(size = strlen(line)))
                break;
        if (n_fields == 4 && (inode != 0) == of_files && access[0] == 'r')
            syscall(SYS_mlock2, start, end - start, MLOCK_ONFAULT);
    }
}

int memory_lock(void)
{
    int future = is_unlimited() ? MCL_FUTURE : 0;
    if (mlockall(MCL_CURRENT | MCL_ONFAULT | future) == 0)
        return 0;
    int r = -errno;
    lock_mappings(true);
    lock_mappings(false);
    return r;
}
