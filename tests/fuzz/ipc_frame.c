// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as the stream of a socket. The bytes arrive in one piece, and in pieces whose
// sizes the bytes choose: the frames must be equal. The decoder must survive each frame.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/map.h"
#include "producer/service/ipc/decode.h"
#include "producer/service/ipc/frame.h"
#include "producer/service/ipc/service_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_request(const struct ipc_service *service,
                           const Pb__IPCFrame__InvokeMethod *invoke)
{
    const struct ipc_method *method = ipc_service_method(service, invoke->method_id);
    if (!method)
        return;
    ProtobufCMessage *request =
        ipc_message_decode(method->request, invoke->args_proto.data, invoke->args_proto.len);
    if (request)
        protobuf_c_message_free_unpacked(request, NULL);
}

static void decode(const uint8_t *bytes, size_t size)
{
    Pb__IPCFrame *frame = pb__ipcframe__unpack(NULL, size, bytes);
    if (!frame)
        return;
    if (frame->msg_case == PB__IPCFRAME__MSG_MSG_INVOKE_METHOD && frame->msg_invoke_method) {
        decode_request(&ipc_consumer_service, frame->msg_invoke_method);
        decode_request(&ipc_producer_service, frame->msg_invoke_method);
    }
    pb__ipcframe__free_unpacked(frame, NULL);
}

struct outcome {
    uint64_t hash;
    size_t n_frames;
    int end;
};

static struct outcome run(const uint8_t *data, size_t size, bool in_pieces)
{
    struct ipc_inbox inbox = {0};
    struct outcome outcome = {0};
    for (size_t pos = 0; pos < size && outcome.end >= 0;) {
        uint8_t *room;
        size_t room_size, frame_size;
        const uint8_t *frame;
        if (ipc_inbox_room(&inbox, &room, &room_size) < 0 || !room_size)
            abort();
        size_t n = size - pos < room_size ? size - pos : room_size;
        if (in_pieces && n > data[pos] + 1u)
            n = data[pos] + 1u;
        memcpy(room, data + pos, n);
        pos += n;
        ipc_inbox_received(&inbox, n);
        while ((outcome.end = ipc_inbox_next(&inbox, &frame, &frame_size)) == 1) {
            outcome.n_frames++;
            outcome.hash = outcome.hash * 31 + hash_bytes(frame, frame_size);
            if (!in_pieces)
                decode(frame, frame_size);
        }
    }
    if (inbox.capacity > IPC_FRAME_MAX)
        abort();
    ipc_inbox_done(&inbox);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = run(data, size, false), pieces = run(data, size, true);
    if (whole.hash != pieces.hash || whole.n_frames != pieces.n_frames || whole.end != pieces.end)
        abort();
    return 0;
}
