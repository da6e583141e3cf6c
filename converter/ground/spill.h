// SPDX-License-Identifier: Apache-2.0
//
// A growing sequence of bytes outside of memory: an unnamed file that is written at its end and
// read through mappings. Spills hold inflated packets, unpacked data and the bytes of pipes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/vec.h"
#include "converter/ground/budget.h"

struct spill_part {
    const uint8_t *bytes; // mapped
    size_t offset, size;  // in the file; the part may end beyond the file's end
};
VEC_DEFINE(spill_parts, struct spill_part);

struct spill {
    size_t size;
    struct spill_parts parts; // of the file, in order
    int fd;                   // owned; -1 before the first append and after spill_finish()
    char *folder;             // owned
    struct budget *budget;    // borrowed; NULL: none. Set before the first append
};

// Begins an empty spill. `folder`: the folder of the file; NULL: the system's folder for temporary
// files. Returns 0 or a negative errno with text.
int spill_init(struct spill *spill, const char *folder, struct err *err);

// Appends bytes. Returns 0 or a negative errno with text; -EDQUOT if the budget is used up.
int spill_append(struct spill *spill, const void *bytes, size_t size, struct err *err);

// *ret: the bytes from `offset` on, valid until spill_done(). Offsets must not decrease from call
// to call. Returns 0, or -ENOMEM with text if the address space is used up.
int spill_view(struct spill *spill, size_t offset, size_t size, const uint8_t **ret,
               struct err *err);

// Called after the last append. *ret: all bytes in one piece; NULL if the spill is empty. Closes
// the file descriptor, so that thousands of spills can exist. Returns 0 or a negative errno with
// text.
int spill_finish(struct spill *spill, const uint8_t **ret, struct err *err);

// Removes the pages from this process's memory; a read maps them again.
void spill_forget(const struct spill *spill);
void spill_done(struct spill *spill);

// Returns `folder`, or the system's folder for temporary files if `folder` is NULL.
const char *temporary_folder(const char *folder);

// Opens an unnamed file in `folder` for reading and writing. Returns -1 with errno set on failure.
int unnamed_open(const char *folder);
