// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as the text of perf.
#include "tests/fuzz/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_foreign(KIND_PERF_TEXT, false, data, size);
}
