// SPDX-License-Identifier: Apache-2.0
//
// A read-only mapping may be longer than its file, so a part of the file is mapped before it is
// written, and pointers into the part stay valid while the file grows. The parts double in size: a
// small file takes little address space, and a large file has few parts. Only appended bytes may be
// read.
#include "converter/ground/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"

#define PART_MIN ((size_t)1 << 20)
#define PART_MAX ((size_t)(sizeof(size_t) > 4 ? 1ULL << 30 : 1ULL << 26))

const char *temporary_folder(const char *folder)
{
    if (!folder)
        folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

int spill_init(struct spill *spill, const char *folder, struct err *err)
{
    *spill = (struct spill){.fd = -1};
    spill->folder = strdup(temporary_folder(folder));
    return spill->folder ? 0 : err_errno(err, -ENOMEM, "temporary file");
}

int unnamed_open(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "%s/mmsql.XXXXXX", folder) < 0) {
        path = NULL;
        errno = ENOMEM;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int spill_open(struct spill *spill, struct err *err)
{
    spill->fd = unnamed_open(spill->folder);
    return spill->fd < 0 ? err_errno(err, -errno, "temporary file in %s", spill->folder) : 0;
}

int spill_append(struct spill *spill, const void *bytes, size_t size, struct err *err)
{
    int r = spill->fd < 0 ? spill_open(spill, err) : 0;
    if (r < 0)
        return r;
    r = budget_take(spill->budget, size);
    if (r < 0)
        return err_set(err, r, "temporary file: --max-output is reached");
    const uint8_t *from = bytes;
    while (size) {
        ssize_t n = pwrite(spill->fd, from, size, (off_t)spill->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "temporary file in %s", spill->folder);
        from += n;
        size -= (size_t)n;
        spill->size += (size_t)n;
    }
    return 0;
}

static bool part_map(struct spill *spill, size_t offset, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, spill->fd, (off_t)offset);
    if (map == MAP_FAILED)
        return false;
    struct spill_part part = {.bytes = map, .offset = offset, .size = size};
    if (spill_parts_push(&spill->parts, part) == 0)
        return true;
    munmap(map, size);
    return false;
}

static size_t in_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

// Maps the bytes from `offset` on: at least `size` bytes, and more if the address space allows.
static int part_add(struct spill *spill, size_t offset, size_t size, struct err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = offset / page * page;
    size_t least = in_pages(offset - first + size), wanted = PART_MIN;
    if (spill->parts.n)
        wanted = 2 * spill->parts.items[spill->parts.n - 1].size;
    if (wanted > PART_MAX)
        wanted = PART_MAX;
    for (; wanted > least; wanted /= 2)
        if (part_map(spill, first, wanted))
            return 0;
    if (part_map(spill, first, least))
        return 0;
    return err_errno(err, -ENOMEM, "address space for %zu MiB of temporary data",
                     (least >> 20) + 1);
}

static bool part_has(const struct spill_part *part, size_t offset, size_t size)
{
    return offset >= part->offset && offset - part->offset <= part->size &&
           size <= part->size - (offset - part->offset);
}

int spill_view(struct spill *spill, size_t offset, size_t size, const uint8_t **ret,
               struct err *err)
{
    const struct spill_part *last = spill->parts.n ? &spill->parts.items[spill->parts.n - 1] : NULL;
    if (!last || !part_has(last, offset, size)) {
        int r = part_add(spill, offset, size, err);
        if (r < 0)
            return r;
        last = &spill->parts.items[spill->parts.n - 1];
    }
    *ret = last->bytes + (offset - last->offset);
    return 0;
}

int spill_finish(struct spill *spill, const uint8_t **ret, struct err *err)
{
    if (!spill->size) {
        *ret = NULL;
        return 0;
    }
    if (!part_map(spill, 0, in_pages(spill->size)))
        return err_errno(err, -ENOMEM, "address space for %zu MiB of temporary data",
                         (spill->size >> 20) + 1);
    *ret = spill->parts.items[spill->parts.n - 1].bytes;
    spill->fd = close_fd(spill->fd);
    return 0;
}

// Leaves out the end of the last part: beyond the end of the file, no pages exist.
void spill_forget(const struct spill *spill)
{
    vec_foreach(&spill->parts, part) {
        size_t there = spill->size > part->offset ? spill->size - part->offset : 0;
        madvise((void *)(uintptr_t)part->bytes, there < part->size ? there : part->size,
                MADV_DONTNEED);
    }
}

void spill_done(struct spill *spill)
{
    vec_foreach(&spill->parts, part)
        munmap((void *)(uintptr_t)part->bytes, part->size);
    spill_parts_done(&spill->parts);
    budget_give(spill->budget, spill->size);
    spill->fd = close_fd(spill->fd);
    free(spill->folder);
    *spill = (struct spill){.fd = -1};
}
