// SPDX-License-Identifier: Apache-2.0
//
// Inbox and outbox are one block of memory each. The inbox grows to the size of the announced
// frame, never beyond IPC_FRAME_MAX; the length is checked before use. Whole frames are taken out
// before more is received. Therefore a peer can make the inbox hold no more than one frame. The
// owner of the outbox limits its size.
#include "producer/service/ipc/frame.h"
#include "common/unix_socket.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define INBOX_SMALL  ((size_t)4096)
#define OUTBOX_SMALL ((size_t)4096)

static size_t announced_size(const struct ipc_inbox *inbox)
{
    uint32_t length;
    if (inbox->end - inbox->start < IPC_FRAME_HEADER)
        return IPC_FRAME_HEADER;
    memcpy(&length, inbox->bytes + inbox->start, sizeof(length));
    return IPC_FRAME_HEADER + (size_t)le32toh(length);
}

static int resize(uint8_t **bytes, size_t *capacity, size_t size)
{
    uint8_t *resized = realloc(*bytes, size);
    if (!resized)
        return -ENOMEM;
    *bytes = resized;
    *capacity = size;
    return 0;
}

int ipc_inbox_room(struct ipc_inbox *inbox, uint8_t **ret, size_t *ret_size)
{
    size_t held = inbox->end - inbox->start;
    if (inbox->start && held)
        memmove(inbox->bytes, inbox->bytes + inbox->start, held);
    inbox->start = 0;
    inbox->end = held;
    size_t wanted = announced_size(inbox);
    if (wanted > IPC_FRAME_MAX || (wanted > IPC_FRAME_HEADER && held >= wanted))
        return -ENOBUFS;
    if (wanted < INBOX_SMALL)
        wanted = INBOX_SMALL;
    bool too_large = !held && inbox->capacity > wanted;
    if (inbox->capacity < wanted || too_large) {
        int r = resize(&inbox->bytes, &inbox->capacity, wanted);
        if (r < 0)
            return r;
    }
    if (held == inbox->capacity)
        return -ENOBUFS;
    *ret = inbox->bytes + held;
    *ret_size = inbox->capacity - held;
    return 0;
}

void ipc_inbox_received(struct ipc_inbox *inbox, size_t size)
{
    inbox->end += size;
    if (!ipc_inbox_pending(inbox))
        ipc_inbox_done(inbox);
}

int ipc_inbox_next(struct ipc_inbox *inbox, const uint8_t **ret, size_t *ret_size)
{
    while (inbox->end - inbox->start >= IPC_FRAME_HEADER) {
        size_t size = announced_size(inbox);
        if (size > IPC_FRAME_MAX)
            return -EMSGSIZE;
        if (inbox->end - inbox->start < size)
            return 0;
        const uint8_t *payload = inbox->bytes + inbox->start + IPC_FRAME_HEADER;
        inbox->start += size;
        if (size == IPC_FRAME_HEADER)
            continue;
        *ret = payload;
        *ret_size = size - IPC_FRAME_HEADER;
        return 1;
    }
    if (!ipc_inbox_pending(inbox))
        ipc_inbox_done(inbox);
    return 0;
}

void ipc_inbox_done(struct ipc_inbox *inbox)
{
    free(inbox->bytes);
    *inbox = (struct ipc_inbox){0};
}

int ipc_outbox_add(struct ipc_outbox *outbox, const Pb__IPCFrame *frame)
{
    size_t size = IPC_FRAME_HEADER + pb__ipcframe__get_packed_size(frame);
    if (size > IPC_FRAME_MAX)
        return -EMSGSIZE;
    if (outbox->start && outbox->capacity - outbox->end < size) {
        memmove(outbox->bytes, outbox->bytes + outbox->start, ipc_outbox_size(outbox));
        outbox->end -= outbox->start;
        outbox->start = 0;
    }
    if (outbox->capacity - outbox->end < size) {
        size_t wanted = outbox->capacity ? 2 * outbox->capacity : OUTBOX_SMALL;
        if (wanted < outbox->end + size)
            wanted = outbox->end + size;
        int r = resize(&outbox->bytes, &outbox->capacity, wanted);
        if (r < 0)
            return r;
    }
    uint32_t length = htole32((uint32_t)(size - IPC_FRAME_HEADER));
    memcpy(outbox->bytes + outbox->end, &length, sizeof(length));
    pb__ipcframe__pack(frame, outbox->bytes + outbox->end + IPC_FRAME_HEADER);
    outbox->end += size;
    return 0;
}

int64_t ipc_outbox_send(struct ipc_outbox *outbox, int fd, int passed_fd)
{
    if (!ipc_outbox_size(outbox))
        return 0;
    struct iovec bytes = {
        .iov_base = outbox->bytes + outbox->start,
        .iov_len = ipc_outbox_size(outbox),
    };
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    union unix_passing room;
    unix_socket_pass(&message, &room, passed_fd);
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    outbox->start += (size_t)sent;
    if (!ipc_outbox_size(outbox))
        ipc_outbox_done(outbox);
    return sent;
}

void ipc_outbox_done(struct ipc_outbox *outbox)
{
    free(outbox->bytes);
    *outbox = (struct ipc_outbox){0};
}
