// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a pinlist.
#include "tests/fuzz/file_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_file_format(
        "pinlist", "pinlist.meta",
        "SELECT count(*) FROM pinlist_range r LEFT JOIN pinlist p ON p.id = r.pinlist_id "
        "WHERE p.id IS NULL",
        data, size);
}
