// SPDX-License-Identifier: Apache-2.0
//
// Room on the disk is taken before it is used, because a write into a mapping cannot fail but by a
// signal.
#include "converter/input/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "converter/input/spill.h"

#define MAPPED_MAX ((size_t)(sizeof(size_t) > 4 ? 256ULL << 30 : 1ULL << 28))
#define MAPPED_MIN ((size_t)64 << 20)
#define STEP_MIN   ((size_t)1 << 20)
#define STEP_MAX   ((size_t)64 << 20)

static int scratch_open(struct scratch *scratch, const char *folder)
{
    int fd = unnamed_open(temporary_folder(folder));
    if (fd < 0)
        return -errno;
    for (size_t size = MAPPED_MAX; size >= MAPPED_MIN; size /= 2) {
        void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (map == MAP_FAILED)
            continue;
        *scratch = (struct scratch){.bytes = map, .mapped = size, .fd = fd};
        return 0;
    }
    close_fd(fd);
    return -ENOMEM;
}

int scratch_reserve(struct scratch *scratch, const char *folder, size_t size)
{
    if (size <= scratch->size)
        return 0;
    int r = scratch->bytes ? 0 : scratch_open(scratch, folder);
    if (r < 0)
        return r;
    size_t step = scratch->size < STEP_MIN   ? STEP_MIN
                  : scratch->size < STEP_MAX ? scratch->size
                                             : STEP_MAX;
    if (size > scratch->mapped)
        return -EFBIG;
    size_t wanted = size > scratch->size + step ? size : scratch->size + step;
    if (wanted > scratch->mapped)
        wanted = scratch->mapped;
    r = posix_fallocate(scratch->fd, (off_t)scratch->size, (off_t)(wanted - scratch->size));
    if (r == 0)
        scratch->size = wanted;
    return -r;
}

void scratch_forget(const struct scratch *scratch)
{
    if (scratch->size)
        madvise(scratch->bytes, scratch->size, MADV_DONTNEED);
}

void scratch_done(struct scratch *scratch)
{
    if (!scratch->bytes)
        return;
    munmap(scratch->bytes, scratch->mapped);
    close_fd(scratch->fd);
    *scratch = (struct scratch){0};
}
