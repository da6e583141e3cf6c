// SPDX-License-Identifier: Apache-2.0
#include "producer/trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/wire.h"
#include "producer/ground/loop.h"
#include "producer/trace/disk.h"
#include "protos/fields.h"
#include "tests/unit/unit.h"

static char scratch_path[64];
static uint8_t contents[8 << 20];

static int make_scratch(void **state)
{
    (void)state;
    strcpy(scratch_path, "/tmp/mmtrace-test-XXXXXX");
    return mkdtemp(scratch_path) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    (void)state;
    char path[80];
    snprintf(path, sizeof(path), "%s/trace", scratch_path);
    unlink(path);
    return rmdir(scratch_path);
}

static struct trace_file *make_file(int fd, struct trace_file_options options)
{
    struct trace_file *file;
    options.name = "trace";
    assert_int_equal(trace_file_new(fd, &options, &file, NULL), 0);
    return file;
}

static int open_scratch(void)
{
    char path[80];
    int fd;
    snprintf(path, sizeof(path), "%s/trace", scratch_path);
    assert_int_equal(trace_file_open(path, false, &fd, NULL), 0);
    return fd;
}

static size_t read_scratch(void)
{
    char path[80];
    snprintf(path, sizeof(path), "%s/trace", scratch_path);
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    size_t size = fread(contents, 1, sizeof(contents), stream);
    fclose(stream);
    return size;
}

// Packet `i` of a test: `size` bytes that no other packet has.
static struct packet_view make_packet(uint32_t i, size_t size, bool compressible)
{
    static uint8_t bytes[2 << 20];
    uint32_t random = i * 2654435761u + 1;
    for (size_t b = 0; b < size; b++) {
        random = random * 1664525 + 1013904223;
        bytes[b] = compressible ? (uint8_t)i : (uint8_t)(random >> 24);
    }
    return (struct packet_view){.data = bytes, .size = size};
}

static void assert_packet(const struct wire_field *field, uint32_t i, size_t size,
                          bool compressible)
{
    struct packet_view want = make_packet(i, size, compressible);
    assert_int_equal(field->number, PB_Trace_packet);
    assert_int_equal(field->type, WIRE_BYTES);
    assert_int_equal(field->size, size);
    assert_memory_equal(field->data, want.data, size);
}

static size_t size_of(uint32_t i)
{
    return (i * 37) % 3000 + 1;
}

// Asserts that `bytes` are packets from *next on, and moves *next past them.
static void assert_packets(const uint8_t *bytes, size_t size, bool compressible, uint32_t *next)
{
    struct wire_reader reader = wire_reader_over(bytes, size);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        assert_packet(&field, *next, size_of(*next), compressible);
        ++*next;
    }
    assert_false(reader.error);
}

// Checks the packets of a deflated trace, whose top-level packets hold only compressed packets.
static void assert_deflated_packets(const uint8_t *bytes, size_t size, bool compressible,
                                    uint32_t *next)
{
    static uint8_t inflated[1 << 20];
    struct wire_reader reader = wire_reader_over(bytes, size);
    struct wire_field packet, field;
    wire_foreach(&reader, &packet) {
        struct wire_reader inner = wire_sub(&packet);
        assert_true(wire_next(&inner, &field));
        assert_int_equal(field.number, PB_TracePacket_compressed_packets);
        uLongf n = sizeof(inflated);
        assert_int_equal(uncompress(inflated, &n, field.data, field.size), Z_OK);
        assert_true(n <= 256 << 10);
        assert_packets(inflated, n, compressible, next);
        assert_false(wire_next(&inner, &field));
        assert_false(inner.error);
    }
    assert_false(reader.error);
}

static uint32_t add_packets(struct trace_file *file, uint32_t n, bool compressible)
{
    for (uint32_t i = 0; i < n; i++) {
        struct packet_view packet = make_packet(i, size_of(i), compressible);
        int r = trace_file_add(file, &packet, NULL);
        if (r == TRACE_FILE_FULL)
            return i;
        assert_int_equal(r, 0);
    }
    return n;
}

static void file_holds_what_was_added(void **state)
{
    (void)state;
    struct trace_file *file = make_file(open_scratch(), (struct trace_file_options){0});
    assert_int_equal(add_packets(file, 2000, false), 2000);
    assert_int_equal(trace_file_flush(file, NULL), 0);
    struct trace_file_stats stats;
    trace_file_get_stats(file, &stats);
    size_t size = read_scratch();
    assert_int_equal(stats.packets, 2000);
    assert_int_equal(stats.bytes_written, size);
    uint32_t n = 0;
    assert_packets(contents, size, false, &n);
    assert_int_equal(n, 2000);
    assert_int_equal(trace_file_finish(file, 0, NULL), 0);
    assert_int_equal(trace_file_fd(file), -1);
    trace_file_free(file);
}

