// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a file of another format: it becomes packets, none of them damaged, and the packets
// become a sound database.
#pragma once

#include <errno.h>
#include <string.h>

#include "converter/translate/translate.h"
#include "tests/fuzz/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// `copies`: packets contain messages of the file, so packets may be damaged.
static inline int fuzz_foreign(enum kind_id kind, bool copies, const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct input *input;
    uint8_t *copy = malloc(size + 1); // shrinks to `size`, so that a read past the end is noticed
    if (!copy)
        return 0;
    if (size)
        memcpy(copy, data, size);
    uint8_t *exact = size ? realloc(copy, size) : copy;
    if (input_from_memory(exact, size, &err, &input) < 0) {
        free(exact);
        return 0;
    }
    int r = translate(input, translator_of(kind), NULL, &err);
    if (r == -EBADMSG && *err.text) { // the file is of another kind
        input_free(input);
        free(exact);
        return 0;
    }
    if (r < 0) {
        fprintf(stderr, "translation failed: %s\n", err.text);
        abort();
    }
    struct database *db = fuzz_convert(input_bytes(input), input_size(input));
    fuzz_expect_none(database_handle(db),
                     "SELECT 1 FROM stats WHERE name = 'mmsql_truncated_at' AND value");
    if (!copies)
        fuzz_expect_none(database_handle(db),
                         "SELECT 1 FROM stats WHERE name = 'mmsql_packets_damaged' AND value");
    database_free(db);
    input_free(input);
    free(exact);
    return 0;
}
