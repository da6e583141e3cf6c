// SPDX-License-Identifier: Apache-2.0
#include "producer/pintool/listed_file.h"

#include <errno.h>
#include <fcntl.h>

#include "common/cleanup.h"
#include "producer/pintool/pinlist_file.h"
#include "producer/pintool/zip_source.h"
#include "producer/sources/residency/probe.h"

static int clip(const struct page_ranges *bytes, struct listed_file *file)
{
    vec_foreach(bytes, range) {
        uint64_t start = range->start, end = range->end;
        if (end > file->size_bytes) {
            uint64_t from = start > file->size_bytes ? start : file->size_bytes;
            file->n_missing_bytes += end - from;
            end = from < end ? from : end;
        }
        if (start >= end)
            continue;
        uint64_t behind = (end - 1) / file->page_size + 1;
        int r = page_ranges_append(&file->pages, start / file->page_size, behind);
        if (r < 0)
            return r;
    }
    return 0;
}

// The list belongs to a zip and this file is not a zip: that is enough.
static int check_build(const char *list_path, const struct list_source *source,
                       struct listed_file *file, struct err *err)
{
    CLEANUP(residency_probe_freep) struct residency_probe *probe = NULL;
    CLEANUP(zipindex_done) struct zipindex zip = {0};
    int r = source->known ? residency_probe_new(RESIDENCY_AUTO, &probe) : 0;
    if (r == 0 && source->known)
        r = zip_source_index(probe, file->fd, file->size_bytes, file->path, &zip, NULL);
    if (r == 0 || r == -EBADMSG)
        r = list_source_check(source, &zip, list_path, file->path, 0, &file->other_build);
    else
        err_errno(err, r, "%s", file->path);
    return r < 0 ? r : 0;
}

int listed_file_open(const char *list_path, const char *path, struct listed_file *ret,
                     struct err *err)
{
    *ret =
        (struct listed_file){.fd = -1, .path = path, .page_size = (uint64_t)sysconf(_SC_PAGESIZE)};
    CLEANUP(pinlist_done) struct pinlist list = {0};
    CLEANUP(list_source_done) struct list_source source = {0};
    CLEANUP(page_ranges_done) struct page_ranges bytes = {0};
    int r = pinlist_file_read(list_path, &list, &source, err);
    if (r < 0)
        return r;
    r = pinlist_to_ranges(&list, &bytes);
    if (r < 0)
        return err_errno(err, r, "%s", list_path);
    struct stat st;
    r = residency_open(AT_FDCWD, path, &ret->fd, &st);
    if (r == -EINVAL)
        return err_set(err, r, "%s: not a regular file", path);
    if (r < 0)
        return err_errno(err, r, "%s", path);
    ret->size_bytes = (uint64_t)st.st_size;
    r = clip(&bytes, ret);
    if (r < 0)
        err_errno(err, r, "%s", list_path);
    else
        r = check_build(list_path, &source, ret, err);
    if (r < 0)
        listed_file_done(ret);
    return r;
}

void listed_file_done(struct listed_file *file)
{
    file->fd = close_fd(file->fd);
    page_ranges_done(&file->pages);
}

uint64_t listed_file_bytes(const struct listed_file *file)
{
    return page_ranges_count(&file->pages) * file->page_size;
}