static void deflated_file_holds_the_same(void **state)
{
    (void)state;
    for (int compressible = 0; compressible < 2; compressible++) {
        struct trace_file *file =
            make_file(open_scratch(), (struct trace_file_options){.deflate = true, .sync = true});
        size_t raw = 0;
        for (uint32_t i = 0; i < 2000; i++)
            raw += size_of(i);
        assert_int_equal(add_packets(file, 2000, compressible), 2000);
        assert_int_equal(trace_file_finish(file, 0, NULL), 0);
        trace_file_free(file);
        size_t size = read_scratch();
        if (compressible)
            assert_true(size < raw / 20);
        else
            assert_true(size < raw + raw / 100);
        uint32_t n = 0;
        assert_deflated_packets(contents, size, compressible, &n);
        assert_int_equal(n, 2000);
    }
}

static void large_packets_go_through(void **state)
{
    (void)state;
    for (int deflate = 0; deflate < 2; deflate++) {
        struct trace_file *file =
            make_file(open_scratch(), (struct trace_file_options){.deflate = deflate});
        size_t sizes[] = {2 << 20, 0, (256 << 10) + 1, 2 << 20};
        for (uint32_t i = 0; i < 4; i++) {
            struct packet_view packet = make_packet(i, sizes[i], false);
            assert_int_equal(trace_file_add(file, &packet, NULL), 0);
        }
        struct packet_view too_large = {.data = contents, .size = TRACE_FILE_PACKET_MAX + 1};
        assert_int_equal(trace_file_add(file, &too_large, NULL), 0);
        assert_int_equal(trace_file_finish(file, 0, NULL), 0);
        struct trace_file_stats stats;
        trace_file_get_stats(file, &stats);
        assert_int_equal(stats.packets, 4);
        assert_int_equal(stats.packets_too_large, 1);
        trace_file_free(file);
        struct wire_reader reader = wire_reader_over(contents, read_scratch());
        struct wire_field field;
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(wire_next(&reader, &field));
            if (sizes[i])
                assert_packet(&field, i, sizes[i], false);
        }
        assert_false(wire_next(&reader, &field));
        assert_false(reader.error);
    }
}

static void size_limit_is_kept(void **state)
{
    (void)state;
    for (uint64_t limit = 1000; limit < 1200000; limit = limit * 7 / 3) {
        for (int deflate = 0; deflate < 2; deflate++) {
            struct trace_file *file =
                make_file(open_scratch(),
                          (struct trace_file_options){.max_size_bytes = limit, .deflate = deflate});
            uint32_t n = add_packets(file, 5000, false), found = 0;
            assert_true(n < 5000);
            struct packet_view small = make_packet(0, 1, false);
            assert_int_equal(trace_file_add(file, &small, NULL), TRACE_FILE_FULL);
            assert_int_equal(trace_file_finish(file, 0, NULL), 0);
            trace_file_free(file);
            size_t size = read_scratch();
            assert_true(size <= limit);
            assert_true(size + size_of(n) + 1024 > limit);
            if (deflate)
                assert_deflated_packets(contents, size, false, &found);
            else
                assert_packets(contents, size, false, &found);
            assert_int_equal(found, n);
        }
    }
}

// The limit is near the end of a full chunk, or near the packet that begins the next chunk.
static void size_limit_is_kept_between_chunks(void **state)
{
    (void)state;
    const size_t large = 64 << 10, first = (256 << 10) - 3 * (large + 4) - 4 - 10;
    for (uint64_t limit = 262144; limit < 262144 + 200; limit++) {
        struct trace_file *file = make_file(
            open_scratch(), (struct trace_file_options){.max_size_bytes = limit, .deflate = true});
        for (uint32_t i = 0; i < 5; i++) {
            struct packet_view packet = make_packet(i, i == 4 ? 20 : i ? large : first, false);
            assert_true(trace_file_add(file, &packet, NULL) >= 0);
        }
        assert_int_equal(trace_file_finish(file, 0, NULL), 0);
        trace_file_free(file);
        assert_true(read_scratch() <= limit);
    }
}

