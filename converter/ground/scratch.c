// SPDX-License-Identifier: Apache-2.0
//
// Disk space is allocated before it is used, because a write into a mapping can only fail with a
// signal. The mapping is as large as the file, so that a small file takes little address space,
// which may be limited (`ulimit -v`). The file grows in large steps, so the mapping moves only a
// few times.
#include "converter/ground/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "converter/ground/spill.h"

#define STEP_MIN ((size_t)16 << 10) // a conversion has a dozen scratch files
#define STEP_MAX ((size_t)64 << 20)

static int scratch_open(struct scratch *scratch, const char *folder)
{
    int fd = unnamed_open(temporary_folder(folder));
    if (fd < 0)
        return -errno;
    scratch->fd = fd;
    scratch->is_open = true;
    return 0;
}

static bool map_resize(struct scratch *scratch, size_t size)
{
    void *map = scratch->bytes
                    ? mremap(scratch->bytes, scratch->mapped, size, MREMAP_MAYMOVE)
                    : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, scratch->fd, 0);
    if (map == MAP_FAILED)
        return false;
    scratch->bytes = map;
    scratch->mapped = size;
    return true;
}

int scratch_reserve(struct scratch *scratch, const char *folder, size_t size)
{
    if (size <= scratch->size)
        return 0;
    int r = scratch->is_open ? 0 : scratch_open(scratch, folder);
    if (r < 0)
        return r;
    size_t step = scratch->size < STEP_MIN   ? STEP_MIN
                  : scratch->size < STEP_MAX ? scratch->size
                                             : STEP_MAX;
    size_t least, wanted = scratch->size + step;
    if (__builtin_add_overflow(size, STEP_MIN - 1, &least))
        return -EFBIG;
    least = least / STEP_MIN * STEP_MIN; // whole pages
    wanted = wanted < least ? least : wanted;
    if (budget_take(scratch->budget, wanted - scratch->size) < 0) {
        wanted = least;
        r = budget_take(scratch->budget, wanted - scratch->size);
        if (r < 0)
            return r;
    }
    size_t more = wanted - scratch->size;
    r = wanted > scratch->mapped && !map_resize(scratch, wanted) ? -ENOMEM : 0;
    if (r == 0)
        r = -posix_fallocate(scratch->fd, (off_t)scratch->size, (off_t)more);
    if (r == 0)
        scratch->size = wanted;
    else
        budget_give(scratch->budget, more);
    return r;
}

void scratch_forget(const struct scratch *scratch)
{
    if (scratch->size)
        madvise(scratch->bytes, scratch->size, MADV_DONTNEED);
}

void scratch_done(struct scratch *scratch)
{
    if (scratch->bytes)
        munmap(scratch->bytes, scratch->mapped);
    budget_give(scratch->budget, scratch->size);
    if (scratch->is_open)
        close_fd(scratch->fd);
    *scratch = (struct scratch){0};
}
