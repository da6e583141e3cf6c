// SPDX-License-Identifier: Apache-2.0
//
// Compressed packets have a largest size, at which they are whole and above which they are damaged.
#include "converter/decode/inflate.h"

#include <errno.h>
#include <zlib.h>

#include "common/elements.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

#define CHUNK_BYTES ((size_t)64 << 10) // the reader's chunk: multiples are bounds
#define BYTES_MAX   (3 * CHUNK_BYTES)

// Returns the result of inflating `size` bytes of `data` with the limit `max`. *ret_size: the
// number of inflated bytes.
static int inflated(uint32_t number, const uint8_t *data, size_t size, uint64_t max,
                    size_t *ret_size)
{
    struct wire_field packets = {.number = number, .data = data, .size = size};
    struct spill spill;
    struct err err = {0};
    assert_int_equal(spill_init(&spill, NULL, &err), 0);
    int r = packets_inflate(&packets, max, &spill, &err);
    *ret_size = spill.size;
    spill_done(&spill);
    return r;
}

static size_t deflated(const uint8_t *bytes, size_t size, uint8_t *ret)
{
    uLongf n = compressBound(BYTES_MAX);
    assert_int_equal(compress2(ret, &n, bytes, size, 1), Z_OK);
    return n;
}

// A frame of one raw block at most 128 KiB long for each step.
static size_t zstd_frame(const uint8_t *bytes, size_t size, uint8_t *ret)
{
    static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58};
    size_t n = sizeof(head);
    memcpy(ret, head, n);
    for (size_t at = 0; at < size || at == 0;) {
        size_t part = size - at < CHUNK_BYTES ? size - at : CHUNK_BYTES;
        bool is_last = at + part == size;
        uint32_t block = (uint32_t)(part << 3) | is_last;
        memcpy(ret + n, &block, 3);
        memcpy(ret + n + 3, bytes + at, part);
        n += 3 + part;
        at += part;
        if (is_last)
            break;
    }
    return n;
}

static void check(uint32_t number, size_t pack(const uint8_t *, size_t, uint8_t *))
{
    static uint8_t bytes[BYTES_MAX], data[BYTES_MAX + 4096];
    static const size_t sizes[] = {1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, BYTES_MAX};
    size_t got;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        size_t n = pack(bytes, sizes[i], data);
        assert_int_equal(inflated(number, data, n, sizes[i], &got), 0);
        assert_int_equal(got, sizes[i]);
        assert_int_equal(inflated(number, data, n, sizes[i] - 1, &got), -EBADMSG);
        assert_in_range(got, 0, sizes[i] - 1 + CHUNK_BYTES);
        assert_int_equal(inflated(number, data, n - 1, sizes[i], &got), -EBADMSG);
    }
    assert_int_equal(inflated(number, data, 0, BYTES_MAX, &got), -EBADMSG);
    assert_int_equal(got, 0);
}

static void deflate_has_a_largest_size(void **state)
{
    (void)state;
    check(PB_TracePacket_compressed_packets, deflated);
}

static void zstd_has_a_largest_size(void **state)
{
    (void)state;
    size_t got;
    uint8_t frame[64];
    size_t n = zstd_frame((const uint8_t *)"x", 1, frame);
    if (inflated(PB_TracePacket_zstd_compressed_packets, frame, n, 1, &got) == -EOPNOTSUPP)
        skip_because("this build has no zstd");
    check(PB_TracePacket_zstd_compressed_packets, zstd_frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deflate_has_a_largest_size),
        cmocka_unit_test(zstd_has_a_largest_size),
    };
    return cmocka_run_group_tests_name("inflate", tests, NULL, NULL);
}
