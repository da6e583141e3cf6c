// SPDX-License-Identifier: Apache-2.0
//
// A list is used whole or not at all: its size and checksum must match the directory. The size in
// the directory limits the inflated size, and the caller limits the size in the directory, before
// anything is read.
#include "producer/pintool/embedded_list.h"

#include <errno.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/text.h"

#define STORED      0
#define DEFLATED    8
#define CHUNK_BYTES 4096

bool embedded_list_is_zip(const void *bytes, size_t size)
{
    struct text head = {bytes, size};
    return text_starts_with(head, TEXT("PK\3\4")) || text_starts_with(head, TEXT("PK\5\6"));
}

struct unpacking {
    const struct zipindex_source *source; // borrowed
    const struct zipindex_entry *entry;   // borrowed
    const char *name;
    struct strbuf *ret;
    uint64_t n_unpacked;
    uLong crc;
    struct err *err;
};

static int broken(const struct unpacking *u, const char *why)
{
    return err_set(u->err, -EBADMSG, "%s: " EMBEDDED_LIST_NAME ": %s", u->name, why);
}

static int take(struct unpacking *u, const uint8_t *bytes, size_t size)
{
    if (size > u->entry->uncompressed_bytes - u->n_unpacked)
        return broken(u, "more data than the directory of the zip says");
    strbuf_add(u->ret, bytes, size);
    u->n_unpacked += size;
    u->crc = crc32(u->crc, bytes, (uInt)size);
    return u->ret->failed ? err_errno(u->err, -ENOMEM, "%s", u->name) : 0;
}

// Inflates from the available bytes. *ret_end: the data have ended.
static int inflate_some(struct unpacking *u, z_stream *z, bool *ret_end)
{
    uint8_t out[CHUNK_BYTES];
    int code, r = 0;
    do {
        z->next_out = out;
        z->avail_out = sizeof(out);
        code = inflate(z, Z_NO_FLUSH);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return code == Z_MEM_ERROR ? err_errno(u->err, -ENOMEM, "%s", u->name)
                                       : broken(u, "the deflated data are damaged");
        r = take(u, out, sizeof(out) - z->avail_out);
    } while (r == 0 && code == Z_OK && z->avail_out == 0);
    if (r == 0)
        *ret_end = code == Z_STREAM_END;
    return r;
}

static int unpack(struct unpacking *u, z_stream *z)
{
    uint8_t chunk[CHUNK_BYTES];
    uint64_t at = u->entry->offset, rest = u->entry->size_bytes;
    bool end = !z;
    while (rest) {
        size_t n = rest < sizeof(chunk) ? (size_t)rest : sizeof(chunk);
        int r = u->source->read(u->source->userdata, at, chunk, n);
        if (r < 0)
            return err_errno(u->err, r, "%s", u->name);
        at += n;
        rest -= n;
        if (!z) {
            r = take(u, chunk, n);
        } else {
            z->next_in = chunk;
            z->avail_in = (uInt)n;
            r = inflate_some(u, z, &end);
            if (r == 0 && end && (rest || z->avail_in))
                return broken(u, "something stands after the deflated data");
        }
        if (r < 0)
            return r;
    }
    if (!end || u->n_unpacked != u->entry->uncompressed_bytes)
        return broken(u, "less data than the directory of the zip says");
    return u->crc == u->entry->crc32 ? 0 : broken(u, "its checksum is wrong");
}

static int find(const struct zipindex *index, const char *name, const struct zipindex_entry **ret,
                struct err *err)
{
    const struct zipindex_entry *found = NULL;
    vec_foreach(&index->entries, entry) {
        if (!str_eq(entry->name, EMBEDDED_LIST_NAME))
            continue;
        if (found)
            return err_set(err, -EBADMSG, "%s: " EMBEDDED_LIST_NAME " is there twice", name);
        found = entry;
    }
    if (found) {
        *ret = found;
        return 0;
    }
    if (index->n_damaged)
        return err_set(err, -ENOENT, "%s: no " EMBEDDED_LIST_NAME " in it; %zu entries are damaged",
                       name, index->n_damaged);
    err_set(err, -ENOENT, "%s: no " EMBEDDED_LIST_NAME " in it", name);
    return err_hint(err, -ENOENT, "pintool file APP.apk --zip --gen-probe -o PINLIST makes a list");
}

int embedded_list_read(const struct zipindex_source *source, const struct zipindex *index,
                       const char *name, size_t max_bytes, struct strbuf *ret, struct err *err)
{
    struct unpacking u = {.source = source, .name = name, .ret = ret, .err = err};
    int r = find(index, name, &u.entry, err);
    if (r < 0)
        return r;
    if (u.entry->uncompressed_bytes > max_bytes || u.entry->size_bytes > max_bytes)
        return err_set(err, -EFBIG, "%s: " EMBEDDED_LIST_NAME ": larger than %zu MiB", name,
                       max_bytes >> 20);
    if (u.entry->method == STORED)
        return unpack(&u, NULL);
    if (u.entry->method != DEFLATED)
        return err_set(err, -ENOTSUP,
                       "%s: " EMBEDDED_LIST_NAME ": compressed by method %u; stored and deflated "
                       "ones are read",
                       name, u.entry->method);
    z_stream z = {0};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return err_errno(err, -ENOMEM, "%s", name);
    r = unpack(&u, &z);
    inflateEnd(&z);
    return r;
}
