// SPDX-License-Identifier: Apache-2.0
//
// Files in a folder beside the one that is to be written, which take its name when all is well.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

// The folder of `path`. Freed by the caller; NULL: no memory.
char *folder_of(const char *path);

// Where the files are while they are made. All zero is none.
struct working_folder {
    char *path; // owned
    int fd;     // owned, where there is a path; locked, so that others see that somebody is at it
};

// A new folder beside `output`. Those that were left there by who was killed go.
int working_folder_make(const char *output, struct err *err, struct working_folder *ret);

// Removes it with what is in it.
void working_folder_remove(struct working_folder *folder);

// A new empty file in the folder. The caller frees the path.
int working_file_make(const struct working_folder *folder, const char *name, struct err *err,
                      char **ret);

// Bytes of a file; 0 if there is none.
uint64_t file_size(const char *path);

// Whether a journal of the database is beside it; without memory to look, there is one.
bool has_journal(const char *database);

// Gives the file `working` the name of `output`, whose permissions it takes over if it exists.
// `sync`: only when its data is on the disk. A database with a journal beside it is rewritten in
// place; -EBUSY if somebody keeps it locked.
int working_file_publish(const char *working, const char *output, bool sync, struct err *err);
