// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as an allocation log.
#include "tests/fuzz/file_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_file_format(
        "alloc-log", "log",
        "SELECT count(*) FROM alloc_log_stack s LEFT JOIN alloc_log_record r ON r.id = "
        "s.record_id WHERE r.id IS NULL",
        data, size);
}
