// SPDX-License-Identifier: Apache-2.0
//
// The input of a fuzz target as a file that is read by offset; a read beyond its end is a fault.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t size;
};

static inline int bytes_read(void *userdata, uint64_t offset, void *ret, size_t size)
{
    const struct bytes *bytes = userdata;
    if (offset > bytes->size || size > bytes->size - offset)
        abort();
    memcpy(ret, bytes->data + offset, size);
    return 0;
}
