// SPDX-License-Identifier: Apache-2.0
//
// How protobuf-c lays out values in its structs. For both halves of pbtext.h.
#pragma once

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

// The size of one value of `type`: of a field, or of an element of a repeated field.
static inline size_t pbtext_field_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4;
    }
}
