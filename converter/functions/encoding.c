// SPDX-License-Identifier: Apache-2.0
//
// Functions that convert bytes to text and back (hexadecimal numbers, base64), hashes, and zstd.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/elements.h"
#include "common/fnv.h"
#include "common/text.h"
#include "converter/functions/functions.h"
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

SQLITE_EXTENSION_INIT3

#define ZSTD_LEVEL       9
#define UNZSTD_BYTES_MAX (512 << 20)

// Makes the result FNV-1a over the bytes of the values, one after another. A number has eight
// bytes, NULL no bytes.
static void hash(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    uint64_t value = FNV_BEGIN;
    for (int i = 0; i < argc; i++) {
        unsigned char number[8];
        const unsigned char *bytes = number;
        int type = sqlite3_value_type(argv[i]), n = 0;
        if (type == SQLITE_INTEGER) {
            int64_t integer = sqlite3_value_int64(argv[i]);
            memcpy(number, &integer, n = sizeof(integer));
        } else if (type == SQLITE_FLOAT) {
            double real = sqlite3_value_double(argv[i]);
            memcpy(number, &real, n = sizeof(real));
        } else if (type != SQLITE_NULL) {
            bytes = sqlite3_value_blob(argv[i]);
            n = bytes ? sqlite3_value_bytes(argv[i]) : 0;
        }
        value = fnv_add(value, bytes, (size_t)n);
    }
    sqlite3_result_int64(context, (int64_t)value);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// As in Perfetto, reads a hexadecimal number: with or without 0x, a sign, and blanks around it.
static void unhex(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    uint64_t value = 0;
    if (!text)
        return;
    const char *end = text + strlen(text);
    while (is_blank(*text))
        text++;
    while (end > text && is_blank(end[-1]))
        end--;
    if (end - text >= 2 && text[0] == '0' && (text[1] | 0x20) == 'x')
        text += 2;
    bool is_negative = text < end && *text == '-';
    text += is_negative ? 1 : 0;
    bool good = text < end;
    for (; text < end && good; text++) {
        int digit = hex_digit(*text);
        good = digit >= 0 && !(value >> 60);
        value = value << 4 | (unsigned)digit;
    }
    good = good && value <= (uint64_t)INT64_MAX + is_negative;
    if (good)
        sqlite3_result_int64(context, (int64_t)(is_negative ? -value : value));
    else
        sqlite3_result_error(context, "UNHEX: not a hexadecimal number of 64 bits", -1);
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_encode(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const unsigned char *bytes = sqlite3_value_blob(argv[0]);
    int n = sqlite3_value_bytes(argv[0]);
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
        return;
    char *out = sqlite3_malloc64((uint64_t)n / 3 * 4 + 5), *at = out;
    if (!out) {
        sqlite3_result_error_nomem(context);
        return;
    }
    for (int i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (i + 2 < n ? bytes[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            *at++ = i + k <= n ? base64_digits[three >> (18 - 6 * k) & 63] : '=';
    }
    sqlite3_result_text(context, out, (int)(at - out), sqlite3_free);
}

static void base64_decode(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    unsigned char *out = text ? sqlite3_malloc64(strlen(text) + 1) : NULL;
    if (!out)
        return;
    uint32_t bits = 0;
    int n_bits = 0, n = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(base64_digits, *text);
        if (!digit) {
            sqlite3_free(out);
            sqlite3_result_error(context, "BASE64_DECODE: not base64", -1);
            return;
        }
        bits = bits << 6 | (uint32_t)(digit - base64_digits);
        n_bits += 6;
        if (n_bits >= 8)
            out[n++] = (unsigned char)(bits >> (n_bits -= 8));
    }
    sqlite3_result_blob(context, out, n, sqlite3_free);
}

// Returns the bytes of a text or blob. Returns NULL for the value NULL, and NULL with an error for
// a value of another type.
static const void *bytes_of(sqlite3_context *context, sqlite3_value *value, int *ret_n)
{
    int type = sqlite3_value_type(value);
    const void *bytes = NULL;
    if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
        bytes = sqlite3_value_blob(value);
        *ret_n = bytes ? sqlite3_value_bytes(value) : 0;
        return bytes ? bytes : "";
    }
    if (type != SQLITE_NULL)
        sqlite3_result_error(context, "ZSTD: a text or bytes are expected", -1);
    return NULL;
}

#ifdef HAVE_ZSTD

static void zstd_compress(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int n = 0;
    const void *bytes = bytes_of(context, argv[0], &n);
    if (!bytes)
        return;
    size_t bound = ZSTD_compressBound((size_t)n);
    void *out = sqlite3_malloc64(bound);
    if (!out) {
        sqlite3_result_error_nomem(context);
        return;
    }
    size_t size = ZSTD_compress(out, bound, bytes, (size_t)n, ZSTD_LEVEL);
    if (ZSTD_isError(size)) {
        sqlite3_free(out);
        sqlite3_result_error(context, "ZSTD: the bytes could not be compressed", -1);
        return;
    }
    sqlite3_result_blob64(context, out, size, sqlite3_free);
}

// Appends the output of the stream. Returns false if the function has reported an error.
static bool unzstd(sqlite3_context *context, ZSTD_DStream *stream, ZSTD_inBuffer *in,
                   sqlite3_str *out)
{
    char chunk[16384];
    size_t left = 1;
    while (left > 0 && sqlite3_str_errcode(out) == SQLITE_OK) {
        ZSTD_outBuffer to = {chunk, sizeof(chunk), 0};
        size_t before = in->pos;
        left = ZSTD_decompressStream(stream, &to, in);
        if (ZSTD_isError(left) || (in->pos == before && to.pos == 0)) {
            sqlite3_result_error(context, "ZSTD: not a whole zstd frame", -1);
            return false;
        }
        sqlite3_str_append(out, chunk, (int)to.pos);
        if (sqlite3_str_length(out) > UNZSTD_BYTES_MAX) {
            sqlite3_result_error_toobig(context);
            return false;
        }
    }
    return true;
}

static void zstd_decompress(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int n = 0;
    const void *bytes = bytes_of(context, argv[0], &n);
    if (!bytes)
        return;
    ZSTD_inBuffer in = {bytes, (size_t)n, 0};
    ZSTD_DStream *stream = ZSTD_createDStream();
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    if (!stream)
        sqlite3_result_error_nomem(context);
    else if (unzstd(context, stream, &in, out) && sqlite3_str_errcode(out) == SQLITE_OK)
        sqlite3_result_blob64(context, sqlite3_str_length(out) ? sqlite3_str_value(out) : "",
                              (uint64_t)sqlite3_str_length(out), SQLITE_TRANSIENT);
    else if (sqlite3_str_errcode(out) != SQLITE_OK)
        sqlite3_result_error_code(context, sqlite3_str_errcode(out));
    sqlite3_free(sqlite3_str_finish(out));
    ZSTD_freeDStream(stream);
}

#else

static void zstd_missing(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int n;
    if (bytes_of(context, argv[0], &n))
        sqlite3_result_error(context, "ZSTD: this build has no libzstd", -1);
}

#define zstd_compress   zstd_missing
#define zstd_decompress zstd_missing

#endif

int encoding_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"hash", -1, hash, 0},
        {"unhex", 1, unhex, IS_INTRINSIC},
        {"base64_encode", 1, base64_encode, IS_INTRINSIC},
        {"base64_decode", 1, base64_decode, IS_INTRINSIC},
        {"__intrinsic_zstd_compress", 1, zstd_compress, 0},
        {"__intrinsic_zstd_decompress", 1, zstd_decompress, 0},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
