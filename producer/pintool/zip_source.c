// SPDX-License-Identifier: Apache-2.0
//
// Each block is probed before it is read, and dropped afterwards if it was absent. Read-ahead is
// off, so that no other page comes in. A block whose residency is unknown stays in the cache.
#include "producer/pintool/zip_source.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/cleanup.h"

static bool is_absent(struct zip_source *source, uint64_t first_page, uint64_t end_page)
{
    struct residency_walk walk = {.next = first_page, .end = end_page};
    page_ranges_clear(&source->found);
    return residency_probe_walk(source->probe, source->fd, &walk, NSEC_MAX, &source->found) == 0 &&
           source->found.n == 0;
}

static int source_read(void *userdata, uint64_t offset, void *ret, size_t size)
{
    struct zip_source *source = userdata;
    uint64_t page_size = residency_page_size(source->probe);
    uint64_t first = offset / page_size, end = (offset + size - 1) / page_size + 1;
    bool absent = is_absent(source, first, end);
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(source->fd, (char *)ret + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE; // the file has shrunk
        done += (size_t)n;
    }
    if (absent)
        posix_fadvise(source->fd, (off_t)(first * page_size), (off_t)((end - first) * page_size),
                      POSIX_FADV_DONTNEED);
    return 0;
}

struct zipindex_source zip_source_bytes(struct zip_source *source, uint64_t size_bytes)
{
    posix_fadvise(source->fd, 0, 0, POSIX_FADV_RANDOM);
    return (struct zipindex_source){
        .size_bytes = size_bytes, .read = source_read, .userdata = source};
}

void zip_source_done(struct zip_source *source)
{
    page_ranges_done(&source->found);
}

int zip_source_index(struct residency_probe *probe, int fd, uint64_t size_bytes, const char *name,
                     struct zipindex *ret, struct err *err)
{
    CLEANUP(zip_source_done) struct zip_source source = {.probe = probe, .fd = fd};
    struct zipindex_source bytes = zip_source_bytes(&source, size_bytes);
    return zipindex_read(&bytes, name, ret, err);
}
