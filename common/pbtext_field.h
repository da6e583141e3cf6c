// SPDX-License-Identifier: Apache-2.0
//
// The layout of values in the structs of protobuf-c. For pbtext.c, pbtext_print.c, and other code
// that walks over a message by its descriptor.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

// Returns the size in bytes of a value of `type`: a single field, or an element of a repeated
// field.
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

// Returns whether `member`, the value of a single field, is present, not zero and not empty.
static inline bool pbtext_holds_something(const ProtobufCFieldDescriptor *field, const void *member)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(const void *const *)member;
    case PROTOBUF_C_TYPE_STRING:
        return *(const char *const *)member && **(const char *const *)member;
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)member)->len > 0;
    default:
        return pbtext_field_size(field->type) == 8 ? *(const uint64_t *)member != 0
                                                   : *(const uint32_t *)member != 0;
    }
}
