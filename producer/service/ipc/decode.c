// SPDX-License-Identifier: Apache-2.0
//
// protobuf-c recurses for each message inside a message, to any depth that the sender chooses: some
// data source descriptors contain themselves, and a frame has room for tens of thousands of levels.
// Therefore the depth is measured first, along the fields that protobuf-c would follow.
#include "producer/service/ipc/decode.h"

#include <stdbool.h>

#include "common/wire.h"

static bool is_shallow(const ProtobufCMessageDescriptor *descriptor, struct wire_reader reader,
                       unsigned levels)
{
    struct wire_field field;
    wire_foreach(&reader, &field) {
        const ProtobufCFieldDescriptor *known =
            field.type == WIRE_BYTES
                ? protobuf_c_message_descriptor_get_field(descriptor, field.number)
                : NULL;
        if (known && known->type == PROTOBUF_C_TYPE_MESSAGE &&
            (!levels || !is_shallow(known->descriptor, wire_sub(&field), levels - 1)))
            return false;
    }
    return !reader.error;
}

ProtobufCMessage *ipc_message_decode(const ProtobufCMessageDescriptor *descriptor,
                                     const uint8_t *bytes, size_t size)
{
    if (!is_shallow(descriptor, wire_reader_over(bytes, size), IPC_MESSAGE_DEPTH_MAX))
        return NULL;
    return protobuf_c_message_unpack(descriptor, NULL, size, bytes);
}
