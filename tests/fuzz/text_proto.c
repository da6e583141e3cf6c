// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a trace in the protobuf text format.
#include "tests/fuzz/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_foreign(KIND_TEXT_PROTO, true, data, size);
}
