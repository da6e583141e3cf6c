// SPDX-License-Identifier: Apache-2.0
//
// Locked memory (mlockall) can be released only by MADV_DONTNEED_LOCKED. Kernels before 5.18 do not
// have this advice: the memory is unlocked first.
#include "common/page_release.h"

#include <sys/mman.h>

#define DONTNEED_LOCKED 24 // MADV_DONTNEED_LOCKED, which older headers lack

void pages_give_back(void *memory, size_t size)
{
    if (madvise(memory, size, MADV_DONTNEED) == 0 || madvise(memory, size, DONTNEED_LOCKED) == 0)
        return;
    munlock(memory, size);
    madvise(memory, size, MADV_DONTNEED);
}
