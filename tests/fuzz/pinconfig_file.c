// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a pinconfig.
#include "tests/fuzz/file_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_file_format("pinconfig", "pinconfig.txt",
                            "SELECT count(*) FROM pinconfig_rule r LEFT JOIN pinconfig p ON p.id = "
                            "r.pinconfig_id WHERE p.id IS NULL",
                            data, size);
}