// The limit counts the deflated size of the packets, not the largest size that they could have.
static void size_limit_counts_deflated_bytes(void **state)
{
    (void)state;
    struct trace_file *file = make_file(
        open_scratch(), (struct trace_file_options){.max_size_bytes = 20000, .deflate = true});
    uint32_t n = add_packets(file, 5000, true), found = 0;
    size_t raw = 0;
    for (uint32_t i = 0; i < n; i++)
        raw += size_of(i);
    assert_int_equal(trace_file_finish(file, 0, NULL), 0);
    trace_file_free(file);
    size_t size = read_scratch();
    assert_true(n < 5000 && size <= 20000 && raw > 200000);
    assert_deflated_packets(contents, size, true, &found);
    assert_int_equal(found, n);
}

// Packets that find no room are not lost. They wait for room.
static void no_room_is_waited_for(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        struct loop *loop;
        struct disk *disk = NULL;
        assert_int_equal(loop_new(&loop), 0);
        if (on_disk)
            assert_int_equal(disk_new(loop, &disk), 0);
        struct rlimit limit = {.rlim_cur = 300001, .rlim_max = before.rlim_max};
        int fd = open_scratch();
        struct trace_file *file =
            make_file(fd, (struct trace_file_options){.waits_for_room = true, .disk = disk});
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        unsigned n_no_room = 0;
        struct err err = {0};
        for (uint32_t i = 0; i < 3000;) {
            struct packet_view packet = make_packet(i, 200, false);
            int r = trace_file_add(file, &packet, &err);
            assert_true(r >= 0);
            if (r == TRACE_FILE_BLOCKED)
                assert_int_equal(loop_run_once(loop, NSEC_MAX), 0);
            if (r == TRACE_FILE_NO_ROOM) {
                assert_int_equal(trace_file_no_room(file), -EFBIG);
                if (++n_no_room == 3)
                    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
            }
            i += r == 0;
        }
        assert_int_equal(n_no_room, 3);
        assert_int_equal(trace_file_finish(file, NSEC_PER_SEC, &err), 0);
        trace_file_free(file);
        disk_free(disk);
        loop_free(loop);
        size_t size = read_scratch(), n = 0;
        for (const uint8_t *p = contents; p < contents + size; n++) {
            uint64_t body = 0;
            assert_int_equal(*p++, 0x0a);
            assert_true(wire_get_varint(&p, contents + size, &body));
            assert_int_equal(body, 200);
            p += body;
        }
        assert_int_equal(n, 3000);
    }
}

static void full_disk_leaves_whole_packets(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int deflate = 0; deflate < 2; deflate++) {
        limit = (struct rlimit){.rlim_cur = 300001, .rlim_max = before.rlim_max};
        struct trace_file *file =
            make_file(open_scratch(), (struct trace_file_options){.deflate = deflate});
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        struct err err = {0};
        int r = 0;
        for (uint32_t i = 0; r == 0 && i < 5000; i++) {
            struct packet_view packet = make_packet(i, size_of(i), false);
            r = trace_file_add(file, &packet, &err);
        }
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(r, -EFBIG);
        assert_non_null(strstr(err.text, "/trace: File too large"));
        assert_int_equal(err.text[0], '/');
        assert_non_null(strstr(err.hint, "readable"));
        struct packet_view packet = make_packet(0, 1, false);
        assert_int_equal(trace_file_add(file, &packet, &err), -EFBIG);
        assert_int_equal(trace_file_flush(file, &err), -EFBIG);
        assert_int_equal(trace_file_finish(file, 0, &err), -EFBIG);
        struct trace_file_stats stats;
        trace_file_get_stats(file, &stats);
        trace_file_free(file);
        size_t size = read_scratch();
        assert_int_equal(stats.bytes_written, size);
        assert_true(size > 0 && size <= 300001);
        uint32_t found = 0;
        if (deflate)
            assert_deflated_packets(contents, size, false, &found);
        else
            assert_packets(contents, size, false, &found);
        assert_true(found > 50);
    }
}

static void device_without_space(void **state)
{
    (void)state;
    int fd;
    assert_int_equal(trace_file_open("/dev/full", false, &fd, NULL), 0);
    struct trace_file *file = make_file(fd, (struct trace_file_options){0});
    struct err err = {0};
    assert_int_equal(add_packets(file, 3, false), 3);
    assert_int_equal(trace_file_finish(file, 0, &err), -ENOSPC);
    assert_string_equal(err.text, "trace: No space left on device");
    trace_file_free(file);
}

