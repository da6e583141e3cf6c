// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a trace in the protobuf text format.
#include "translate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_translate(KIND_TEXT_PROTO, data, size);
}
