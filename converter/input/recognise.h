// SPDX-License-Identifier: Apache-2.0
//
// What bytes look like.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether they begin as a trace does: with a packet, and another one or nothing behind it. A
// packet that ends behind the bytes will do, since `bytes` may be the first of many.
bool trace_recognise(const uint8_t *bytes, size_t size);