static void deleted_file_is_noticed(void **state)
{
    (void)state;
    char path[80];
    snprintf(path, sizeof(path), "%s/trace", scratch_path);
    struct trace_file *file = make_file(open_scratch(), (struct trace_file_options){0});
    struct err err = {0};
    add_packets(file, 10, false);
    assert_int_equal(trace_file_flush(file, &err), 0);
    unlink(path);
    add_packets(file, 10, false);
    assert_int_equal(trace_file_flush(file, &err), -ENOENT);
    assert_string_equal(err.text, "trace: deleted while it was being written");
    trace_file_free(file);
}

// The file is deleted before anything is written, and even before trace_file_new().
static void deleted_file_is_distinguished_from_one_without_a_name(void **state)
{
    (void)state;
    char path[80], link[40];
    struct err err = {0};
    snprintf(path, sizeof(path), "%s/trace", scratch_path);
    int fd = open_scratch();
    unlink(path);
    struct trace_file *file = make_file(fd, (struct trace_file_options){.path = path});
    assert_int_equal(trace_file_flush(file, &err), -ENOENT);
    trace_file_free(file);

    fd = open_scratch();
    unlink(path);
    close(open_scratch()); // another file has the name
    file = make_file(fd, (struct trace_file_options){.path = path});
    assert_int_equal(trace_file_flush(file, &err), -ENOENT);
    trace_file_free(file);

    fd = memfd_create("trace", MFD_CLOEXEC);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    file = make_file(dup(fd), (struct trace_file_options){.path = link});
    add_packets(file, 10, false);
    assert_int_equal(trace_file_flush(file, &err), 0);
    trace_file_free(file);
    file = make_file(fd, (struct trace_file_options){0}); // from a client, without a path
    assert_int_equal(trace_file_flush(file, &err), 0);
    trace_file_free(file);
}

static void descriptor_in_the_middle_of_a_file(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    int fd = open_scratch();
    assert_int_equal(write(fd, "\x0a\x03old", 5), 5);
    struct trace_file *file = make_file(fd, (struct trace_file_options){0});
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 5000, .rlim_max = before.rlim_max};
    add_packets(file, 50, false);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(trace_file_flush(file, NULL), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    trace_file_free(file);
    size_t size = read_scratch();
    assert_memory_equal(contents, "\x0a\x03old", 5);
    uint32_t found = 0;
    assert_packets(contents + 5, size - 5, false, &found);
    assert_true(found > 5);
}

// A reader takes little at a time. The writer never blocks, and no packet is lost or torn.
static void slow_pipe(void **state)
{
    (void)state;
    for (int non_blocking = 0; non_blocking < 2; non_blocking++) {
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        if (non_blocking)
            assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
        struct trace_file *file = make_file(fds[1], (struct trace_file_options){0});
        uint32_t i = 0, n_blocked = 0, found = 0;
        size_t got = 0;
        bool flushed = false;
        while (!flushed) {
            struct packet_view packet = make_packet(i, size_of(i), false);
            int r = i < 1000 ? trace_file_add(file, &packet, NULL) : trace_file_flush(file, NULL);
            if (r == TRACE_FILE_BLOCKED) {
                n_blocked++;
                ssize_t n = read(fds[0], contents + got, 7777);
                assert_true(n > 0);
                got += (size_t)n;
            } else {
                assert_int_equal(r, 0);
                flushed = i == 1000;
                i += i < 1000;
            }
        }
        assert_true(n_blocked > 10);
        assert_int_equal(trace_file_finish(file, 0, NULL), 0);
        trace_file_free(file);
        for (ssize_t n; (n = read(fds[0], contents + got, 65536)) > 0;)
            got += (size_t)n;
        close(fds[0]);
        assert_packets(contents, got, false, &found);
        assert_int_equal(found, 1000);
    }
}

static void reader_that_went_away(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct trace_file *file = make_file(fds[1], (struct trace_file_options){0});
    close(fds[0]);
    struct err err = {0};
    add_packets(file, 3, false);
    assert_int_equal(trace_file_flush(file, &err), -EPIPE);
    assert_string_equal(err.text, "trace: Broken pipe");
    trace_file_free(file);
}

// The amount of data that waits for a reader is limited, and so is the time that the end waits.
static void reader_that_never_reads(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct trace_file *file = make_file(fds[1], (struct trace_file_options){0});
    struct err err = {0};
    size_t taken = 0;
    int r = 0;
    for (uint32_t i = 0; r == 0; i++) {
        struct packet_view packet = make_packet(i, size_of(i), false);
        r = trace_file_add(file, &packet, &err);
        taken += r == 0 ? packet.size : 0;
    }
    assert_int_equal(r, TRACE_FILE_BLOCKED);
    assert_true(taken > 64 << 10 && taken < 512 << 10);
    assert_int_equal(trace_file_finish(file, 2 * NSEC_PER_MSEC, &err), -ETIMEDOUT);
    assert_string_equal(err.text, "trace: the reader did not take the rest in time");
    trace_file_free(file);
    close(fds[0]);
}

