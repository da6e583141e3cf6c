// SPDX-License-Identifier: Apache-2.0
//
// Bytes that grow without using memory: a file without a name, appended to by write and read
// through mappings. Inflated packets, gzip and pipes go here.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/ground/budget.h"

struct spill_part {
    const uint8_t *bytes; // mapped
    size_t offset, size;  // in the file; `size` may lie behind its end
};
VEC_DEFINE(spill_parts, struct spill_part);

struct spill {
    size_t size;
    struct spill_parts parts; // of the file, in order
    int fd;                   // owned; -1 before the first append and when it is finished
    char *folder;             // owned
    struct budget *budget;    // borrowed; NULL: none. To be set before the first append
};

// `folder` holds the file; NULL is the system's place for temporary files.
int spill_init(struct spill *spill, const char *folder, struct err *err);

// -EDQUOT: the budget does not let it grow.
int spill_append(struct spill *spill, const void *bytes, size_t size, struct err *err);

// What was appended from `offset` on. The address stays valid until spill_done(). Offsets do not
// fall from one call to the next. -ENOMEM with text: no address space.
int spill_view(struct spill *spill, size_t offset, size_t size, const uint8_t **ret,
               struct err *err);

// Nothing more will be appended: *ret is all of it in one piece, NULL if there is nothing. The
// descriptor is given back, so that there may be thousands.
int spill_finish(struct spill *spill, const uint8_t **ret, struct err *err);

// Takes the pages out of this process's memory; they come back when they are read.
void spill_forget(const struct spill *spill);
void spill_done(struct spill *spill);

// `folder`, or the system's place for temporary files if it is NULL.
const char *temporary_folder(const char *folder);

// A file without a name in `folder`, for reading and writing; -1 and errno.
int unnamed_open(const char *folder);
