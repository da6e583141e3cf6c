// SPDX-License-Identifier: Apache-2.0
//
// A number for the content of an input, by which the same content is known again.
#pragma once

#include <stdint.h>

#include "converter/input/input.h"

// 64 bits over all bytes and their number. Databases store it: it never changes. Two contents that
// differ by chance differ here; it is no protection against somebody who wants them to agree.
uint64_t content_hash(const struct input *input);
