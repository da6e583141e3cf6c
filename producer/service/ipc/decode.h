// SPDX-License-Identifier: Apache-2.0
//
// Messages of others.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define IPC_MESSAGE_DEPTH_MAX 32 // messages inside messages

// Decodes; NULL: damaged, nested too deeply, or no memory.
ProtobufCMessage *ipc_message_decode(const ProtobufCMessageDescriptor *descriptor,
                                     const uint8_t *bytes, size_t size);
