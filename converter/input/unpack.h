// SPDX-License-Identifier: Apache-2.0
//
// Compressed data as a stream: gzip, zstd and xz, if their libraries are built in.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "converter/input/kinds.h"

// The input and output of a step of unpacking. The step moves the pointers.
struct unpack_step {
    const uint8_t *in, *in_end;
    uint8_t *out, *out_end;
};

enum unpack_state {
    UNPACK_MORE,      // there is more to unpack
    UNPACK_CUT,       // the data ends before its end mark
    UNPACK_END,       // a whole stream is unpacked; another may follow
    UNPACK_BAD,       // the data is corrupt
    UNPACK_TOO_LARGE, // the data needs more memory than the limit
    UNPACK_NO_MEMORY,
};

struct codec {
    enum kind_id kind;
    // Returns the state of a new stream, or NULL if memory is out.
    void *(*open)(void);
    enum unpack_state (*step)(void *state, struct unpack_step *step);
    void (*close)(void *state); // NULL is fine
};

// Returns the codec of a kind, or NULL if its library is not built in.
const struct codec *codec_of(enum kind_id kind);
