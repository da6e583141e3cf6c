// SPDX-License-Identifier: Apache-2.0
//
// Each library works in chunks. A file of a format with a window states the memory that the decoder
// needs, and can state any amount. Therefore the memory is limited. The limits suffice for the
// output of the programs zstd (--ultra -22) and xz (-9).
#include "converter/input/unpack.h"

#include <stdlib.h>
#include <zlib.h>

#ifdef HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef HAVE_LZMA
#include <lzma.h>
#endif

#include "common/elements.h"
#include "common/memory.h"

#define WINDOW_LOG_MAX 27 // 128 MiB
#define LZMA_BYTES_MAX ((uint64_t)128 << 20)
#define GZIP_WINDOW    (15 + 16)

static void *gzip_open(void)
{
    z_stream *z = memory_calloc(1, sizeof(*z));
    if (z && inflateInit2(z, GZIP_WINDOW) == Z_OK)
        return z;
    free(z);
    return NULL;
}

static enum unpack_state gzip_step(void *state, struct unpack_step *step)
{
    z_stream *z = state;
    z->next_in = (Bytef *)(uintptr_t)step->in;
    z->avail_in = (uInt)(step->in_end - step->in);
    z->next_out = step->out;
    z->avail_out = (uInt)(step->out_end - step->out);
    int code = inflate(z, Z_NO_FLUSH);
    step->in = z->next_in;
    step->out = z->next_out;
    switch (code) {
    case Z_OK:
        return UNPACK_MORE;
    case Z_STREAM_END:
        return UNPACK_END;
    case Z_BUF_ERROR:
        return UNPACK_CUT;
    case Z_MEM_ERROR:
        return UNPACK_NO_MEMORY;
    default:
        return UNPACK_BAD;
    }
}

static void gzip_close(void *state)
{
    if (state)
        inflateEnd(state);
    free(state);
}

#ifdef HAVE_ZSTD

static void *zstd_open(void)
{
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    if (zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
        return zstd;
    ZSTD_freeDCtx(zstd);
    return NULL;
}

static enum unpack_state zstd_step(void *state, struct unpack_step *step)
{
    ZSTD_inBuffer in = {.src = step->in, .size = (size_t)(step->in_end - step->in)};
    ZSTD_outBuffer out = {.dst = step->out, .size = (size_t)(step->out_end - step->out)};
    size_t code = ZSTD_decompressStream(state, &out, &in);
    step->in += in.pos;
    step->out += out.pos;
    if (code == 0)
        return UNPACK_END;
    if (!ZSTD_isError(code))
        return in.pos || out.pos ? UNPACK_MORE : UNPACK_CUT;
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_frameParameter_windowTooLarge:
        return UNPACK_TOO_LARGE;
    case ZSTD_error_memory_allocation:
        return UNPACK_NO_MEMORY;
    default:
        return UNPACK_BAD;
    }
}

static void zstd_close(void *state)
{
    ZSTD_freeDCtx(state);
}

#endif

#ifdef HAVE_LZMA

static void *xz_open(void)
{
    static const lzma_stream none = LZMA_STREAM_INIT;
    lzma_stream *xz = memory_malloc(sizeof(*xz));
    if (!xz)
        return NULL;
    *xz = none;
    if (lzma_stream_decoder(xz, LZMA_BYTES_MAX, 0) == LZMA_OK)
        return xz;
    free(xz);
    return NULL;
}

static enum unpack_state xz_step(void *state, struct unpack_step *step)
{
    lzma_stream *xz = state;
    xz->next_in = step->in;
    xz->avail_in = (size_t)(step->in_end - step->in);
    xz->next_out = step->out;
    xz->avail_out = (size_t)(step->out_end - step->out);
    lzma_ret code = lzma_code(xz, LZMA_RUN);
    step->in = xz->next_in;
    step->out = xz->next_out;
    switch (code) {
    case LZMA_OK:
        return UNPACK_MORE;
    case LZMA_STREAM_END:
        return UNPACK_END;
    case LZMA_BUF_ERROR:
        return UNPACK_CUT;
    case LZMA_MEMLIMIT_ERROR:
        return UNPACK_TOO_LARGE;
    case LZMA_MEM_ERROR:
        return UNPACK_NO_MEMORY;
    default:
        return UNPACK_BAD;
    }
}

static void xz_close(void *state)
{
    if (state)
        lzma_end(state);
    free(state);
}

#endif

static const struct codec codecs[] = {
    {KIND_GZIP, gzip_open, gzip_step, gzip_close},
#ifdef HAVE_ZSTD
    {KIND_ZSTD, zstd_open, zstd_step, zstd_close},
#endif
#ifdef HAVE_LZMA
    {KIND_XZ, xz_open, xz_step, xz_close},
#endif
};

const struct codec *codec_of(enum kind_id kind)
{
    for (size_t i = 0; i < ELEMENTS(codecs); i++)
        if (codecs[i].kind == kind)
            return &codecs[i];
    return NULL;
}
