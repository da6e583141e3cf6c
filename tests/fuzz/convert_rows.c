// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a trace, as far as to the rows of the database, and fast: nothing is written (see
// memory_writer.h). The target "convert" makes the same inputs into whole databases.
//
// The database is made as any other, but with a writer that writes nothing. The temporary file that
// is made beside it stays empty; where it can be, it is in memory.
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
