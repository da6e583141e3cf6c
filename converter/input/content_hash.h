// SPDX-License-Identifier: Apache-2.0
//
// A hash of an input's content, to recognise the same content again.
#pragma once

#include <stdint.h>

#include "converter/input/input.h"

// Returns 64 bits over all bytes and their number. Databases store the hash, so the function must
// never change. The hash does not protect against deliberate collisions.
uint64_t content_hash(const struct input *input);
