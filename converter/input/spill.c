// SPDX-License-Identifier: Apache-2.0
//
// A read-only mapping may be longer than its file, so address space for all that may come is set
// aside once, and pointers into it stay valid while the file grows. Only what was appended may be
// touched.
#include "converter/input/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"

#define MAPPED_MAX ((size_t)(sizeof(size_t) > 4 ? 256ULL << 30 : 1ULL << 29))
#define MAPPED_MIN ((size_t)256 << 20)

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
    if (spill->fd < 0)
        return err_errno(err, -errno, "temporary file in %s", spill->folder);
    for (size_t size = MAPPED_MAX; size >= MAPPED_MIN; size /= 2) {
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, spill->fd, 0);
        if (map == MAP_FAILED)
            continue;
        spill->bytes = map;
        spill->mapped = size;
        return 0;
    }
    return err_errno(err, -ENOMEM, "address space for temporary file");
}

int spill_append(struct spill *spill, const void *bytes, size_t size, struct err *err)
{
    int r = spill->fd < 0 ? spill_open(spill, err) : 0;
    if (r < 0)
        return r;
    if (size > spill->mapped - spill->size)
        return err_set(err, -EFBIG, "temporary file: more than %zu MiB", spill->mapped >> 20);
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

void spill_finish(struct spill *spill)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (spill->size + page - 1) / page * page;
    if (!used || used >= spill->mapped)
        return;
    munmap((void *)(uintptr_t)(spill->bytes + used), spill->mapped - used);
    spill->mapped = used;
    spill->fd = close_fd(spill->fd);
}

void spill_forget(const struct spill *spill)
{
    if (spill->bytes && spill->size)
        madvise((void *)(uintptr_t)spill->bytes, spill->size, MADV_DONTNEED);
}

void spill_done(struct spill *spill)
{
    if (spill->bytes)
        munmap((void *)(uintptr_t)spill->bytes, spill->mapped);
    spill->fd = close_fd(spill->fd);
    free(spill->folder);
    *spill = (struct spill){.fd = -1};
}
