// SPDX-License-Identifier: Apache-2.0
//
// Reads any bytes as a zip: the entries of the index lie in the file, apart, and have names; and
// the reading is bounded.
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/zipindex.h"
#include "tests/fuzz/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int compare(const void *a, const void *b)
{
    const struct zipindex_entry *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {.data = data, .size = size};
    struct zipindex_source source = {.size_bytes = size, .read = bytes_read, .userdata = &bytes};
    CLEANUP(zipindex_done) struct zipindex index = {0};
    struct err err = {0};
    if (zipindex_read(&source, "zip", &index, &err) < 0) {
        if (index.entries.n || !err.text[0])
            abort();
        return 0;
    }
    if ((index.n_damaged > 0) != (index.first_damaged[0] != '\0'))
        abort();
    if (index.entries.n)
        qsort(index.entries.items, index.entries.n, sizeof(index.entries.items[0]), compare);
    uint64_t end = 0;
    vec_foreach(&index.entries, entry) {
        if (!entry->name[0] || entry->offset > size || entry->size_bytes > size - entry->offset)
            abort();
        if (entry->size_bytes && entry->offset < end)
            abort();
        if (entry->size_bytes)
            end = entry->offset + entry->size_bytes;
    }
    return 0;
}
