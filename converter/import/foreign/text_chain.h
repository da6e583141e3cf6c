// SPDX-License-Identifier: Apache-2.0
//
// Call chains of the text of `perf script`, whose frames are names.
#pragma once

#include <stdint.h>

struct import;
struct wire_field;

// Returns the innermost call site of the frames of a ForeignSample.
int64_t text_chain_read(struct import *im, const struct wire_field *message);
