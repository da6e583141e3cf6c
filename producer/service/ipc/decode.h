// SPDX-License-Identifier: Apache-2.0
//
// Decoding of messages from other processes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define IPC_MESSAGE_DEPTH_MAX 32 // messages inside messages

// Decodes a message. Returns NULL if the message is damaged or nested too deeply, or if memory ran
// out.
ProtobufCMessage *ipc_message_decode(const ProtobufCMessageDescriptor *descriptor,
                                     const uint8_t *bytes, size_t size);
