// SPDX-License-Identifier: Apache-2.0
//
// Recognition of traces by their first bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns true if the bytes begin as a trace: with a packet, then another packet or the end. The
// packet may end after `bytes`, which may be the first bytes of a file.
bool trace_recognise(const uint8_t *bytes, size_t size);
