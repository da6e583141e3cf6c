// SPDX-License-Identifier: Apache-2.0
#include "producer/trace/trace_repair.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

#define PACKET "\x0a\x02\x08\x07" // Trace.packet { timestamp-like field 1: 7 }
#define SIZE   (sizeof(PACKET) - 1)

static int file_with(const void *bytes, size_t size)
{
    int fd = memfd_create("part", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
    return fd;
}

static uint64_t size_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_size;
}

// Returns the mark's value; the file has nothing after the mark.
static uint64_t marked_at(int fd, uint64_t offset)
{
    uint8_t bytes[128];
    ssize_t n = pread(fd, bytes, sizeof(bytes), (off_t)offset);
    struct wire_reader reader = wire_reader_over(bytes, (size_t)n);
    struct wire_field packet, mark, field;
    assert_true(wire_next(&reader, &packet));
    assert_true(reader.pos == reader.end);
    reader = wire_sub(&packet);
    assert_true(wire_next(&reader, &mark));
    assert_int_equal(mark.number, PB_TracePacket_recording_cut);
    reader = wire_sub(&mark);
    assert_true(wire_next(&reader, &field));
    assert_int_equal(field.number, PB_RecordingCut_cut_bytes);
    return field.value;
}

static void check(const void *bytes, size_t size, uint64_t packets, uint64_t good)
{
    struct trace_repair repair;
    int fd = file_with(bytes, size);
    assert_int_equal(trace_repair(fd, 0, &repair), 0);
    assert_int_equal(repair.packets, packets);
    assert_int_equal(repair.bytes, good);
    assert_int_equal(repair.cut_bytes, size - good);
    if (good == 0)
        assert_int_equal(size_of(fd), 0);
    else
        assert_int_equal(marked_at(fd, good), size - good);
    close(fd);
}

static void test_ends(void **state)
{
    (void)state;
    check("", 0, 0, 0);
    check(PACKET PACKET, 2 * SIZE, 2, 2 * SIZE);
    for (size_t cut = 1; cut < SIZE; cut++) // cut at each place of the third packet
        check(PACKET PACKET PACKET, 2 * SIZE + cut, 2, 2 * SIZE);
    check("\x0a", 1, 0, 0);
    check("not a trace", 11, 0, 0);
    // Blocks that were never written, at a border and inside of a packet.
    check(PACKET "\0\0\0\0\0\0\0\0", SIZE + 8, 1, SIZE);
    check(PACKET "\x0a\x04\0\0\0\0", SIZE + 6, 1, SIZE);
    // A length larger than any file.
    check(PACKET "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", SIZE + 11, 1, SIZE);
    check(PACKET "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", SIZE + 12, 1, SIZE);
}

// Windows cut the packets at all places. One packet is larger than a window.
static void test_windows(void **state)
{
    static uint8_t bytes[(5 << 20) + 64];
    (void)state;
    for (size_t body = 1021; body < 1024; body++) {
        size_t n = 0;
        uint64_t packets = 0;
        while (n < ((size_t)2 << 20)) {
            uint8_t *p = bytes + n;
            *p++ = 0x0a;
            p = wire_put_varint(p, body);
            *p = 0x12; // a field with the rest
            uint8_t *end = wire_put_varint(p + 1, body - 3);
            assert_true(end == p + 3);
            memset(end, 'x', body - 3);
            n = (size_t)(end + body - 3 - bytes);
            packets++;
        }
        check(bytes, n, packets, n);
        check(bytes, n - 1, packets - 1, n - body - 3);
    }
    size_t body = (size_t)4 << 20;
    bytes[0] = 0x0a;
    uint8_t *p = wire_put_varint(bytes + 1, body);
    size_t n = (size_t)(p - bytes) + body;
    memcpy(bytes + n, PACKET, SIZE);
    check(bytes, n + SIZE, 2, n + SIZE);
    check(bytes, n - 1, 0, 0);
}

static void test_after_other_data(void **state)
{
    (void)state;
    struct trace_repair repair;
    int fd = file_with("head" PACKET "\x0a", 4 + SIZE + 1);
    assert_int_equal(trace_repair(fd, 4, &repair), 0);
    assert_int_equal(repair.bytes, SIZE);
    assert_int_equal(marked_at(fd, 4 + SIZE), 1);
    assert_int_equal(trace_repair(fd, 4096, &repair), -EINVAL);
    close(fd);
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(trace_repair(fd, 0, &repair), -EINVAL);
    close(fd);
}

// A file that cannot grow is like a file on a full disk.
static void test_no_room_for_the_mark(void **state)
{
    (void)state;
    for (size_t torn = 0; torn < SIZE; torn++) {
        char bytes[64 * SIZE];
        struct trace_repair repair;
        for (size_t i = 0; i < 64; i++)
            memcpy(bytes + i * SIZE, PACKET, SIZE);
        size_t size = 63 * SIZE + torn;
        int fd = memfd_create("part", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
        assert_int_equal(trace_repair(fd, 0, &repair), 0);
        assert_true(repair.packets > 40 && repair.packets < 63);
        assert_int_equal(repair.bytes, repair.packets * SIZE);
        assert_int_equal(repair.cut_bytes, size - repair.bytes);
        assert_int_equal(marked_at(fd, repair.bytes), repair.cut_bytes);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_after_other_data),
        cmocka_unit_test(test_no_room_for_the_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