static void fill_buffer(struct packet_buffer *buffer, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t room;
        struct packet_view packet = make_packet(i, size_of(i), false);
        uint8_t *data = packet_buffer_reserve(buffer, packet.size, packet.size, &room);
        assert_non_null(data);
        memcpy(data, packet.data, packet.size);
        packet_buffer_commit(buffer, packet.size, &(struct packet_meta){.sequence_id = 1});
    }
}

// A read-out takes a packet from the buffer only when the file has taken it.
static void blocked_read_out_loses_nothing(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct packet_buffer *buffer;
    assert_int_equal(packet_buffer_new(4 << 20, PACKET_BUFFER_RING, &buffer, NULL), 0);
    fill_buffer(buffer, 1000);
    struct trace_file *file = make_file(fds[1], (struct trace_file_options){.deflate = true});
    size_t got = 0;
    int r = TRACE_FILE_BLOCKED;
    while (r) {
        struct packet_view packet;
        bool more = packet_buffer_peek(buffer, &packet);
        r = more ? trace_file_add(file, &packet, NULL) : trace_file_flush(file, NULL);
        if (r == TRACE_FILE_BLOCKED) {
            ssize_t n = read(fds[0], contents + got, 65536);
            assert_true(n > 0);
            got += (size_t)n;
        } else {
            assert_int_equal(r, 0);
            packet_buffer_consume(buffer);
            r = more;
        }
    }
    trace_file_free(file);
    for (ssize_t n; (n = read(fds[0], contents + got, 65536)) > 0;)
        got += (size_t)n;
    close(fds[0]);
    packet_buffer_free(buffer);
    uint32_t found = 0;
    assert_deflated_packets(contents, got, false, &found);
    assert_int_equal(found, 1000);
}

static void open_says_what_is_wrong(void **state)
{
    (void)state;
    char path[128];
    struct err err = {0};
    int fd = open_scratch();
    close(fd);
    snprintf(path, sizeof(path), "%s/trace", scratch_path);
    assert_int_equal(trace_file_open(path, true, &fd, &err), -EEXIST);
    assert_non_null(strstr(err.text, "exists already"));
    snprintf(path, sizeof(path), "%s/trace/below", scratch_path);
    assert_int_equal(trace_file_open(path, false, &fd, &err), -ENOTDIR);
    snprintf(path, sizeof(path), "%s/absent/trace", scratch_path);
    assert_int_equal(trace_file_open(path, false, &fd, &err), -ENOENT);
    assert_non_null(strstr(err.text, "No such directory"));
    assert_true(strncmp(err.hint, "create /tmp/mmtrace-test-", 25) == 0);
    assert_int_equal(trace_file_open(scratch_path, false, &fd, &err), -EISDIR);
    assert_int_equal(trace_file_open("/dev/null", false, &fd, &err), 0);
    close(fd);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct trace_file *file;
    assert_int_equal(trace_file_new(fd, &(struct trace_file_options){.name = "null"}, &file, &err),
                     -EBADF);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_holds_what_was_added),
        cmocka_unit_test(deflated_file_holds_the_same),
        cmocka_unit_test(large_packets_go_through),
        cmocka_unit_test(size_limit_is_kept),
        cmocka_unit_test(size_limit_is_kept_between_chunks),
        cmocka_unit_test(size_limit_counts_deflated_bytes),
        cmocka_unit_test(full_disk_leaves_whole_packets),
        cmocka_unit_test(no_room_is_waited_for),
        cmocka_unit_test(device_without_space),
        cmocka_unit_test(deleted_file_is_noticed),
        cmocka_unit_test(deleted_file_is_distinguished_from_one_without_a_name),
        cmocka_unit_test(descriptor_in_the_middle_of_a_file),
        cmocka_unit_test(slow_pipe),
        cmocka_unit_test(reader_that_went_away),
        cmocka_unit_test(reader_that_never_reads),
        cmocka_unit_test(blocked_read_out_loses_nothing),
        cmocka_unit_test(open_says_what_is_wrong),
    };
    return cmocka_run_group_tests_name("trace_file", tests, make_scratch, remove_scratch);
}
