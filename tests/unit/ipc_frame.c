// SPDX-License-Identifier: Apache-2.0
#include "producer/service/ipc/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/elements.h"
#include "tests/unit/unit.h"

static void put(struct ipc_inbox *inbox, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    while (size) {
        uint8_t *room;
        size_t room_size;
        assert_int_equal(ipc_inbox_room(inbox, &room, &room_size), 0);
        assert_true(room_size > 0);
        size_t n = size < room_size ? size : room_size;
        memcpy(room, from, n);
        ipc_inbox_received(inbox, n);
        from += n;
        size -= n;
    }
}

// A stream of three frames, with the messages "a", nothing and "bcd", is cut in two at each place.
static void frames_survive_every_split(void **state)
{
    (void)state;
    static const uint8_t stream[] = {1, 0, 0, 0, 'a', 0, 0, 0, 0, 3, 0, 0, 0, 'b', 'c', 'd'};
    for (size_t cut = 0; cut <= sizeof(stream); cut++) {
        struct ipc_inbox inbox = {0};
        char got[8] = "";
        size_t n_frames = 0;
        for (int half = 0; half < 2; half++) {
            put(&inbox, stream + (half ? cut : 0), half ? sizeof(stream) - cut : cut);
            const uint8_t *bytes;
            size_t size;
            while (ipc_inbox_next(&inbox, &bytes, &size) == 1) {
                strncat(got, (const char *)bytes, size);
                n_frames++;
            }
        }
        assert_string_equal(got, "abcd");
        assert_int_equal(n_frames, 2);
        assert_false(ipc_inbox_pending(&inbox));
        assert_null(inbox.bytes);
    }
}

static void single_bytes_make_the_largest_frame(void **state)
{
    (void)state;
    struct ipc_inbox inbox = {0};
    const uint8_t length[] = {0xfc, 0xff, 0x01, 0x00}; // 128 KiB - 4
    const uint8_t *bytes;
    size_t size;
    put(&inbox, length, 4);
    for (size_t i = 0; i < IPC_FRAME_MAX - 4; i++) {
        assert_int_equal(ipc_inbox_next(&inbox, &bytes, &size), 0);
        put(&inbox, &(uint8_t){(uint8_t)i}, 1);
    }
    assert_true(inbox.capacity <= IPC_FRAME_MAX);
    assert_int_equal(ipc_inbox_next(&inbox, &bytes, &size), 1);
    assert_int_equal(size, IPC_FRAME_MAX - 4);
    assert_int_equal(bytes[1000], 1000 % 256);
    assert_int_equal(ipc_inbox_next(&inbox, &bytes, &size), 0);
    ipc_inbox_done(&inbox);
}

static void lengths_above_the_limit_are_refused(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {128 * 1024 - 3, 128 * 1024, 0x7fffffff,
                                       0x80000000,     0xfffffffc, 0xffffffff};
    for (size_t i = 0; i < ELEMENTS(lengths); i++) {
        struct ipc_inbox inbox = {0};
        const uint8_t *bytes;
        uint8_t *room;
        size_t size;
        put(&inbox, &lengths[i], 4);
        assert_int_equal(ipc_inbox_next(&inbox, &bytes, &size), -EMSGSIZE);
        assert_int_equal(ipc_inbox_room(&inbox, &room, &size), -ENOBUFS);
        assert_true(inbox.capacity <= 4096);
        ipc_inbox_done(&inbox);
    }
}

static void whole_frames_must_be_taken_before_more_comes(void **state)
{
    (void)state;
    struct ipc_inbox inbox = {0};
    uint8_t *room;
    const uint8_t *bytes;
    size_t size;
    put(&inbox, "\1\0\0\0x", 5);
    assert_int_equal(ipc_inbox_room(&inbox, &room, &size), -ENOBUFS);
    assert_int_equal(ipc_inbox_next(&inbox, &bytes, &size), 1);
    assert_int_equal(ipc_inbox_room(&inbox, &room, &size), 0);
    ipc_inbox_done(&inbox);
}

static Pb__IPCFrame error_frame(Pb__IPCFrame__RequestError *error, char *text)
{
    *error = (Pb__IPCFrame__RequestError)PB__IPCFRAME__REQUEST_ERROR__INIT;
    error->error = text;
    Pb__IPCFrame frame = PB__IPCFRAME__INIT;
    frame.has_request_id = true;
    frame.request_id = 7;
    frame.msg_case = PB__IPCFRAME__MSG_MSG_REQUEST_ERROR;
    frame.msg_request_error = error;
    return frame;
}

static void a_frame_too_long_is_not_added(void **state)
{
    (void)state;
    struct ipc_outbox outbox = {0};
    Pb__IPCFrame__RequestError error;
    char *text = malloc(IPC_FRAME_MAX + 1);
    memset(text, 'x', IPC_FRAME_MAX);
    text[IPC_FRAME_MAX] = '\0';
    Pb__IPCFrame frame = error_frame(&error, text);
    assert_int_equal(ipc_outbox_add(&outbox, &frame), -EMSGSIZE);
    // Less 14 bytes: 4 for the length, 2 for the request id, 4 around the error, 4 around its text.
    text[IPC_FRAME_MAX - 14] = '\0';
    assert_int_equal(ipc_outbox_add(&outbox, &frame), 0);
    assert_int_equal(ipc_outbox_size(&outbox), IPC_FRAME_MAX);
    ipc_outbox_done(&outbox);
    free(text);
}

static void the_outbox_sends_what_the_socket_takes(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct ipc_outbox outbox = {0};
    struct ipc_inbox inbox = {0};
    Pb__IPCFrame__RequestError error;
    char text[1000];
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    Pb__IPCFrame frame = error_frame(&error, text);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ipc_outbox_add(&outbox, &frame), 0);
    size_t n_frames = 0, n_blocked = 0;
    while (n_frames < 1000) {
        int64_t sent = ipc_outbox_send(&outbox, fds[0], -1);
        n_blocked += sent == -EAGAIN;
        uint8_t *room;
        const uint8_t *bytes;
        size_t size;
        assert_int_equal(ipc_inbox_room(&inbox, &room, &size), 0);
        ssize_t n = recv(fds[1], room, size, MSG_DONTWAIT);
        assert_true(n > 0);
        ipc_inbox_received(&inbox, (size_t)n);
        while (ipc_inbox_next(&inbox, &bytes, &size) == 1) {
            Pb__IPCFrame *back = pb__ipcframe__unpack(NULL, size, bytes);
            assert_non_null(back);
            assert_int_equal(back->request_id, 7);
            assert_string_equal(back->msg_request_error->error, text);
            pb__ipcframe__free_unpacked(back, NULL);
            n_frames++;
        }
    }
    assert_true(n_blocked > 0);
    assert_int_equal(ipc_outbox_size(&outbox), 0);
    close(fds[1]);
    assert_int_equal(ipc_outbox_add(&outbox, &frame), 0);
    assert_int_equal(ipc_outbox_send(&outbox, fds[0], -1), -EPIPE);
    close(fds[0]);
    ipc_outbox_done(&outbox);
    ipc_inbox_done(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_survive_every_split),
        cmocka_unit_test(single_bytes_make_the_largest_frame),
        cmocka_unit_test(lengths_above_the_limit_are_refused),
        cmocka_unit_test(whole_frames_must_be_taken_before_more_comes),
        cmocka_unit_test(a_frame_too_long_is_not_added),
        cmocka_unit_test(the_outbox_sends_what_the_socket_takes),
    };
    return cmocka_run_group_tests_name("ipc_frame", tests, NULL, NULL);
}
