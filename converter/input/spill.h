// SPDX-License-Identifier: Apache-2.0
//
// Bytes that grow without using memory: a file without a name, appended to by write and read
// through one mapping whose addresses never change. Inflated packets, gzip and pipes go here.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct spill {
    const uint8_t *bytes; // mapped, valid for what was appended; NULL before the first append
    size_t size;
    size_t mapped; // address space set aside
    int fd;        // owned; -1 before the first append and when it is finished
    char *folder;  // owned
};

// `folder` holds the file; NULL is the system's place for temporary files.
int spill_init(struct spill *spill, const char *folder, struct err *err);
int spill_append(struct spill *spill, const void *bytes, size_t size, struct err *err);

// Nothing more will be appended: gives back the descriptor and the address space that is not used,
// so that there may be thousands.
void spill_finish(struct spill *spill);

// Takes the pages out of this process's memory; they come back when they are read.
void spill_forget(const struct spill *spill);
void spill_done(struct spill *spill);

// `folder`, or the system's place for temporary files if it is NULL.
const char *temporary_folder(const char *folder);

// A file without a name in `folder`, for reading and writing; -1 and errno.
int unnamed_open(const char *folder);
