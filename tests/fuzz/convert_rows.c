// SPDX-License-Identifier: Apache-2.0
//
// Converts any bytes as a trace, up to the rows of the database. The target is fast, because no row
// is written (see memory_writer.h). The target "convert" makes whole databases from these inputs.
//
// The database has a temporary file, which stays empty. The file is in memory, if possible.
#include <unistd.h>

#include "tests/fuzz/memory_writer.h"
#include "tests/fuzz/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

__attribute__((constructor)) static void start(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input *input = NULL;
    struct database *db = fuzz_import(data, size, database_flush, &input);
    memory_writer_check();
    input_free(input);
    database_free(db);
    return 0;
}
