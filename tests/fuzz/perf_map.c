// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a perf map.
#include "tests/fuzz/file_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_file_format("perf-map", "perf-7.map",
                            "SELECT count(*) FROM perf_map_symbol s LEFT JOIN perf_map m ON m.id = "
                            "s.perf_map_id WHERE m.id IS NULL",
                            data, size);
}
