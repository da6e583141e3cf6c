// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a trace.
#include "tests/fuzz/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    database_free(fuzz_convert(data, size));
    return 0;
}
