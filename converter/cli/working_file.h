// SPDX-License-Identifier: Apache-2.0
//
// Files beside the one that is to be written, which take its name when all is well.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

// The folder of `path`. Freed by the caller; NULL: no memory.
char *folder_of(const char *path);

// A new empty file beside `output`. The caller frees the path and removes the file.
int working_file_make(const char *output, struct err *err, char **ret);

// Bytes of a file; 0 if there is none.
uint64_t file_size(const char *path);

// Gives the file `working` the name of `output`, whose permissions it takes over if it exists.
// `sync`: only when its data is on the disk. A database with a journal beside it is rewritten in
// place; -EBUSY if somebody keeps it locked.
int working_file_publish(const char *working, const char *output, bool sync, struct err *err);
