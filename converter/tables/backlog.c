// SPDX-License-Identifier: Apache-2.0
//
// Ids are dense, so an array is the index. The log starts from 0 again when no row waits.
#include "converter/tables/backlog.h"

#include <errno.h>
#include <string.h>

#define IDS_MAX      ((int64_t)1 << 33)
#define FORGET_BYTES ((size_t)4 << 20)

static uint64_t *index_at(const struct backlog *backlog, int64_t id)
{
    return (uint64_t *)(void *)backlog->index.bytes + id;
}

// Counts bytes that were written or read. Reads count, too: they map other pages than the writes.
static void used_note(struct backlog *backlog, size_t n_bytes)
{
    backlog->n_used += n_bytes;
    if (backlog->n_used < FORGET_BYTES)
        return;
    scratch_forget(&backlog->log);
    scratch_forget(&backlog->index);
    backlog->n_used = 0;
}

int backlog_put(struct backlog *backlog, const char *folder, int64_t id,
                const struct record *record)
{
    if (id < 0 || id >= IDS_MAX)
        return -ERANGE;
    uint32_t size = (uint32_t)record->size;
    int r = scratch_reserve(&backlog->index, folder, ((size_t)id + 1) * sizeof(uint64_t));
    if (r == 0)
        r = scratch_reserve(&backlog->log, folder, backlog->n_log + sizeof(size) + size);
    if (r == 0 && *index_at(backlog, id))
        r = -EEXIST;
    if (r < 0)
        return r;
    used_note(backlog, sizeof(size) + size);
    *index_at(backlog, id) = backlog->n_log + 1;
    memcpy(backlog->log.bytes + backlog->n_log, &size, sizeof(size));
    record_write(record, backlog->log.bytes + backlog->n_log + sizeof(size));
    backlog->n_log += sizeof(size) + size;
    backlog->n++;
    if (id > backlog->last)
        backlog->last = id;
    return 0;
}

bool backlog_take(struct backlog *backlog, int64_t id, struct record *ret)
{
    if (!backlog->n || id > backlog->last)
        return false;
    uint64_t *at = index_at(backlog, id);
    if (!*at)
        return false;
    const uint8_t *entry = backlog->log.bytes + *at - 1;
    uint32_t size;
    memcpy(&size, entry, sizeof(size));
    ret->ready = entry + sizeof(size);
    ret->size = size;
    *at = 0;
    used_note(backlog, sizeof(size) + size); // reading maps the record's pages again
    if (--backlog->n == 0)
        backlog->n_log = 0;
    return true;
}

void backlog_done(struct backlog *backlog)
{
    scratch_done(&backlog->log);
    scratch_done(&backlog->index);
    *backlog = (struct backlog){0};
}
