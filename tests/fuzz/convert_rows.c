// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a trace, as far as to the rows of the database, and fast: nothing is written (see
// memory_writer.h). The target "convert" makes the same inputs into whole databases.
//
// The database is made as any other, but with a writer that writes nothing. The temporary file that
// is made beside it stays empty; where it can be, it is in memory.
#include <unistd.h>

#include "converter/import/import_trace.h"
#include "converter/input/input.h"
#include "tests/fuzz/memory_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

__attribute__((constructor)) static void start(void)
{
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct input *input = NULL;
    struct database *db = NULL;
    struct trace_result result;
    int r = input_from_memory(data, size, &err, &input);
    if (r == 0)
        r = database_create(NULL, &err, &db);
    if (r == 0)
        r = import_trace(db, input, NULL, NULL, NULL, &err, &result);
    if (r == 0)
        r = database_flush(db, &err);
    if (r < 0) {
        fprintf(stderr, "conversion failed: %s\n", err.text);
        abort();
    }
    memory_writer_check();
    input_free(input);
    database_free(db);
    return 0;
}
