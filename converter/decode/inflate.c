// SPDX-License-Identifier: Apache-2.0
//
// Both libraries work in chunks, so the memory does not depend on the inflated size. A zstd frame
// states the size of the window that the decoder must keep. A window above 8 MiB, the size that the
// format recommends for every decoder, is refused.
#include "converter/decode/inflate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "common/cleanup.h"
#include "common/memory.h"
#include "protos/fields.h"

#define CHUNK          ((size_t)64 << 10)
#define WINDOW_LOG_MAX 23

static int deflate_inflate(const struct wire_field *packets, uint64_t max, uint8_t *chunk,
                           struct spill *to, struct err *err)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packets->data, .avail_in = (uInt)packets->size};
    if (inflateInit(&z) != Z_OK)
        return -ENOMEM;
    size_t start = to->size;
    int code = Z_OK, r = 0;
    while (r == 0 && code == Z_OK && to->size - start <= max) {
        z.next_out = chunk;
        z.avail_out = (uInt)CHUNK;
        code = inflate(&z, Z_NO_FLUSH);
        r = spill_append(to, chunk, CHUNK - z.avail_out, err);
    }
    inflateEnd(&z);
    bool is_whole = code == Z_STREAM_END && to->size - start <= max;
    return r == 0 && !is_whole ? -EBADMSG : r;
}

#ifdef HAVE_ZSTD

static void zstd_freep(ZSTD_DCtx **zstd)
{
    ZSTD_freeDCtx(*zstd);
}

static int zstd_inflate(const struct wire_field *packets, uint64_t max, uint8_t *chunk,
                        struct spill *to, struct err *err)
{
    CLEANUP(zstd_freep) ZSTD_DCtx *zstd = ZSTD_createDCtx();
    if (!zstd || ZSTD_isError(ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        return -ENOMEM;
    ZSTD_inBuffer in = {.src = packets->data, .size = packets->size};
    size_t start = to->size;
    bool is_whole = false; // at the end of a frame
    for (;;) {
        ZSTD_outBuffer out = {.dst = chunk, .size = CHUNK};
        size_t code = ZSTD_decompressStream(zstd, &out, &in);
        int r = spill_append(to, chunk, out.pos, err);
        if (r < 0)
            return r;
        is_whole = code == 0;
        if (ZSTD_isError(code) || to->size - start > max)
            return -EBADMSG;
        if (in.pos == in.size && (is_whole || out.pos < out.size))
            return is_whole ? 0 : -EBADMSG;
    }
}

#else

static int zstd_inflate(const struct wire_field *packets, uint64_t max, uint8_t *chunk,
                        struct spill *to, struct err *err)
{
    (void)packets, (void)max, (void)chunk, (void)to, (void)err;
    return -EOPNOTSUPP;
}

#endif

int packets_inflate(const struct wire_field *packets, uint64_t max, struct spill *to,
                    struct err *err)
{
    CLEANUP(freep) uint8_t *chunk = memory_malloc(CHUNK);
    if (!chunk)
        return err_errno(err, -ENOMEM, "Compressed packets");
    if (packets->number == PB_TracePacket_zstd_compressed_packets)
        return zstd_inflate(packets, max, chunk, to, err);
    return deflate_inflate(packets, max, chunk, to, err);
}
